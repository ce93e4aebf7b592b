"""T5X checkpoints, read without T5X: an index and TensorStore arrays, local or gs://.

A step folder holds an index and a folder for each large array. Two kinds of index are
known: T5X's own (msgpack, version 2 and 3, in the file `checkpoint`) and Orbax's
(`_METADATA`, or a `checkpoint` of placeholders). Layers may stand apart (`examples/t5`)
or stacked along axis 1, with heads on an axis of their own (`examples/scalable_t5`);
both are read as the former.
"""

import functools
import json
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import tensorstore as ts
from flax import serialization, traverse_util

from specdec_jax.checkpoints.weights import (
    Checkpoint,
    Index,
    Tensor,
    infer_config,
    one_line,
)
from specdec_jax.errors import CheckpointError
from specdec_jax.models.t5 import T5Config
from specdec_jax.runtime.storage import Folder
from specdec_jax.typing import Params

INDEX_FILE = "checkpoint"
ORBAX_FILE = "_METADATA"
STATE_FOLDERS = ("", "state/", "default/")  # where in a step folder the index is
VERSION = 3
FAMILY = "T5"  # which it holds
PLACEHOLDER = "PLACEHOLDER://"
CHUNK_BYTES = 64 * 2**20
# What a step does not tell, and `infer_config` takes for granted.
UNTOLD = {
    "mlp_activations": (("gelu", "linear"), ("relu",)),
    "relative_attention_max_distance": (128,),
}

Path_ = tuple[str, ...]


def is_checkpoint(path: str | os.PathLike) -> bool:
    """Whether a folder has an index that T5X or Orbax wrote."""
    return _find_index(Folder(os.fspath(path))) is not None


def open_folder(path: str | os.PathLike, config: T5Config | None = None) -> Checkpoint:
    """Opens a step folder.

    Args:
      path: of the step: "gs://.../checkpoint_1000000", or a local one.
      config: the sizes; worked out from the tensors if not given.

    Raises:
      CheckpointError: there is no index, or one of an unknown version or content.
    """
    store = Folder(os.fspath(path))
    found = _find_index(store)
    if found is None:
        raise CheckpointError(
            f"{store.path} has no {INDEX_FILE} and no {ORBAX_FILE}: name a step folder "
            "of T5X, such as checkpoint_1000000"
        )
    folder, file = found
    store = Folder(os.path.join(store.path, folder))
    content = store.read(file)
    leaves = (
        _orbax_leaves(store, content)
        if file == ORBAX_FILE
        else _msgpack_leaves(store, content)
    )
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


def _find_index(store: Folder) -> tuple[str, str] | None:
    for folder in STATE_FOLDERS:
        # A folder may have both, and then the msgpack holds no arrays.
        for file in (ORBAX_FILE, INDEX_FILE):
            if store.read(folder + file) is not None:
                return folder, file
    return None


# --- index -> leaves


def _msgpack_leaves(store: Folder, content: bytes) -> dict[Path_, Tensor]:
    """The arrays of T5X's own index, or of an early Orbax one."""
    place = os.path.join(store.path, INDEX_FILE)
    try:
        tree = serialization.msgpack_restore(content)
    except Exception as error:  # msgpack has a dozen
        raise CheckpointError(f"{place} is not msgpack: {one_line(error)}") from error
    if not isinstance(tree, dict):
        raise CheckpointError(f"{place} holds no tree of parameters")
    version = tree.pop("version", None)
    if version not in (None, 2, 3):
        raise CheckpointError(f"{place} is of version {version}; known are 2 and 3")
    leaves = {}
    for path, leaf in _flatten(tree):
        if isinstance(leaf, np.ndarray | np.generic):
            leaves[path] = _inline(np.asarray(leaf), version == 2)
        elif isinstance(leaf, dict):
            metadata = leaf.get("metadata", {})
            # Only the last parts of the path are kept: where the checkpoint was
            # written, and by what driver, need not hold where it is read.
            written = leaf.get("path") or leaf["kvstore"].get("path", "")
            name = written.rstrip("/").rpartition("/")[2]
            leaves[path] = _array(
                store.at(name + "/"), "zarr", metadata.get("shape"), leaf.get("dtype")
            )
        elif isinstance(leaf, str) and leaf.startswith(PLACEHOLDER):
            name = leaf.removeprefix(PLACEHOLDER)
            leaves[path] = _array(store.at(name + "/"), "zarr")
    return leaves


def _flatten(tree: Mapping, path: Path_ = ()) -> Iterator[tuple[Path_, Any]]:
    """Leaves of an index: arrays, strings, and descriptions of TensorStore."""
    for key, value in tree.items():
        if isinstance(value, Mapping) and not {"driver", "kvstore"} <= set(value):
            yield from _flatten(value, (*path, str(key)))
        else:
            yield (*path, str(key)), value


def _inline(array: np.ndarray, bits: bool) -> Tensor:
    if bits and array.dtype == np.uint16:  # version 2 had no bfloat16
        array = array.view(jnp.bfloat16)
    return Tensor(array.shape, array.dtype, lambda index: array[index])


def _orbax_leaves(store: Folder, content: bytes) -> dict[Path_, Tensor]:
    """The arrays that Orbax's metadata names."""
    place = os.path.join(store.path, ORBAX_FILE)
    try:
        metadata = json.loads(content)
        entries = metadata["tree_metadata"].values()
        paths = [
            tuple(str(key["key"]) for key in entry["key_metadata"])
            for entry in entries
            if not entry["value_metadata"].get("skip_deserialize")
        ]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(
            f"{place} is not Orbax's: {type(error).__name__} {one_line(error)}"
        ) from error
    driver = "zarr3" if metadata.get("use_zarr3") else "zarr"
    merged = store.read("manifest.ocdbt") is not None
    leaves = {}
    for path in paths:
        name = ".".join(path) + "/"
        where = (
            {"driver": "ocdbt", "base": store.spec, "path": name}
            if merged
            else store.at(name)
        )
        leaves[path] = _array(where, driver)
    return leaves


def _array(
    kvstore: dict[str, Any],
    driver: str,
    shape: list[int] | None = None,
    dtype: str | None = None,
) -> Tensor:
    """An array of TensorStore; opened now only if its shape and type are not known."""

    # A chunk that is not there would be read as zeros: a copy may be unfinished.
    spec = json.dumps(
        {"driver": driver, "kvstore": kvstore, "fill_missing_data_reads": False}
    )

    def opened() -> ts.TensorStore:
        array = _open(spec)
        if shape is not None and list(array.shape) != list(shape):
            raise CheckpointError(
                f"{kvstore['path']} has shape {list(array.shape)} and its index says "
                f"{list(shape)}"
            )
        return array

    def read(index: Index) -> np.ndarray:
        array = np.asarray(opened()[index].read().result())
        # Version 2 stored bfloat16 as its bits; no weight is a whole number.
        return array.view(jnp.bfloat16) if array.dtype == np.uint16 else array

    if shape is None or dtype is None:
        try:
            shape, dtype = list(opened().shape), opened().dtype.name
        except CheckpointError:
            raise
        except Exception as error:
            raise CheckpointError(
                f"cannot open the array at {kvstore['path']}: {one_line(error)}"
            ) from error
    return Tensor(
        shape=tuple(shape),
        dtype=jnp.dtype("bfloat16" if dtype == "uint16" else dtype),
        read=read,
    )


@functools.lru_cache(maxsize=4)  # the next block is of the same array
def _open(spec: str) -> ts.TensorStore:
    return ts.open(json.loads(spec), open=True).result()


# --- leaves -> this project's parameters


def _parameters(place: str, leaves: Mapping[Path_, Tensor]) -> dict[str, Tensor]:
    """The leaves below `target` (or `params`), without optimizer states."""
    for root in ("target", "params"):
        found = {
            "/".join(path[path.index(root) + 1 :]): leaf
            for path, leaf in leaves.items()
            if root in path
        }
        if found:
            return found
    raise CheckpointError(f"{place} has no parameters: neither target nor params")


def _unstacked(
    place: str, tensors: Mapping[str, Tensor]
) -> Iterator[tuple[str, Tensor]]:
    """Tensors with stacked layers taken apart, and with kernels of two axes."""
    for name, tensor in tensors.items():
        stack, _, rest = name.partition("/")
        if not rest.startswith(f"{stack}/"):
            yield name, _flat_heads(name, tensor)
            continue
        if len(tensor.shape) < 2:
            raise CheckpointError(
                f"{place}: target/{name} has shape {list(tensor.shape)}; stacked "
                "layers have an axis 1"
            )
        rest = rest.removeprefix(f"{stack}/")
        for layer in range(tensor.shape[1]):
            apart = f"{stack}/layers_{layer}/{rest}"
            yield apart, _flat_heads(apart, _layer(tensor, layer))


def _layer(tensor: Tensor, layer: int) -> Tensor:
    """One layer of a stack along axis 1; only its part of the file is read."""

    def read(index: Index) -> np.ndarray:
        part = slice(layer, layer + 1)
        return tensor.read((index[0], part, *index[1:]))[:, 0]

    return Tensor((tensor.shape[0], *tensor.shape[2:]), tensor.dtype, read)


def _flat_heads(name: str, tensor: Tensor) -> Tensor:
    """[D, N, H] -> [D, N*H], and [N, H, D] -> [N*H, D]."""
    if len(tensor.shape) != 3 or not name.endswith("/kernel"):
        return tensor
    axis = 0 if name.endswith("/out/kernel") else 1  # of the heads
    size = tensor.shape[axis + 1]
    shape = (
        *tensor.shape[:axis],
        tensor.shape[axis] * size,
        *tensor.shape[axis + 2 :],
    )

    def read(index: Index) -> np.ndarray:
        start, stop, _ = index[axis].indices(shape[axis])
        # Whole heads are read: those that the asked columns are in.
        first, last = start // size, math.ceil(stop / size)
        full = list(index)
        full[axis : axis + 1] = [slice(first, last), slice(None)]
        part = tensor.read(tuple(full))
        flat = part.reshape(*part.shape[:axis], -1, *part.shape[axis + 2 :])
        inside = [slice(None)] * 2
        inside[axis] = slice(start - first * size, stop - first * size)
        return flat[tuple(inside)]

    return Tensor(shape, tensor.dtype, read)
