"""Weights of products as int8, with a scale for each of a product's columns.

A kernel W [D, F] becomes q [D, F] in -127..127 and s [F], s = max |W| / 127 of a column
and q = round(W / s), so that |W - s q| <= s / 2. A product is x W ~ (x q) s: the scale
comes after it, and q is made a float where it is multiplied, so that memory is read at
a byte a weight. A tied embedding [V, D] is a kernel by its rows. Norms, biases, an
embedding that is only looked up, and activations stay as they are.

Parameters tell that they are quantized: beside a `kernel` or `embedding` is a `scale`.

On a TPU the conversion is a part of the product, and no bfloat16 kernel is ever made:
of T5-XXL a target step on a v5e reads 5.9 GB in place of 11.4 and takes 9.3 ms in
place of 15.1, a verify step of 8 tokens 8.5 in place of 14.8, by the compiler's cost
model. Int8 by int8, with activations quantized too, would be faster; but then it is
more than the weights that is rounded. On a CPU each product converts its kernel first:
memory is saved, and a step takes longer than in float32.
"""

import jax.numpy as jnp

from specdec_jax.errors import SettingsError
from specdec_jax.models.config import ModelConfig
from specdec_jax.typing import Any, Array, Float, Float32, Int8

QUANTIZATIONS = ("int8",)
LARGEST = 127  # symmetric: -128 is not used


def check_quantization(given: Any) -> None:
    """Raises SettingsError unless it is one of `QUANTIZATIONS`, or None."""
    if given is not None and given not in QUANTIZATIONS:
        known = " or ".join(map(repr, QUANTIZATIONS))
        raise SettingsError(f"quantization must be {known}, or None, not {given!r}")


def columns_axis(config: ModelConfig, name: str) -> int | None:
    """The axis of a weight that has a product's columns; None if it is no product's.

    Args:
      config: of the network.
      name: of the parameter, a path joined by "/".
    """
    if name.endswith("/kernel"):
        return 1
    tied = config.logits_via_embedding and name == "token_embedder/embedding"
    return 0 if tied else None


def scale_name(name: str) -> str:
    """What the scales of a weight are called."""
    return f"{name.rpartition('/')[0]}/scale"


def quantize(
    weight: Float[Array, "M N"], columns: int
) -> tuple[Int8[Array, "M N"], Float32[Array, " F"]]:
    """q and s of a weight. A column of zeros has the scale 0.

    Args:
      weight: of a product.
      columns: of `columns_axis`.
    """
    weight = weight.astype(jnp.float32)
    scale = jnp.max(jnp.abs(weight), axis=1 - columns) / LARGEST
    divisor = jnp.expand_dims(jnp.where(scale > 0, scale, 1.0), 1 - columns)
    return jnp.round(weight / divisor).astype(jnp.int8), scale
