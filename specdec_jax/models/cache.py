"""Key-value caches: overwritten in place, rolled back by a shorter length.

A cache holds S slots for each row. A row's own length says how many of them count;
slots past it are free to be overwritten, so forgetting rejected guesses is a smaller
length and nothing else. Keys and values are laid out [B, N, S, H], heads before slots,
which is the order in which attention multiplies them.
"""

import jax
import jax.numpy as jnp
from flax import struct

from specdec_jax.typing import Array, Float, Int32


@struct.dataclass
class KeyValues:
    """Keys and values of one attention, S (or E) slots for each row and head."""

    keys: Float[Array, "B N S H"]
    values: Float[Array, "B N S H"]


def empty(batch: int, heads: int, slots: int, head_size: int, dtype) -> KeyValues:
    """Keys and values of no token yet."""
    zeros = jnp.zeros((batch, heads, slots, head_size), dtype)
    return KeyValues(keys=zeros, values=zeros)


def overwrite(
    cache: KeyValues, new: KeyValues, lengths: Int32[Array, " B"]
) -> KeyValues:
    """Puts T new tokens of each row at that row's own length.

    `lax.dynamic_update_slice` clamps its start so that a block never leaves the
    buffer: a block that reaches past the last slot would be written over valid older
    ones. Callers keep `lengths + T <= S`; `specdec_jax.decoding` sizes its caches so.

    Args:
      cache: S slots.
      new: T slots, in place of S.
      lengths: [B], the first slot that each row writes.

    Returns:
      The cache with slots lengths .. lengths + T - 1 replaced.
    """

    def write(buffer, block, start):
        return jax.lax.dynamic_update_slice(buffer, block, (0, start, 0))

    return jax.tree.map(lambda s, t: jax.vmap(write)(s, t, lengths), cache, new)
