"""How beta varies along outputs: Theorem 3.8 takes it as independent and alike.

beta is the chance that a draft token is accepted; where there is none it is 0.
"""

from collections.abc import Sequence

import numpy as np

from specdec_jax.sampling import theory
from specdec_jax.typing import Any

LAGS = 8
BINS = 10


def describe(betas: Sequence[np.ndarray]) -> dict[str, Any]:
    """Numbers for a record.

    Args:
      betas: of each output, [T].

    Returns:
      "beta_by_position", the mean at each place of an output, and
      "outputs_by_position", of how many; "beta_autocorrelation" at lags 1 .. `LAGS`;
      and "beta_histogram", the shares of tenths of [0, 1], 1 being of the last.
    """
    longest = max(map(len, betas))
    counts = np.array([sum(len(one) > t for one in betas) for t in range(longest)])
    sums = sum(np.pad(one, (0, longest - len(one))) for one in betas)
    histogram, _ = np.histogram(np.concatenate(betas), BINS, (0.0, 1.0))
    return {
        "beta_by_position": _short(sums / counts),
        "outputs_by_position": counts.tolist(),
        "beta_autocorrelation": [autocorrelation(betas, k + 1) for k in range(LAGS)],
        "beta_histogram": _short(histogram / histogram.sum()),
    }


def autocorrelation(betas: Sequence[np.ndarray], lag: int) -> float | None:
    """The correlation of beta with itself `lag` tokens later, within outputs.

    sum (beta_t - m)(beta_{t+lag} - m) / pairs over the variance, m and the variance
    being of all tokens. Independent betas have 0. Since outputs differ as wholes it may
    be above 0 at every lag. None where there is no pair, or nothing varies.
    """
    tokens = np.concatenate(betas)
    mean, variance = tokens.mean(), tokens.var()
    pairs = [(one[:-lag] - mean) * (one[lag:] - mean) for one in betas]
    products = np.concatenate(pairs)
    if not len(products) or tokens.min() == tokens.max():
        return None
    return round(float(products.mean() / variance), 4)


def tokens_per_target_call(
    betas: Sequence[np.ndarray],
    accept_probs: Sequence[np.ndarray],
    gammas: Sequence[int],
) -> dict[str, Any]:
    """Tokens that a target call gives: by the sequence, and if beta were i.i.d.

    Args:
      betas: of each output, [T].
      accept_probs: of each output, [T]: `Acceptance.accept_probs`.
      gammas: block sizes.

    Returns:
      "gammas"; "tokens_per_target_call", which is exact on average; and
      "tokens_per_target_call_iid", of outputs of the same lengths whose draft tokens
      are all accepted with the mean beta.
    """
    alpha, lengths = float(np.concatenate(betas).mean()), [len(one) for one in betas]
    by_sequence, iid = [], []
    for gamma in gammas:
        calls = sum(
            theory.expected_target_calls_along(one, gamma) for one in accept_probs
        )
        alike = {n: theory.expected_target_calls(alpha, gamma, n) for n in set(lengths)}
        by_sequence.append(sum(lengths) / calls)
        iid.append(sum(lengths) / sum(alike[n] for n in lengths))
    return {
        "gammas": list(gammas),
        "tokens_per_target_call": _short(np.array(by_sequence)),
        "tokens_per_target_call_iid": _short(np.array(iid)),
    }


def _short(values: np.ndarray) -> list[float]:
    return values.round(4).tolist()
