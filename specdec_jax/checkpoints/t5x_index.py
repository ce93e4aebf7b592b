"""The index of a T5X step folder: which arrays there are, and where.

Two kinds are known: T5X's own (msgpack, version 2 and 3, in the file `checkpoint`) and
Orbax's (`_METADATA`, or a `checkpoint` of placeholders).
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
import tensorstore as ts
from flax import serialization

from specdec_jax.checkpoints.reading import BUDGET_BYTES
from specdec_jax.checkpoints.tensors import Index, Shape, StoredArray
from specdec_jax.errors import CheckpointError, one_line
from specdec_jax.runtime.storage import CONTEXT, Folder

INDEX_FILE = "checkpoint"
ORBAX_FILE = "_METADATA"
STATE_FOLDERS = ("", "state/", "default/")  # where in a step folder the index is
PLACEHOLDER = "PLACEHOLDER://"

LeafPath = tuple[str, ...]


def find_index(store: Folder) -> tuple[str, str] | None:
    """The index of a step folder: the folder that it is in, and its file."""
    for folder in STATE_FOLDERS:
        # A folder may have both, and then the msgpack holds no arrays.
        for file in (ORBAX_FILE, INDEX_FILE):
            if store.read(folder + file) is not None:
                return folder, file
    return None


def read_leaves(store: Folder, file: str) -> dict[LeafPath, StoredArray]:
    """All arrays of an index, by their keys in its tree.

    Args:
      store: the folder of the index.
      file: INDEX_FILE or ORBAX_FILE.

    Raises:
      CheckpointError: it is of an unknown version or content.
    """
    content = store.read(file)
    if file == ORBAX_FILE:
        return _orbax_leaves(store, content)
    return _msgpack_leaves(store, content)


def _msgpack_leaves(store: Folder, content: bytes) -> dict[LeafPath, StoredArray]:
    """The arrays of T5X's own index, or of an early Orbax one."""
    path = os.path.join(store.path, INDEX_FILE)
    try:
        tree = serialization.msgpack_restore(content)
    except Exception as error:  # msgpack has a dozen
        raise CheckpointError(f"{path} is not msgpack: {one_line(error)}") from error
    if not isinstance(tree, dict):
        raise CheckpointError(f"{path} holds no tree of parameters")
    version = tree.pop("version", None)
    if version not in (None, 2, 3):
        raise CheckpointError(f"{path} is of version {version}; known are 2 and 3")
    leaves, arrays = {}, {}
    for keys, leaf in _flatten(tree):
        if isinstance(leaf, np.ndarray | np.generic):
            leaves[keys] = _inline(np.asarray(leaf), version == 2)
        elif isinstance(leaf, dict):
            metadata = leaf.get("metadata", {})
            # Only the last parts of the path are kept: where the checkpoint was
            # written, and by what driver, need not be valid where it is read.
            written = leaf.get("path") or leaf["kvstore"].get("path", "")
            name = written.rstrip("/").rpartition("/")[2]
            array = _Array(store, store.at(name + "/"), "zarr")
            arrays[keys] = array, metadata.get("shape"), leaf.get("dtype")
        elif isinstance(leaf, str) and leaf.startswith(PLACEHOLDER):
            name = leaf.removeprefix(PLACEHOLDER)
            arrays[keys] = _Array(store, store.at(name + "/"), "zarr"), None, None
    return leaves | _stored(arrays)


def _flatten(tree: Mapping, path: LeafPath = ()) -> Iterator[tuple[LeafPath, Any]]:
    """Leaves of an index: arrays, strings, and descriptions of TensorStore."""
    for key, value in tree.items():
        if isinstance(value, Mapping) and not {"driver", "kvstore"} <= set(value):
            yield from _flatten(value, (*path, str(key)))
        else:
            yield (*path, str(key)), value


def _inline(array: np.ndarray, bits: bool) -> StoredArray:
    if bits and array.dtype == np.uint16:  # version 2 had no bfloat16
        array = array.view(jnp.bfloat16)
    return StoredArray(array.shape, array.dtype, lambda index: array[index])


def _orbax_leaves(store: Folder, content: bytes) -> dict[LeafPath, StoredArray]:
    """The arrays that Orbax's metadata names."""
    path = os.path.join(store.path, ORBAX_FILE)
    try:
        metadata = json.loads(content)
        entries = metadata["tree_metadata"].values()
        leaf_paths = [
            tuple(str(key["key"]) for key in entry["key_metadata"])
            for entry in entries
            if not entry["value_metadata"].get("skip_deserialize")
        ]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(
            f"{path} is not Orbax's: {type(error).__name__} {one_line(error)}"
        ) from error
    driver = "zarr3" if metadata.get("use_zarr3") else "zarr"
    merged = store.read("manifest.ocdbt") is not None
    arrays = {}
    for keys in leaf_paths:
        name = ".".join(keys) + "/"
        where = (
            {"driver": "ocdbt", "base": store.spec, "path": name}
            if merged
            else store.at(name)
        )
        arrays[keys] = _Array(store, where, driver), None, None
    return _stored(arrays)


def _stored(
    arrays: Mapping[LeafPath, tuple["_Array", Sequence[int] | None, str | None]],
) -> dict[LeafPath, StoredArray]:
    """Arrays by their keys; all that must be opened are opened at once."""
    for array, *known in arrays.values():
        if None in known:
            array.start()
    return {keys: array.stored(*known) for keys, (array, *known) in arrays.items()}


class _Array:
    """An array of TensorStore, opened when that is asked for, and once."""

    def __init__(self, store: Folder, kvstore: dict[str, Any], driver: str):
        self.path = kvstore["path"]
        self._store = store
        self._spec = {
            "driver": driver,
            "kvstore": kvstore,
            # A chunk that is not there would be zeros: a copy may be unfinished.
            "fill_missing_data_reads": False,
        }
        self._opening: ts.Future | None = None

    def start(self) -> None:
        """Begins to open it."""
        if self._opening is None:
            self._opening = ts.open(self._spec, open=True, context=CONTEXT)

    def opened(self) -> ts.TensorStore:
        """It, open."""
        self.start()
        return self._store.answer(self._opening)

    def stored(self, shape: Sequence[int] | None, dtype: str | None) -> StoredArray:
        """What it holds; it is opened now only if its shape and type are not known.

        Raises:
          CheckpointError: it cannot be opened.
        """
        if shape is None or dtype is None:
            try:
                array = self.opened()
            except Exception as error:  # TensorStore has no type of its own
                raise CheckpointError(
                    f"cannot open the array at {self.path}: {one_line(error)}"
                ) from error
            shape, dtype = array.shape, array.dtype.name
        shape = tuple(shape)

        def chunks() -> Shape:
            found = self.opened()
            if found.shape != shape:
                raise CheckpointError(
                    f"{self.path} has shape {list(found.shape)} and its index says "
                    f"{list(shape)}"
                )
            return found.chunk_layout.read_chunk.shape

        def read(index: Index) -> np.ndarray:
            reading = self.opened()[index].read()
            # It may come last of all that is under way.
            array = np.asarray(self._store.answer(reading, BUDGET_BYTES))
            # Version 2 stored bfloat16 as its bits; no weight is an integer.
            return array.view(jnp.bfloat16) if array.dtype == np.uint16 else array

        is_bits = dtype == "uint16"
        kind = jnp.dtype("bfloat16" if is_bits else dtype)
        return StoredArray(shape, kind, read, chunks)
