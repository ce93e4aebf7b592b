"""Key-value caches: overwritten in place, rolled back by a shorter length.

A cache holds S slots for each row. A row's own length says how many of them count;
slots past it are free to be overwritten, so forgetting rejected tokens is a smaller
length and nothing else. Keys and values are laid out [B, N, S, H], heads before slots,
which is the order in which attention multiplies them.
"""

import jax
import jax.numpy as jnp

from specdec_jax.axes import constrain
from specdec_jax.models.lowering import CacheWrite, precision_of
from specdec_jax.typing import Array, Float, Int32, record

AXES = ("batch", "heads", "slots", "head_dim")  # of keys and of values


@record
class KeyValues:
    """Keys and values of one attention, S (or E) slots for each row and head."""

    keys: Float[Array, "B N S H"]
    values: Float[Array, "B N S H"]


def empty(batch: int, heads: int, slots: int, head_size: int, dtype) -> KeyValues:
    """Keys and values of no token yet."""
    zeros = constrain(jnp.zeros((batch, heads, slots, head_size), dtype), *AXES)
    return KeyValues(keys=zeros, values=zeros)


SELECTED = 32  # tokens: of longer blocks, as a prompt is, each row is a slice


def overwrite(
    cache: KeyValues,
    new: KeyValues,
    lengths: Int32[Array, " B"],
    how: CacheWrite = CacheWrite.SLICE,
) -> KeyValues:
    """Puts T new tokens of each row at that row's own length.

    `lax.dynamic_update_slice` clamps its start so that a block never leaves the
    buffer: a block that reaches past the last slot would be written over valid older
    ones. Callers keep `lengths + T <= S`; `specdec_jax.decoding` sizes its caches so.

    Args:
      cache: S slots.
      new: T slots, in place of S.
      lengths: [B], the first slot that each row writes.
      how: changes nothing but the time.

    Returns:
      The cache with slots lengths .. lengths + T - 1 replaced.
    """
    batch, _, tokens, _ = new.keys.shape
    selects = how is CacheWrite.SELECT and batch > 1 and tokens <= SELECTED
    if selects:
        write = _select
    elif how is not CacheWrite.SLICE and tokens == 1 < cache.keys.shape[2]:
        write = jax.vmap(lambda *args: _slice(args[0], *_widen(*args)))
    else:
        write = jax.vmap(_slice)
    return jax.tree.map(lambda s, t: constrain(write(s, t, lengths), *AXES), cache, new)


def _slice(
    buffer: Float[Array, "N S H"], block: Float[Array, "N T H"], start: Int32[Array, ""]
) -> Float[Array, "N S H"]:
    return jax.lax.dynamic_update_slice(buffer, block, (0, start, 0))


def _select(
    buffer: Float[Array, "B N S H"],
    block: Float[Array, "B N T H"],
    starts: Int32[Array, " B"],
) -> Float[Array, "B N S H"]:
    """Each slot is its old self or one of the block's tokens."""
    tokens = block.shape[2]
    slot = jnp.arange(buffer.shape[2], dtype=jnp.int32)
    place = slot[None] - starts[:, None]  # B S: which token comes there
    is_new = (place >= 0) & (place < tokens)
    if tokens > 1:
        token = jnp.arange(tokens, dtype=jnp.int32)
        # Exact: a sum of one value and zeros.
        block = jnp.einsum(
            "bst,bnth->bnsh",
            (place[:, :, None] == token[None, None]).astype(block.dtype),
            block,
            precision=precision_of(block.dtype),
            preferred_element_type=block.dtype,
        )
    return jnp.where(is_new[:, None, :, None], block, buffer)


def _widen(
    buffer: Float[Array, "N S H"], block: Float[Array, "N 1 H"], start: Int32[Array, ""]
) -> tuple[Float[Array, "N 2 H"], Int32[Array, ""]]:
    """A block of one slot with a neighbour that stays as it is, and where both start.

    XLA on CPU takes the write of a single slot for free to repeat, and at batch 1 it
    makes it twice, for attention and for the loop, in copies of the whole cache. That
    cost a step of one token a tenth of its time; wider blocks are written once. On TPU
    a single slot is written where the cache lies slot by slot, and attention reads it
    head by head: each decode would begin by laying the caches out anew.
    """
    first = jnp.minimum(start, buffer.shape[1] - 2)
    both = jax.lax.dynamic_slice_in_dim(buffer, first, 2, axis=1)
    is_new = jnp.arange(2, dtype=jnp.int32) == start - first
    return jnp.where(is_new[None, :, None], block, both), first
