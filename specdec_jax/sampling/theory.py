"""The paper's formulas, in float64 numpy: sections 3.1 to 3.5 and appendix A.2, A.5.

alpha  mean acceptance rate, E[sum_x min(p, q)]          c      time of a draft run over
gamma  draft tokens a block                                     time of a target call
c_hat  the same ratio in operations                      l      lenience

Scalars give floats; arrays broadcast and give arrays. Distributions lie along the last
axis. Arguments out of their domain raise a ValueError that names them.
"""

from collections.abc import Sequence

import numpy as np

from specdec_jax.typing import Array

Numbers = int | float | np.number | np.ndarray | Array
Distribution = Sequence | np.ndarray | Array
Rates = Distribution  # one number a token
Answer = float | np.ndarray


def divergence(p: Distribution, q: Distribution) -> Answer:
    """D_LK(p, q) = sum_x |p - M| with M = (p + q)/2 (Definition 3.2); in [0, 1].

    divergence([.5, .5], [1, 0]) is .5. It is symmetric, 0 iff p = q, 1 iff disjoint.
    """
    p, q = _distributions(p, q)
    return _float(np.sum(np.abs(p - (p + q) / 2), axis=-1))


def beta(p: Distribution, q: Distribution) -> Answer:
    """Acceptance rate 1 - D_LK = sum_x min(p, q) of one draft token (Theorem 3.5)."""
    p, q = _distributions(p, q)
    return _float(np.sum(np.minimum(p, q), axis=-1))


def lenient_alpha(p: Distribution, q: Distribution, lenience: Numbers) -> Answer:
    """Acceptance rate sum_x min(p/l, q) under lenience, at temperature > 0 (A.5)."""
    p, q = _distributions(p, q)
    l = np.asarray(lenience, float)  # noqa: E741, the paper's letter
    _check(np.all((l > 0) & (l <= 1)), "lenience must be in (0, 1]", lenience)
    return _float(np.sum(np.minimum(p / l[..., None], q), axis=-1))


def lenient_greedy_alpha(p: Distribution, q: Distribution, lenience: Numbers) -> Answer:
    """Whether argmax q is accepted at temperature 0 under lenience, 0 or 1 (A.5).

    p and q are the models' own, of temperature 1: x is accepted if p(x) >= l max p (the
    printed <= is a misprint), and at l = 1 only the argmax does, of tied ids the
    lowest. Its mean is alpha. Of p = .5 .3 .2 and q = .2 .5 .3, l = .5 accepts it and
    l = .7 does not.
    """
    p, q = _distributions(p, q)
    l = np.asarray(lenience, float)  # noqa: E741, the paper's letter
    _check(np.all((l > 0) & (l <= 1)), "lenience must be in (0, 1]", lenience)
    drafted = np.argmax(q, axis=-1)
    p_drafted = np.take_along_axis(p, drafted[..., None], axis=-1)[..., 0]
    is_close = (l < 1) & (p_drafted >= l * np.max(p, axis=-1))
    return _float(np.where(is_close | (drafted == np.argmax(p, axis=-1)), 1.0, 0.0))


def rejection_sampling_acceptance(p: Distribution, q: Distribution) -> Answer:
    """sum_x p(x) min_x' q(x')/p(x') <= beta, non-iterative rejection sampling (A.2).

    Where p has no mass the ratio is no constraint; where q alone has none, nothing is
    ever accepted. rejection_sampling_acceptance([.5, .5], [.75, .25]) is .5, to
    beta's .75.
    """
    p, q = _distributions(p, q)
    ratio = np.divide(q, p, out=np.full(np.shape(p), np.inf), where=p > 0)
    return _float(np.sum(p * np.min(ratio, axis=-1, keepdims=True), axis=-1))


def expected_tokens(alpha: Numbers, gamma: Numbers) -> Answer:
    """E[tokens per target call] = (1 - alpha^(gamma+1)) / (1 - alpha) (equation 1).

    expected_tokens(.8, 5) is 3.69. alpha = 1 gives the limit gamma + 1, and gamma = inf
    the limit 1/(1 - alpha).
    """
    alpha, gamma = np.broadcast_arrays(_alpha(alpha), _gamma(gamma))
    unsure = np.where(alpha < 1, alpha, 0.0)
    with np.errstate(divide="ignore"):  # log 0 = -inf is meant: exp gives 0 again
        # expm1 because 1 - alpha^n cancels as alpha nears 1.
        tokens = -np.expm1((gamma + 1) * np.log(unsure)) / (1 - unsure)
    return _float(np.where(alpha < 1, tokens, gamma + 1))


def expected_target_calls(alpha: float, gamma: int, length: int) -> float:
    """E[target calls] until an output of `length` tokens, its EOS included, is whole.

    Equation 1 is for outputs without end. In a short one the last block is cut by the
    end, so a run gives fewer tokens on average: with R(m) = 0 for m <= 0,
    R(m) = 1 + sum_k P(k accepted) R(m - k - 1), for k in 0..gamma.
    expected_target_calls(.8, 3, 16) is 5.82, to 16 / expected_tokens(.8, 3) = 5.42.
    """
    _check(length >= 0 and length == int(length), "length must be whole, >= 0", length)
    return expected_target_calls_along([float(_alpha(alpha))] * int(length), gamma)


def expected_target_calls_along(rates: Rates, gamma: int) -> float:
    """E[target calls] of one output, a rate for each of its tokens: no i.i.d. here.

    rates[t] is the chance that a token drafted at t is accepted, given the output. With
    R(t) calls left at token t, none past the end, and g = gamma,
      R(t) = 1 + sum_{k<g} a_t .. a_{t+k-1} (1 - a_{t+k}) R(t+k+1)
               + a_t .. a_{t+g-1} R(t+g+1).
    expected_target_calls_along([1, 0, 1], 1) is 2: the first draft token is accepted
    and the second token comes with it; then one more call.
    """
    rates, gamma = np.asarray(rates, float), float(_gamma(gamma))
    _check(np.all((rates >= 0) & (rates <= 1)), "rates must be in [0, 1]", rates)
    _check(np.isfinite(gamma), "gamma must be finite", gamma)
    rates, gamma = rates.tolist(), int(gamma)
    runs = [0.0] * (len(rates) + gamma + 2)
    for t in reversed(range(len(rates))):
        runs[t], stand = 1.0, 1.0
        for k, rate in enumerate(rates[t : t + gamma]):
            runs[t] += stand * (1 - rate) * runs[t + k + 1]
            stand *= rate
        runs[t] += stand * runs[t + gamma + 1]
    return runs[0]


def speedup(alpha: Numbers, gamma: Numbers, c: Numbers, v: Numbers = 1.0) -> Answer:
    """Walltime of the baseline over ours: E[tokens] / (gamma c + v) (Theorem 3.8).

    speedup(.75, 7, .02) is 3.16. Below 1 it is a slow-down.

    Args:
      alpha, gamma, c: as at the top of the file.
      v: time of verifying gamma + 1 tokens over time of a target call of one. The paper
        assumes 1: spare compute makes the wider run free.
    """
    return _float(expected_tokens(alpha, gamma) / (_draft_cost(gamma, c) + _cost(v)))


def operations(alpha: Numbers, gamma: Numbers, c_hat: Numbers) -> Answer:
    """Arithmetic of ours over the baseline's, a token (Theorem 3.11).

    (1 - alpha)(gamma c_hat + gamma + 1) / (1 - alpha^(gamma+1)): dropped tokens are
    paid for. operations(.8, 5, 0) is 1.63.
    """
    runs = _draft_cost(gamma, c_hat, "c_hat") + _gamma(gamma) + 1
    return _float(runs / expected_tokens(alpha, gamma))


def best_gamma(alpha: Numbers, c: Numbers, max_gamma: int, v: Numbers = 1.0) -> int:
    """The gamma in 0..max_gamma of the largest `speedup`; of equals the smallest.

    best_gamma(.9, .05, 64) is 13. 0 says: do not speculate. Arguments are scalars, but
    for v, which may also be max_gamma + 1 numbers: a pass over 1, 2, ... tokens. With
    v = 1 + .2 gamma, best_gamma(.9, .05, 64, v) is 6.
    """
    _check(max_gamma >= 0, "max_gamma must be >= 0", max_gamma)
    return int(np.argmax(speedup(alpha, np.arange(max_gamma + 1), c, v)))


def can_improve(alpha: Numbers, c: Numbers) -> bool | np.ndarray:
    """Whether some gamma gives a speedup above 1: iff alpha > c (Corollary 3.9)."""
    improves = np.asarray(_alpha(alpha) > _cost(c, "c"))
    return improves if improves.ndim else bool(improves)


def guaranteed_speedup(alpha: Numbers, c: Numbers) -> Answer:
    """(1 + alpha)/(1 + c), a floor of the best speedup if alpha > c (Corollary 3.9).

    It is what gamma = 1 gives, so it holds as a formula for every alpha and c.
    """
    return _float((1 + _alpha(alpha)) / (1 + _cost(c, "c")))


def oracle_tokens(alpha: Numbers) -> Answer:
    """1/(1 - alpha): E[tokens] if each block stopped at its first rejection."""
    return expected_tokens(alpha, np.inf)


def oracle_speedup(alpha: Numbers, c: Numbers) -> Answer:
    """1/(1 - alpha + c alpha): the speedup of that oracle (section 3.5).

    A block has alpha/(1 - alpha) accepted tokens; the oracle drafts no other. No fixed
    gamma does better. oracle_speedup(.8, .05) is 4.17, where `best_gamma` reaches 3.09.
    """
    alpha, c = _alpha(alpha), _cost(c, "c")
    with np.errstate(divide="ignore"):  # alpha = 1, c = 0: without bound
        return _float(1 / (1 - alpha + c * alpha))


def _draft_cost(gamma, c, name="c"):
    """gamma c, where free draft tokens stay free when there is no end of them."""
    gamma, c = np.broadcast_arrays(_gamma(gamma), _cost(c, name))
    return np.where(c > 0, gamma, 0.0) * c


def _alpha(alpha):
    alpha = np.asarray(alpha, float)
    _check(np.all((alpha >= 0) & (alpha <= 1)), "alpha must be in [0, 1]", alpha)
    return alpha


def _gamma(gamma):
    gamma = np.asarray(gamma, float)
    is_count = (gamma >= 0) & ((gamma == np.inf) | (gamma == np.round(gamma)))
    _check(np.all(is_count), "gamma must be an integer >= 0 or inf", gamma)
    return gamma


def _cost(cost, name="v"):
    cost = np.asarray(cost, float)
    if name == "v":
        _check(np.all((cost > 0) & np.isfinite(cost)), "v must be finite and > 0", cost)
    else:
        is_cost = (cost >= 0) & np.isfinite(cost)
        _check(np.all(is_cost), f"{name} must be finite and >= 0", cost)
    return cost


def _distributions(p, q):
    p, q = np.asarray(p, float), np.asarray(q, float)
    for name, x in (("p", p), ("q", q)):
        is_distribution = x.ndim and np.all(x >= 0)
        is_distribution = is_distribution and np.allclose(x.sum(-1), 1, atol=1e-3)
        _check(is_distribution, f"{name} must be a distribution on the last axis", x)
    same = p.shape[-1] == q.shape[-1]
    _check(same, "p and q must have one vocabulary", (p.shape, q.shape))
    return np.broadcast_arrays(p, q)


def _check(is_valid, requirement, value):
    if not is_valid:
        raise ValueError(f"{requirement}, got {value}")


def _float(x) -> Answer:
    """A float of a 0-dimensional array."""
    return x if np.ndim(x) else float(x)
