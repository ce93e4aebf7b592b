"""From logits to the distribution that is sampled (section 2.2 of the paper).

Argmax, temperature, top-k and top-p are all cast as sampling from an adjusted
distribution, so that Algorithm 1 need know of none of them. The same function serves
the target's p, the drafter's q, the bonus token and the baseline.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from specdec_jax.sampling import numerics
from specdec_jax.typing import Array, Bool, Float32, Int32, record


@record
class Warp:
    """How one stream's logits become a distribution.

    Every field is traced, so that sweeps do not recompile, and has shape [] for one
    stream and [B] for a batch of unlike rows.
    """

    temperature: Float32[Array, "*B"]  # 0 is argmax; 1 leaves the model as it is
    top_k: Int32[Array, "*B"]  # keep the k likeliest ids; 0 is off
    top_p: Float32[Array, "*B"]  # keep the smallest set of this mass; 1 is off

    @classmethod
    def from_values(cls, temperature=1.0, top_k=0, top_p=1.0) -> "Warp":
        """A Warp of host numbers, or of sequences of B numbers; checked and broadcast.

        Raises:
          ValueError: temperature is negative or not finite, top_k is negative, or top_p
            is outside (0, 1].
        """
        temperature, top_k, top_p = np.broadcast_arrays(temperature, top_k, top_p)
        if not np.all(np.isfinite(temperature) & (temperature >= 0)):
            raise ValueError(f"temperature must be finite and >= 0, got {temperature}")
        if not np.all(top_k >= 0):
            raise ValueError(f"top_k must be >= 0 (0 is off), got {top_k}")
        if not np.all((top_p > 0) & (top_p <= 1)):
            raise ValueError(f"top_p must be in (0, 1] (1 is off), got {top_p}")
        return cls(
            temperature=jnp.asarray(temperature, jnp.float32),
            top_k=jnp.asarray(top_k, jnp.int32),
            top_p=jnp.asarray(top_p, jnp.float32),
        )


def standardize(
    logits_v: Float32[Array, " V"], warp: Warp, vocab_size: int
) -> Float32[Array, " V"]:
    """The distribution to sample from at one position.

    In this order: ids of the padding masked, temperature, top-k, top-p, renormalised.
    Of logits log [.5, .3, .1, .1]:
      temperature 0            gives [1, 0, 0, 0]
      top_k 3                  gives [5, 3, 1, 0] / 9   (a tie: the lower id stays)
      top_p .75                gives [5, 3, 0, 0] / 8   (.5 is short of .75, .8 is not)
      top_k 3 and top_p .85    gives [5, 3, 0, 0] / 8   (8/9 of what top-k left)

    Args:
      logits_v: [V], finite or -inf, a finite one below `vocab_size`. NaN gives NaN.
      warp: of shape []. Temperature 0 is an exact one-hot of the argmax, at the lowest
        id if several tie; top-k and top-p then change nothing. top-p keeps the smallest
        set, in the order (probability descending, id ascending), whose mass is at
        least top_p of what top-k left, and always at least one id.
      vocab_size: ids from here to V are padding, and get exactly 0.

    Returns:
      [V], a distribution.

    Raises:
      ValueError: vocab_size is not in 1..V.
    """
    probs_v = _tempered(logits_v, warp.temperature, vocab_size)
    top_k, top_p = _filters_in_force(warp)
    return _keep_top_p(_keep_top_k(probs_v, top_k), top_p)


def standardize_rows(
    logits_btv: Float32[Array, "B T V"], warp_b: Warp, vocab_size: int
) -> Float32[Array, "B T V"]:
    """`standardize` at T positions of B rows, each row with its own warp.

    A filter is paid for only while some row has it on: its `lax.cond` stands outside
    the vmap, where it stays a branch and does not become a select of both. A row
    without the filter is the same to the bit whichever branch its neighbours take.

    Args:
      logits_btv: [B, T, V], as in `standardize`.
      warp_b: of shape [B].
      vocab_size: ids from here to V are padding, and get exactly 0.

    Returns:
      [B, T, V], a distribution at each position.
    """

    def over_rows(function):
        return jax.vmap(jax.vmap(function, (0, None)))  # over B, and over T inside

    def filter_rows(keep, setting_b, is_on_b, probs_btv):
        return lax.cond(
            jnp.any(is_on_b), over_rows(keep), lambda p, _: p, probs_btv, setting_b
        )

    top_k_b, top_p_b = _filters_in_force(warp_b)
    tempered = over_rows(lambda x, t: _tempered(x, t, vocab_size))
    probs_btv = tempered(logits_btv, warp_b.temperature)
    probs_btv = filter_rows(_keep_top_k, top_k_b, top_k_b > 0, probs_btv)
    return filter_rows(_keep_top_p, top_p_b, top_p_b < 1, probs_btv)


def _tempered(
    logits_v: Float32[Array, " V"], temperature: Float32[Array, ""], vocab_size: int
) -> Float32[Array, " V"]:
    """The model's distribution over the real ids at this temperature."""
    size = logits_v.shape[0]
    if not 1 <= vocab_size <= size:
        raise ValueError(f"vocab_size must be in 1..{size}, got {vocab_size}")
    return numerics.masked_softmax(logits_v, jnp.arange(size) < vocab_size, temperature)


def _filters_in_force(warp: Warp) -> tuple[Int32[Array, "*B"], Float32[Array, "*B"]]:
    """top_k and top_p, put off at temperature 0, where they change nothing."""
    is_argmax = warp.temperature == 0
    return jnp.where(is_argmax, 0, warp.top_k), jnp.where(is_argmax, 1.0, warp.top_p)


def _keep_top_k(
    probs_v: Float32[Array, " V"], top_k: Int32[Array, ""]
) -> Float32[Array, " V"]:
    """The k likeliest ids, renormalised; the same array, to the bit, for k = 0."""
    ones_v = jnp.ones_like(probs_v)
    kept_v = numerics.smallest_prefix(probs_v, ones_v, top_k.astype(jnp.float32))
    return jnp.where(top_k > 0, _restricted(probs_v, kept_v), probs_v)


def _keep_top_p(
    probs_v: Float32[Array, " V"], top_p: Float32[Array, ""]
) -> Float32[Array, " V"]:
    """The nucleus of mass top_p, renormalised; the same, to the bit, for top_p = 1."""
    goal = top_p * jnp.sum(probs_v)
    kept_v = numerics.smallest_prefix(probs_v, probs_v, goal)
    return jnp.where(top_p < 1, _restricted(probs_v, kept_v), probs_v)


def _restricted(
    probs_v: Float32[Array, " V"], kept_v: Bool[Array, " V"]
) -> Float32[Array, " V"]:
    """The distribution given that the draw is among the ids kept."""
    return numerics.normalize(jnp.where(kept_v, probs_v, 0.0), fallback_v=probs_v)
