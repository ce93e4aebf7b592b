"""Bytes that loading a checkpoint reads, and what is wrong with what it loads.

A program of its own, since a process has as many CPU devices as it started with:
python -m tests.checkpoints.amplification FOLDER BLOCK_BYTES
"""

import dataclasses
import itertools
import json
import os
import sys

if __name__ == "__main__":
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

from pathlib import Path

import jax
import numpy as np
import tensorstore as ts
from flax import serialization, traverse_util

from specdec_jax.checkpoints import reading, t5x
from specdec_jax.models.lowering import Lowering
from specdec_jax.models.packing import pack
from specdec_jax.models.parameters import parameter_shapes
from specdec_jax.models.t5 import T5Config
from specdec_jax.partitioning.mesh import make_mesh
from specdec_jax.partitioning.sharding import layout_of
from tests.checkpoints import scalable

CONFIG = T5Config(256, 256, 64, 8, 16, 192, 3, 2, shared_relative_bias=False)
BYTES_READ = "/tensorstore/kvstore/file/bytes_read"
CUTS = {"columns": (1, 4), "rows and columns": (3, 5), "rows": (4, 1)}
CASES = {
    "one device": {},
    "packed for 8": {"packed": 8},
    "1x8": {"mesh": (1, 8)},
    "1x8, packed": {"mesh": (1, 8), "packed": 8},
    "2x4, packed": {"mesh": (2, 4), "packed": 4},
    "8x1, replicated": {"mesh": (8, 1), "packed": 1},
}


def write(folder: Path, cuts: tuple[int, int], stacked: bool) -> dict:
    """A step folder of T5X, each array cut in so many chunks by rows and columns."""
    random = np.random.default_rng(0)
    params = {
        name: random.normal(size=shape).astype(np.float32)
        for name, shape in parameter_shapes(CONFIG).items()
    }
    target = {}
    stored = scalable.stacked(params, CONFIG) if stacked else params
    for name, array in stored.items():
        if array.ndim < 2:
            target[name] = array  # as T5X has small ones: in the index
            continue
        place = {"driver": "file", "path": f"target.{name.replace('/', '.')}"}
        chunks = list(array.shape)  # layers are not cut, as by T5X
        for axis, number in zip((0, -1), cuts, strict=True):
            chunks[axis] = -(-array.shape[axis] // number)
        spec = {
            "driver": "zarr",
            "dtype": "float32",
            "kvstore": {**place, "path": str(folder / place["path"])},
            "metadata": {
                "compressor": {"id": "gzip"},
                "shape": list(array.shape),
                "chunks": chunks,
            },
        }
        ts.open(spec, create=True).result().write(array).result()
        target[name] = {**spec, "kvstore": place}
    target = {tuple(name.split("/")): leaf for name, leaf in target.items()}
    tree = {
        "version": 3,
        "optimizer": {"target": traverse_util.unflatten_dict(target)},
    }
    (folder / "checkpoint").write_bytes(serialization.msgpack_serialize(tree))
    return traverse_util.unflatten_dict(params, sep="/")


def load(folder: Path, params: dict, mesh=None, packed: int = 0) -> dict:
    """Bytes that one loading reads to those that are stored, and the wrong tensors."""
    place = None
    if mesh is not None:
        place = layout_of(CONFIG, make_mesh(mesh, jax.devices())).parameter
    before = _bytes_read()
    loaded = t5x.open_folder(folder).load("float32", place, packed)
    num_read = _bytes_read() - before
    if packed:
        lowering = Lowering(packed=packed)
        params = pack(dataclasses.replace(CONFIG, lowering=lowering), params)
    expected = traverse_util.flatten_dict(params, sep="/")
    found = traverse_util.flatten_dict(loaded, sep="/")
    arrays = (file for file in folder.rglob("*") if file.is_file())
    return {
        "ratio": num_read / sum(file.stat().st_size for file in arrays),
        "names": sorted(found) == sorted(expected),
        "wrong": [
            name
            for name, array in expected.items()
            if not all(
                np.array_equal(shard.data, np.asarray(array)[shard.index])
                for shard in found[name].addressable_shards
            )
        ],
        "devices": max(len(array.sharding.device_set) for array in found.values()),
    }


def _bytes_read() -> int:
    found = ts.experimental_collect_matching_metrics(BYTES_READ)
    return sum(metric["values"][0]["value"] for metric in found)


def main(folder: str, block_bytes: str) -> None:
    reading.BLOCK_BYTES = int(block_bytes)
    found = {}
    for (layout, cuts), stacked in itertools.product(CUTS.items(), (False, True)):
        step = Path(folder) / f"{layout}{' stacked' * stacked}"
        step.mkdir()
        params = write(step, cuts, stacked)
        for case, options in CASES.items():
            found[f"{step.name}: {case}"] = load(step, params, **options)
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
