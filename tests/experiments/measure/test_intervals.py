"""The interval of a mean by sequences."""

import numpy as np
import pytest

from specdec_jax.experiments.measure.intervals import mean_with_interval, ratio_of_sums


def test_the_mean_is_over_positions_and_its_interval_by_sequences():
    values = np.array([1.0, 0.5, 0.0, 0.5])
    sequence = np.array([0, 0, 0, 7])
    # Sums 1.5 and .5 of 3 and 1: a mean of .5, and no sequence off it.
    assert mean_with_interval(values, sequence) == (0.5, (0.5, 0.5))
    mean, (low, high) = mean_with_interval(np.array([0.6, 0.4]), np.array([1, 2]))
    half = 1.959964 * np.sqrt(2 * (0.1**2 + 0.1**2)) / 2
    assert mean == pytest.approx(0.5)
    assert (low, high) == pytest.approx((0.5 - half, 0.5 + half))
    assert mean_with_interval(values, np.zeros(4, int)) == (0.5, (0.0, 1.0))
    assert mean_with_interval(values[:0], sequence[:0]) == (0.0, (0.0, 1.0))
    # A sequence of no positions, as of an output without a draft token, is none.
    sums, counts = np.array([0.6, 0.0, 0.4]), np.array([1, 0, 1])
    assert ratio_of_sums(sums, counts) == ratio_of_sums(sums[::2], counts[::2])
    assert ratio_of_sums(sums[1:2], counts[1:2]) == (0.0, (0.0, 1.0))


def test_the_interval_covers_the_truth_where_positions_hang_together():
    """400 samples of 40 sequences of 5 equal positions: 95% by sequences, not by far
    by positions."""
    rng = np.random.default_rng(0)
    sequence = np.repeat(np.arange(40), 5)
    covered = 0
    for _ in range(400):
        values = np.repeat(rng.uniform(size=40), 5)
        low, high = mean_with_interval(values, sequence)[1]
        covered += low <= 0.5 <= high
    assert 0.91 < covered / 400 < 0.98
