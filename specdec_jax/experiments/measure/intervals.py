"""The 95% interval of a mean over tokens of several outputs."""

import numpy as np

NORMAL_95 = 1.959964  # of a normal's mass, 95% lies so many deviations around its mean


def mean_with_interval(
    values: np.ndarray, sequence: np.ndarray
) -> tuple[float, tuple[float, float]]:
    """The mean over positions, and its 95% interval by sequences: `ratio_of_sums`.

    Args:
      values: [N], in [0, 1].
      sequence: [N], which sequence each is of.
    """
    if not len(values):
        return 0.0, (0.0, 1.0)
    _, index = np.unique(sequence, return_inverse=True)
    return ratio_of_sums(np.bincount(index, values), np.bincount(index))


def ratio_of_sums(
    sums: np.ndarray, counts: np.ndarray
) -> tuple[float, tuple[float, float]]:
    """The mean over all positions of sequences, and its 95% interval.

    Positions of a sequence are not independent, sequences are: the mean is a ratio of
    sums over sequences, with the variance of such a ratio,
    S/(S-1) sum_s (sum of s - mean n_s)^2 / N^2. Of one sequence the interval is all of
    [0, 1], in which the values lie; and so it is of nothing, with a mean of 0.

    Args:
      sums: [S], of the values of each sequence, each value in [0, 1].
      counts: [S], n_s, how many they are.
    """
    sums, counts = sums[counts > 0], counts[counts > 0]
    if not len(counts):
        return 0.0, (0.0, 1.0)
    mean = float(sums.sum() / counts.sum())
    number = len(counts)
    if number < 2:
        return mean, (0.0, 1.0)
    variance = np.sum((sums - mean * counts) ** 2) * number / (number - 1)
    half = NORMAL_95 * float(np.sqrt(variance)) / counts.sum()
    return mean, (max(0.0, float(mean - half)), min(1.0, float(mean + half)))
