"""Loading holds the reads in flight besides the result, in a process of its own."""

import json
import os
import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pytest

from specdec_jax.checkpoints import reading, t5x
from specdec_jax.models.parameters import parameter_shapes
from specdec_jax.models.t5 import T5Config

# T5-XXL's layers, heads and vocabulary, of a width that fits a test.
CONFIG = T5Config(32128, 32128, 256, 64, 2, 640, 24, 24)

LOAD = """
import ctypes, gc, json, sys
import jax
from specdec_jax.checkpoints import reading, t5x

def memory(kind):
    lines = open("/proc/self/status").read().splitlines()
    return next(int(l.split()[1]) * 1024 for l in lines if l.startswith(kind))

reading.BLOCK_BYTES, reading.BUDGET_BYTES = map(int, sys.argv[2:])
checkpoint = t5x.open_folder(sys.argv[1])
grown = []
for _ in range(3):
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    open("/proc/self/clear_refs", "w").write("5")  # the peak is now's
    before = memory("VmRSS")
    params = jax.block_until_ready(checkpoint.load("bfloat16"))
    grown.append(memory("VmHWM") - before)
    result = sum(leaf.nbytes for leaf in jax.tree.leaves(params))
    del params
# The first load also starts the libraries.
print(json.dumps({"more": min(grown[1:]), "result": result}))
"""


# However many threads read, the C library keeps nothing of what they freed.
FREED_AT_ONCE = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": str(2**16),
    "MALLOC_TRIM_THRESHOLD_": "0",
}


@pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's /proc")
def test_peak_memory_is_the_result_and_the_reads_in_flight(tmp_path, monkeypatch):
    shapes = parameter_shapes(CONFIG)
    values = np.resize(np.linspace(-1, 1, 999, dtype=np.float32), 2**24)
    params = {}
    for name, shape in shapes.items():
        node, (*path, last) = params, name.split("/")
        for key in path:
            node = node.setdefault(key, {})
        node[last] = jnp.asarray(values[: np.prod(shape)].reshape(shape))
    # As small beside the largest tensor as they are in T5-XXL.
    chunk, block, budget = (
        size * CONFIG.emb_dim // 4096
        for size in (t5x.CHUNK_BYTES, reading.BLOCK_BYTES, reading.BUDGET_BYTES)
    )
    monkeypatch.setattr(t5x, "CHUNK_BYTES", chunk)
    folder = t5x.save(tmp_path, params)
    done = subprocess.run(
        [sys.executable, "-c", LOAD, folder, str(block), str(budget)],
        env=os.environ | FREED_AT_ONCE,
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)
    largest = max(4 * np.prod(shape) for shape in shapes.values())
    print(f"{len(shapes)} tensors, {found['result'] / 2**20:.1f} MiB in bfloat16,")
    print(f"the largest {largest / 2**20:.1f} MiB in float32 on disk;")
    print(f"the peak grew by {found['more'] / 2**20:.1f} MiB")
    assert found["result"] == sum(2 * np.prod(shape) for shape in shapes.values())
    # What the device keeps is host memory here.
    assert found["more"] < found["result"] + budget
