"""T5X checkpoints, read without T5X: an index and TensorStore arrays, local or gs://.

A step folder holds an index, see `t5x_index`, and a folder for each large array. Layers
may be apart (`examples/t5`) or stacked along axis 1, with heads on an axis of their own
(`examples/scalable_t5`); both are read as the former.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import tensorstore as ts
from flax import serialization, traverse_util

from specdec_jax.checkpoints.t5x_index import (
    INDEX_FILE,
    ORBAX_FILE,
    LeafPath,
    find_index,
    read_leaves,
)
from specdec_jax.checkpoints.tensors import StoredArray, Tensor
from specdec_jax.checkpoints.weights import Checkpoint, infer_config
from specdec_jax.errors import CheckpointError
from specdec_jax.models.t5 import T5Config
from specdec_jax.runtime.storage import Folder
from specdec_jax.typing import Params

VERSION = 3
FAMILY = "T5"  # which it holds
CHUNK_BYTES = 64 * 2**20
# What a step does not tell, and `infer_config` takes for granted.
UNTOLD = {
    "mlp_activations": (("gelu", "linear"), ("relu",)),
    "relative_attention_max_distance": (128,),
}


def is_checkpoint(path: str | os.PathLike) -> bool:
    """Whether a folder has an index that T5X or Orbax wrote."""
    return find_index(Folder(os.fspath(path))) is not None


def open_folder(path: str | os.PathLike, config: T5Config | None = None) -> Checkpoint:
    """Opens a step folder.

    Args:
      path: of the step: "gs://.../checkpoint_1000000", or a local one.
      config: the sizes; worked out from the tensors if not given.

    Raises:
      CheckpointError: there is no index, or one of an unknown version or content.
    """
    store = Folder(os.fspath(path))
    found = find_index(store)
    if found is None:
        raise CheckpointError(
            f"{store.path} has no {INDEX_FILE} and no {ORBAX_FILE}: name a step folder "
            "of T5X, such as checkpoint_1000000"
        )
    folder, file = found
    store = Folder(os.path.join(store.path, folder))
    leaves = read_leaves(store, file)
    tensors = dict(_unstacked(store.path, _parameters(store.path, leaves)))
    if config is None:
        config = infer_config(store.path, tensors)
    return Checkpoint(store.path, "t5x", config, tensors, lambda name: f"target/{name}")


def save(
    folder: str | os.PathLike,
    params: Params,
    step: int = 0,
    dtype: str = "float32",
) -> Path:
    """Writes a step folder in T5X's own layout, version 3.

    Args:
      folder: in which `checkpoint_<step>` is made.
      params: unpacked.
      step: of training.
      dtype: of the weights on disk.

    Returns:
      The step folder.
    """
    final = Path(folder) / f"checkpoint_{step}"
    unfinished = final.with_name(final.name + ".unfinished")
    unfinished.mkdir(parents=True, exist_ok=True)  # TensorStore has no error of its own
    target = {}
    for path, value in traverse_util.flatten_dict(params).items():
        array = np.asarray(value, jnp.dtype(dtype))
        rows = max(1, CHUNK_BYTES // max(1, array[:1].nbytes))
        name = ".".join(["target", *path])
        spec = {
            "driver": "zarr",
            "dtype": array.dtype.name,
            "kvstore": {"driver": "file", "path": name},
            "metadata": {
                "compressor": {"id": "gzip"},
                "shape": list(array.shape),
                "chunks": [min(rows, array.shape[0]), *array.shape[1:]],
            },
        }
        place = {
            **spec,
            "kvstore": Folder(os.fspath(unfinished)).at(name),
            # Zeros are stored too, so that a missing chunk is known to be lost.
            "store_data_equal_to_fill_value": True,
        }
        ts.open(place, create=True, delete_existing=True).result().write(array).result()
        target[path] = spec
    state = {
        "target": traverse_util.unflatten_dict(target),
        "state": {"step": np.int32(step)},
    }
    index = serialization.msgpack_serialize({"version": VERSION, "optimizer": state})
    (unfinished / INDEX_FILE).write_bytes(index)
    unfinished.rename(final)
    return final


def _parameters(
    path: str, leaves: Mapping[LeafPath, StoredArray]
) -> dict[str, StoredArray]:
    """The leaves below `target` (or `params`), without optimizer states."""
    for root in ("target", "params"):
        found = {
            "/".join(keys[keys.index(root) + 1 :]): leaf
            for keys, leaf in leaves.items()
            if root in keys
        }
        if found:
            return found
    raise CheckpointError(f"{path} has no parameters: neither target nor params")


def _unstacked(
    path: str, arrays: Mapping[str, StoredArray]
) -> Iterator[tuple[str, Tensor]]:
    """Tensors with stacked layers taken apart, and with kernels of two axes."""
    for name, array in arrays.items():
        tensor = Tensor.from_array(array)
        stack, _, rest = name.partition("/")
        if not rest.startswith(f"{stack}/"):
            yield name, _flat_heads(name, tensor)
            continue
        if len(tensor.shape) < 2:
            raise CheckpointError(
                f"{path}: target/{name} has shape {list(tensor.shape)}; stacked "
                "layers have an axis 1"
            )
        rest = rest.removeprefix(f"{stack}/")
        for layer in range(tensor.shape[1]):
            apart = f"{stack}/layers_{layer}/{rest}"
            yield apart, _flat_heads(apart, tensor.taken(1, layer))


def _flat_heads(name: str, tensor: Tensor) -> Tensor:
    """[D, N, H] -> [D, N*H], and [N, H, D] -> [N*H, D]."""
    if len(tensor.shape) != 3 or not name.endswith("/kernel"):
        return tensor
    return tensor.merged(0 if name.endswith("/out/kernel") else 1)
