"""Layouts in memory that the compiler chooses, for weights to be put in once, at load.

A TPU keeps arrays in tiles, and which layout a product wants depends on how many rows
it has. A loop that is given its weights in another layout begins with a copy of each,
which takes as much memory again.
"""

import jax
import jax.numpy as jnp
from jax.experimental.layout import Format, Layout

from specdec_jax.decoding import compiled
from specdec_jax.decoding.contracts import Prompt
from specdec_jax.decoding.state import RowSettings
from specdec_jax.typing import Any, Array, Callable, Key, Params, PyTree


def automatic(x: Any) -> Format | jax.sharding.Sharding:
    """The compiler's choice for an array; keys are JAX's own type and have none."""
    if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
        return x.sharding
    return Format(Layout.AUTO, x.sharding)


def jit_automatic(
    function: Callable, formats: PyTree, donated: tuple[int, ...] = ()
) -> Any:
    """`jax.jit` with layouts chosen by the compiler, of the results too.

    Args:
      function: of arrays.
      formats: of its arguments, one for each array: `automatic`, or a settled one.
      donated: which arguments it consumes.
    """
    return jax.jit(
        function,
        in_shardings=formats,
        out_shardings=Format(Layout.AUTO),
        donate_argnums=donated,
    )


def chosen_formats(
    decoder: compiled.Decoder,
    keys: Key[Array, " B"],
    params: Params,
    inputs: PyTree,
    prompt: Prompt,
    rows: RowSettings,
) -> PyTree:
    """The formats of parameters that a decoder wants: the loop's wishes come first.

    Args:
      decoder, keys, params, inputs, prompt, rows: what `compiled` takes. The state that
        the loop begins with is made for its shapes and places.
    """
    state = compiled.begin(decoder, params, inputs, prompt)
    args = jax.tree.map(_described, (keys, state, params, rows))
    loop = jit_automatic(decoder.run, jax.tree.map(automatic, args), (1,))
    _, _, wanted, _ = loop.lower(*args).compile().input_formats[0]
    args = jax.tree.map(_described, (params, inputs, prompt))
    formats = jax.tree.map(automatic, args)
    settled = jax.tree.map(
        lambda own, free: free if own.layout is None else own, wanted, formats[0]
    )
    begin = jit_automatic(decoder.init, (settled, *formats[1:]))
    rest, _, _ = begin.lower(*args).compile().input_formats[0]
    return jax.tree.map(
        lambda own, other: other if own.layout is None else own, wanted, rest
    )


def _described(x: Array) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding)


def lay_out(params: Params, formats: PyTree) -> Params:
    """The same parameters in these formats. Those that must move are consumed."""

    def put(x, wanted):
        if wanted.layout is None or wanted.layout == x.format.layout:
            return x
        return jax.block_until_ready(jax.device_put(x, wanted, donate=True))

    return jax.tree.map(put, params, formats)
