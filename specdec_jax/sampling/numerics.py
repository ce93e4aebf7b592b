"""Zero mass, minus infinity and 0/0: the only file in which they are dealt with.

Everything above this file may divide, take a softmax and draw without an epsilon of its
own. All functions are for one stream (no batch axis) and in float32; `jax.vmap` batches
them.
"""

import jax.numpy as jnp
from jax import lax

from specdec_jax.typing import Array, Bool, Float32, Int32

# `draw` sums the vocabulary in tiles of this many ids: the lane width of a TPU, and a
# divisor of 4096 and 32128. Other vocabularies are padded up to it with zero mass.
TILE = 128


def normalize(
    weights_v: Float32[Array, " V"], fallback_v: Float32[Array, " V"]
) -> Float32[Array, " V"]:
    """norm(w) of the paper: `weights / sum(weights)`, and `fallback` if the sum is 0.

    normalize([1, 3, 0], f) is [.25, .75, 0]; normalize([0, 0, 0], f) is f.

    Args:
      weights_v: [V], non-negative. A NaN makes the result NaN; it is not hidden.
      fallback_v: [V], returned as it is when no weight is positive.

    Returns:
      [V], a distribution (or the fallback, bit for bit).
    """
    total = jnp.sum(weights_v)
    empty = total == 0
    # The double where: the branch not taken must not divide by zero either.
    return jnp.where(empty, fallback_v, weights_v / jnp.where(empty, 1.0, total))


def masked_softmax(
    logits_v: Float32[Array, " V"],
    mask_v: Bool[Array, " V"],
    temperature: Float32[Array, ""],
) -> Float32[Array, " V"]:
    """softmax(logits / temperature) where `mask` is true; exactly 0 everywhere else.

    Of logits [0, log 2, log 2, 9] and a mask that is false at the 9: temperature 1
    gives [.2, .4, .4, 0], temperature .5 gives [1/9, 4/9, 4/9, 0], and temperature 0
    gives [0, 1, 0, 0], the argmax, at the lowest id of a tie (as in `jnp.argmax`).

    Args:
      logits_v: [V], finite or -inf. An id at -inf gets exactly 0. NaN gives NaN, at
        temperature 0 too.
      mask_v: [V]. What the logits hold where it is false (NaN and inf too) is ignored.
      temperature: [], finite, >= 0. At 0 the result is an exact one-hot, and nothing is
        divided by 0 or by a stand-in for it.

    Returns:
      [V], a distribution; all zeros if no id has both a true mask and a logit > -inf.
    """
    size = logits_v.shape[0]
    id_v = jnp.arange(size, dtype=jnp.int32)
    logits_v = jnp.where(mask_v, logits_v, -jnp.inf)
    peak = jnp.max(logits_v)
    peak = jnp.where(peak == -jnp.inf, 0.0, peak)  # -inf - -inf would be NaN
    # Equal to jnp.argmax, which XLA runs five times slower on a CPU.
    top_id = jnp.min(jnp.where(logits_v == peak, id_v, size))
    is_argmax = temperature == 0
    # As in `normalize`, the branch not taken must not divide by zero either. The
    # peak is taken off before the division, so that no temperature overflows it.
    scaled_v = (logits_v - peak) / jnp.where(is_argmax, 1.0, temperature)
    # 1 / temperature may be 0, and -inf times 0 NaN.
    scaled_v = jnp.where(logits_v == -jnp.inf, -jnp.inf, scaled_v)
    one_hot_v = (id_v == top_id).astype(jnp.float32)
    weights_v = jnp.where(is_argmax, one_hot_v, jnp.exp(scaled_v))
    # Without mass: zeros, or NaN if that is what the logits hold.
    return normalize(weights_v, fallback_v=jnp.full(size, 0.0 * peak))


def draw(
    probs_v: Float32[Array, " V"], uniform: Float32[Array, ""]
) -> Int32[Array, ""]:
    """Draws one token by the inverse of the cumulative mass, with one uniform number.

    The token is the first whose cumulative mass exceeds u * total. With masses
    [0, .25, .75, 0], u = 0 and u = .2 give 1, u = .25 gives 2, and so does every
    larger u below 1. So a one-hot distribution gives its token for every u.

    A token of zero mass is never returned, whatever the rounding. The sum is taken over
    tiles of 128 ids, then inside the one tile that u falls in, so that only V additions
    and two short cumulative sums are paid. If the two levels round differently, the
    search inside the tile ends at its first or last id of positive mass.

    The law's resolution: `jax.random.uniform` returns multiples of 2^-23 and the sums
    carry float32 rounding, so the probability of every token, and of every interval of
    ids, is off by some 2^-22 = 2.4e-7 of the total. A token of less mass than that may
    be drawn several times as often as it should, or never.

    Args:
      probs_v: [V], non-negative, at least one positive: the caller's precondition
        (without any mass the answer, some id in [0, V), has no meaning). They need not
        sum to 1.
      uniform: [], in [0, 1).

    Returns:
      The token's id, int32 [].
    """
    size = probs_v.shape[0]
    width = min(TILE, size)
    tiles = jnp.pad(probs_v, (0, -size % width)).reshape(-1, width)
    tile_mass = jnp.sum(tiles, axis=1)
    below = jnp.cumsum(tile_mass)
    threshold = uniform * below[-1]
    tile = _first_past(below, tile_mass, threshold)
    before = jnp.where(tile > 0, below[tile - 1], 0.0)
    mass = lax.dynamic_index_in_dim(tiles, tile, keepdims=False)
    return tile * width + _first_past(jnp.cumsum(mass), mass, threshold - before)


def _first_past(
    cumulative_k: Float32[Array, " K"],
    mass_k: Float32[Array, " K"],
    threshold: Float32[Array, ""],
) -> Int32[Array, ""]:
    """The first index of positive mass past the threshold; if none, the last such."""
    index = jnp.arange(mass_k.shape[0], dtype=jnp.int32)
    positive = mass_k > 0
    past = jnp.where(positive & (cumulative_k > threshold), index, mass_k.shape[0])
    return jnp.minimum(jnp.min(past), jnp.max(jnp.where(positive, index, 0)))


def smallest_prefix(
    probs_v: Float32[Array, " V"],
    measure_v: Float32[Array, " V"],
    goal: Float32[Array, ""],
) -> Bool[Array, " V"]:
    """The fewest ids, most probable first, whose measure together reaches the goal.

    Ids stand in the order (probability descending, id ascending), so ties have one
    answer. With probabilities [.2, .4, .2, .2] as their own measure, a goal of .5 keeps
    ids 1 and 0. A measure of ones counts ids: with goal 3 it keeps 1, 0 and 2.

    Nothing is sorted: sorting 5 rows of 4096 takes XLA 4.5 ms on a CPU. The order of
    non-negative floats is the order of their bits, so the last probability kept is
    built up bit by bit, with one masked sum over V for each of 31 bits; and then, among
    the ids tied at that probability, the last id kept. This is safe in floating point
    because masked sums that add in the same order are monotone in the mask.

    Args:
      probs_v: [V], non-negative: what orders the ids.
      measure_v: [V], non-negative: what is added up.
      goal: [], positive.

    Returns:
      [V], true for the ids kept; all of them if even their sum is below the goal.
    """
    bits_v = lax.bitcast_convert_type(probs_v, jnp.int32)
    id_v = jnp.arange(probs_v.shape[0], dtype=jnp.int32)

    def reaches(kept_v):
        return jnp.sum(jnp.where(kept_v, measure_v, 0.0)) >= goal

    last = _largest(31, lambda least: reaches(bits_v >= least))
    above_v, tied_v = bits_v > last, bits_v == last
    last_id = _largest(
        (probs_v.shape[0] - 1).bit_length(),
        lambda stop: ~reaches(above_v | (tied_v & (id_v < stop))),
    )
    return above_v | (tied_v & (id_v <= last_id))


def _largest(num_bits: int, holds) -> Int32[Array, ""]:
    """The largest int32 below 2^num_bits at which a falling predicate holds, else 0."""

    def set_bit(i, found):
        candidate = found | (1 << (num_bits - 1 - i))
        return jnp.where(holds(candidate), candidate, found)

    return lax.fori_loop(0, num_bits, set_bit, jnp.int32(0))
