"""Packs kernels that share an input into one, once, when weights are loaded.

A decoding step multiplies a few rows with every kernel: on a CPU its time is the
reading of weights plus a fixed cost for each product, so fewer and wider products are
faster, most of all in a verify pass. The numbers are the same: a column of a product
depends on no other column.
"""

import jax.numpy as jnp

from specdec_jax.models.layers import packed_name
from specdec_jax.typing import Params

# By which kernels a layer is recognised, and which of them share an input.
_GROUPS = (
    ("self_attention", ("query", "key", "value")),
    ("attention", ("query", "key", "value")),
    ("encoder_decoder_attention", ("key", "value")),
    ("mlp", ("wi_0", "wi_1")),
)


def pack(params: Params) -> Params:
    """The parameters of a `T5Config(packed=True)`, from those of an unpacked one."""

    def walk(tree, name):
        if not isinstance(tree, dict):
            return tree
        tree = {key: walk(value, key) for key, value in tree.items()}
        for layer, names in _GROUPS:
            if name == layer and all(key in tree for key in names):
                kernels = [tree.pop(key)["kernel"] for key in names]
                wide = jnp.concatenate(kernels, axis=-1)
                tree[packed_name(names)] = {"kernel": wide}
        return tree

    return walk(params, "")
