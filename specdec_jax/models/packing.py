"""Packs kernels that share an input into one, once, when weights are loaded.

A decoding step multiplies a few rows with every kernel: on a CPU its time is the
reading of weights plus a fixed cost for each product, so fewer and wider products are
faster, most of all in a verify pass. The numbers are the same: a column of a product
depends on no other column.

G kernels [D, F] become one [D, G * F], in m parts for m devices: the first F / m
columns of each kernel, then the next of each, and so on, as biases and scales [F] do.
Sharded by columns, each device has its own part of every kernel. An axis of length G
would be what a TPU tiles by, and lays out anew before each decode.
"""

import itertools
from collections.abc import Iterable, Sequence

import jax.numpy as jnp
from flax import traverse_util

from specdec_jax.models.config import ModelConfig
from specdec_jax.models.layers import packed_name, parts_of
from specdec_jax.typing import Array, Params


def packed_parts(
    config: ModelConfig, names: Iterable[str]
) -> dict[str, tuple[str, ...]]:
    """What the parameters are called once they are packed, and what each is made of.

    Args:
      config: of the network, which tells what shares an input.
      names: of the parameters, paths joined by "/".

    Returns:
      By a parameter's name the names that are stacked into it, in order; a parameter
      that stays as it is has its own alone.
    """
    parts = {name: (name,) for name in names}
    for path in sorted({name.rpartition("/")[0].rpartition("/")[0] for name in parts}):
        for (layer, kernels), kind in itertools.product(
            config.packing_groups, ("kernel", "bias", "scale")
        ):
            members = tuple(f"{path}/{kernel}/{kind}" for kernel in kernels)
            if path.rpartition("/")[2] == layer and set(members) <= set(parts):
                for member in members:
                    del parts[member]
                parts[f"{path}/{packed_name(kernels)}/{kind}"] = members
    return parts


def packed_shape(shape: tuple[int, ...], number: int) -> tuple[int, ...]:
    """The shape of as many packed parameters, each of this shape."""
    *before, features = shape
    return (*before, number * features)


def pack(config: ModelConfig, params: Params) -> Params:
    """The parameters of a packed network, from those of an unpacked one.

    Args:
      config: whose `lowering` says for how many devices.
      params: unpacked.
    """
    flat = traverse_util.flatten_dict(params, sep="/")
    packed = {
        name: flat[members[0]]
        if len(members) == 1
        else _side_by_side([flat[member] for member in members], config.lowering.packed)
        for name, members in packed_parts(config, flat).items()
    }
    return traverse_util.unflatten_dict(packed, sep="/")


def _side_by_side(kernels: Sequence[Array], packed: int) -> Array:
    *before, features = kernels[0].shape
    parts = parts_of(features, max(packed, 1))
    split = [kernel.reshape(*before, parts, -1) for kernel in kernels]
    return jnp.stack(split, axis=-2).reshape(*before, -1)
