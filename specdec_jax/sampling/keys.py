"""One key for each (row, step, use), and no key twice.

    key                                the call's own, from `seed_key`
     └ fold_in(key, row id)            `row_keys`: a row's own stream, made once
        ├ fold_in(·, step)             a step of the loop: one target call
        │  └ fold_in(·, use)           `uniforms`: DRAFT, ACCEPT, CORRECT or SAMPLE
        └ fold_in(·, POSITIONS)
           └ fold_in(·, position)      `position_keys`: an absolute position of the row

A row's numbers depend on the call's key, its row id and its step, so on nothing about
its neighbours, and equal rows with unlike ids draw differently. Within a use the
numbers are one array, drawn at once: a block's G draft tokens share one key but no
number. Keys of positions are for rules in which the drafter, the target and the
baseline are to draw with the same noise. Nothing is split and no key is carried: any
draw of any row can be made again from its address.
"""

import enum

import jax
import jax.numpy as jnp

from specdec_jax.typing import Array, Float32, Int32, Key


class Use(enum.IntEnum):
    """Who consumes a key. The values are part of what a seed means: do not renumber."""

    DRAFT = 0  # x_i ~ q_i(x), a number a draft token (Algorithm 1)
    ACCEPT = 1  # r_i ~ U(0, 1), a number a draft token (Algorithm 1)
    CORRECT = 2  # t ~ p'(x), one number a block (Algorithm 1)
    SAMPLE = 3  # x ~ p(x), one number a step (the baseline, and rows of gamma 0)


# Of a row's keys of positions; no loop has so many steps.
POSITIONS = 2**32 - 1


def seed_key(seed: int) -> Key[Array, ""]:
    """The key of a call, threefry's whatever `jax_default_prng_impl` is.

    Other generators do not act row by row under vmap, so that a row's draws would
    depend on its batch.
    """
    return jax.random.key(seed, impl="threefry2x32")


def row_keys(key: Key[Array, ""], row_ids: Int32[Array, " B"]) -> Key[Array, " B"]:
    """The keys of B rows: `fold_in(key, row id)`.

    Args:
      key: a typed key, from `seed_key`.
      row_ids: [B], what the rows are known by. `jnp.arange(B)` unless rows of one job
        are spread over several batches, where their place in the job keeps them apart.

    Returns:
      [B] keys; equal ids have equal keys.
    """
    return jax.vmap(jax.random.fold_in, (None, 0))(key, row_ids)


def uniforms(
    row_keys_b: Key[Array, " B"],
    use: Use | Int32[Array, " B"],
    step_b: Int32[Array, " B"],
    shape: tuple[int, ...],
) -> Float32[Array, " B *shape"]:
    """Uniform numbers in [0, 1) for one use, at each row's own step.

    Exactly 0 does occur (one number in 2^23), and 1 does not. Each (row, step, use) is
    to be asked for once: asking again gives the same numbers.

    Args:
      row_keys_b: [B], from `row_keys`.
      use: who consumes them; one for all, or one a row.
      step_b: [B], the step of each row.
      shape: of one row's numbers, such as (G,) for a draft and () for a correction.

    Returns:
      [B, *shape].
    """

    def of_row(key, use, step):
        step_key = jax.random.fold_in(key, step)
        return jax.random.uniform(jax.random.fold_in(step_key, use), shape, jnp.float32)

    use_b = jnp.broadcast_to(jnp.asarray(use, jnp.int32), step_b.shape)
    return jax.vmap(of_row)(row_keys_b, use_b, step_b)


def position_keys(
    row_keys_b: Key[Array, " B"], position_bt: Int32[Array, "B T"]
) -> Key[Array, "B T"]:
    """A key for each absolute position of each row, whatever step it is drawn in.

    Args:
      row_keys_b: [B], from `row_keys`.
      position_bt: [B, T]; a row's first prompt token is at 0.
    """
    stream_b = jax.vmap(jax.random.fold_in, (0, None))(row_keys_b, POSITIONS)
    return jax.vmap(jax.vmap(jax.random.fold_in, (None, 0)))(stream_b, position_bt)
