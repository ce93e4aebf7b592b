"""How a network is computed on a platform, and why: all such choices are made here.

A `Lowering` changes no value beyond rounding, only the program that XLA makes of a
step. Times of TPUs are of its compiler's own cost model (`estimated_cycles`).
"""

import dataclasses
import enum

import jax
import jax.numpy as jnp


class CacheWrite(enum.Enum):
    """How new keys and values get into their slots."""

    SLICE = "slice"  # `dynamic_update_slice`, one a row
    WIDE_SLICE = "wide slice"  # the same, never of a single slot
    SELECT = "select"  # one pass over all slots; of a row alone, a wide slice


def precision_of(dtype: jnp.dtype) -> jax.lax.Precision | None:
    """Of products of this dtype: a TPU would round float32 factors to bfloat16."""
    return jax.lax.Precision.HIGHEST if dtype == jnp.float32 else None


@dataclasses.dataclass(frozen=True)
class Lowering:
    """Choices that a network's layers follow.

    Attributes:
      packed: 0, kernels are apart, as in checkpoints and in training; m, kernels that
        share an input lie side by side in one, for m devices: see `models.packing`.
      least_rows: a product of fewer rows is padded with rows of zeros.
      row_major: results of products are laid out row by row, whatever reads them.
      cache_write: of a block into the caches.
      one_hot_bias: relative biases are products with one-hot rows, and no gather.
    """

    packed: int = 0
    least_rows: int = 1
    row_major: bool = False
    cache_write: CacheWrite = CacheWrite.SLICE
    one_hot_bias: bool = False


def lowering_for(platform: str, parts: int = 1) -> Lowering:
    """The choices for decoding on a platform.

    Args:
      platform: of the devices: "cpu", "gpu", "tpu".
      parts: m, devices that the network is sharded over.
    """
    if platform == "cpu":
        # A write of one slot is made twice, in copies of the whole cache: a tenth of a
        # step of the demo pair's target. See `cache._widen`.
        return Lowering(packed=parts, cache_write=CacheWrite.WIDE_SLICE)
    if platform != "tpu":
        return Lowering(packed=parts)
    return Lowering(
        packed=parts,
        # One row becomes a vector multiply and reduce, beside the matrix unit: T5-XXL's
        # [1, 4096] x [4096, 20480] takes 539 us on a v4, and two rows 186. So
        # do a head's products with its cache: T5-XXL's step took 11.1 ms on a v4, and
        # takes 10.4 with two rows.
        least_rows=2,
        # Else heads, which read a product's columns, want it column by column, and its
        # kernel so too: T5-XXL's were laid out anew before each decode, 4.9 GB and
        # 20 ms on a v4.
        row_major=True,
        # A slice for each row of a batch becomes a loop over rows, two a layer: half of
        # a v5e-8's time at batch 32 (verify 22 ms, and 12 by selecting).
        cache_write=CacheWrite.SELECT,
        # A gather of B T S numbers a step is made one by one.
        one_hot_bias=True,
    )
