"""Which parameters a network of given sizes has."""

import dataclasses
import functools

import jax
from flax import traverse_util

from specdec_jax.models.config import ModelConfig
from specdec_jax.models.lowering import Lowering
from specdec_jax.models.packing import packed_parts, packed_shape
from specdec_jax.models.quantization import columns_axis, scale_name
from specdec_jax.typing import Array, Key, Params


def random_params(config: ModelConfig, key: Key[Array, ""]) -> Params:
    """What training starts from."""
    return config.network().init(key, *config.example())["params"]


def parameter_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """The shape of every parameter, unpacked, by its path joined by "/"."""
    return dict(_shapes(dataclasses.replace(config, lowering=Lowering())))


@functools.cache
def _shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    tree = jax.eval_shape(lambda: random_params(config, jax.random.key(0)))
    flat = traverse_util.flatten_dict(tree, sep="/")
    return {name: leaf.shape for name, leaf in flat.items()}


def packed_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """The shape of every packed parameter, by its path joined by "/"."""
    shapes = parameter_shapes(config)
    return {
        name: shapes[parts[0]]
        if len(parts) == 1
        else packed_shape(shapes[parts[0]], len(parts))
        for name, parts in packed_parts(config, shapes).items()
    }


def loaded_parameters(
    config: ModelConfig, quantization: str | None = None
) -> dict[str, jax.ShapeDtypeStruct]:
    """Shape and dtype of every parameter as loading leaves it, packed.

    Args:
      config: of the network; its dtype is that of all that is not quantized.
      quantization: of the weights of products; see `quantization.QUANTIZATIONS`.
    """
    found = {}
    for name, shape in packed_shapes(config).items():
        columns = quantization and columns_axis(config, name)
        if columns is None:
            found[name] = jax.ShapeDtypeStruct(shape, config.dtype)
        else:
            found[name] = jax.ShapeDtypeStruct(shape, quantization)
            found[scale_name(name)] = jax.ShapeDtypeStruct((shape[columns],), "float32")
    return found
