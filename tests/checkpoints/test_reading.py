"""Each chunk is read once, many at a time, within a budget, and checked."""

import collections
import concurrent.futures
import dataclasses
import json
import math
import subprocess
import sys
import threading
from pathlib import Path

import jax
import numpy as np
import pytest

from specdec_jax.checkpoints import reading, t5x
from specdec_jax.checkpoints.tensors import StoredArray, Tensor
from specdec_jax.errors import CheckpointError
from specdec_jax.models.parameters import parameter_shapes
from specdec_jax.runtime import progress
from tests.checkpoints import amplification

ROOT = Path(__file__).parent.parent.parent
ARRAYS, CHUNKS, CHUNK = 6, 8, (4, 32)
SHAPE = (CHUNKS * CHUNK[0], CHUNK[1])
CHUNK_BYTES = 4 * math.prod(CHUNK)


# --- what storage is asked for


@pytest.fixture(scope="module")
def loadings(tmp_path_factory):
    folder = tmp_path_factory.mktemp("steps")
    command = [sys.executable, "-m", amplification.__name__, str(folder), "1"]
    done = subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.PIPE)
    return json.loads(done.stdout)


@pytest.mark.parametrize("case", amplification.CASES)
@pytest.mark.parametrize("stacked", ["", " stacked"])
@pytest.mark.parametrize("cuts", amplification.CUTS)
def test_storage_is_read_once_and_right(loadings, cuts, stacked, case):
    """By TensorStore's own count; chunks are cut otherwise than the devices' parts."""
    found = loadings[f"{cuts}{stacked}: {case}"]
    assert found["names"] and found["wrong"] == []
    assert found["devices"] == (8 if "x" in case else 1)
    assert 0.9 < found["ratio"] <= 1.1


class Fake:
    """An array of some chunks, which tells of the reads under way."""

    def __init__(self, shape=SHAPE, chunk=CHUNK):
        self.values = np.arange(math.prod(shape), dtype=np.float32).reshape(shape)
        self.reads = collections.Counter()
        self.before = lambda num_bytes: None
        self.after = lambda num_bytes: None
        self.stored = StoredArray(shape, np.dtype("float32"), self._read, lambda: chunk)

    def _read(self, index):
        part = self.values[index]
        self.reads[tuple((i.start, i.stop) for i in index)] += 1
        self.before(part.nbytes)
        self.after(part.nbytes)
        return part


def parameters(fakes, sharding=None):
    for number, fake in enumerate(fakes):
        pieces = [
            (f"stored {number}", p) for p in Tensor.from_array(fake.stored).pieces
        ]
        shape, dtype = fake.stored.shape, fake.stored.dtype
        yield reading.Parameter(f"{number}", shape, dtype, sharding, pieces)


@pytest.fixture
def chunk_by_chunk(monkeypatch):
    monkeypatch.setattr(reading, "BLOCK_BYTES", 1)


def read_all(fakes, **options):
    found = reading.read_all(parameters(fakes, **options), "reading")
    for number, fake in enumerate(fakes):
        np.testing.assert_array_equal(found[f"{number}"], fake.values)


def test_sixteen_reads_of_several_tensors_are_in_flight(chunk_by_chunk):
    """Every read waits until fifteen others are under way too."""
    barrier = threading.Barrier(16)
    fakes = [Fake() for _ in range(ARRAYS)]
    assert ARRAYS * CHUNKS % 16 == 0 and CHUNKS < 16
    for fake in fakes:
        fake.before = lambda num_bytes: barrier.wait(timeout=60)
    read_all(fakes)


@pytest.mark.parametrize("fitting", [1, 3, 8])
def test_reads_in_flight_keep_to_the_budget_and_use_it(
    chunk_by_chunk, monkeypatch, fitting
):
    monkeypatch.setattr(reading, "BUDGET_BYTES", fitting * CHUNK_BYTES + 1)
    lock, barrier = threading.Lock(), threading.Barrier(fitting)
    now, most = 0, 0

    def before(num_bytes):
        nonlocal now, most
        with lock:
            now += num_bytes
            most = max(most, now)
        barrier.wait(timeout=60)

    def after(num_bytes):
        nonlocal now
        with lock:
            now -= num_bytes

    fakes = [Fake() for _ in range(3)]
    for fake in fakes:
        fake.before, fake.after = before, after
    read_all(fakes)
    assert most == fitting * CHUNK_BYTES


def test_a_chunk_above_the_budget_is_read_alone(monkeypatch):
    monkeypatch.setattr(reading, "BUDGET_BYTES", CHUNK_BYTES // 2)
    read_all([Fake(), Fake()])


def test_the_budget_counts_what_storage_decodes_not_what_is_needed(chunk_by_chunk):
    fake = Fake()
    tensor = Tensor.from_array(fake.stored).taken(1, 5)
    pieces = [("one column", piece) for piece in tensor.pieces]
    wanted = reading.Parameter("0", tensor.shape, tensor.dtype, None, pieces)
    reads = plan([wanted])
    assert [read.num_bytes for read in reads] == [CHUNK_BYTES] * CHUNKS
    assert {tuple(map(len, read.box)) for read in reads} == {(CHUNK[0], 1)}


def plan(wanted):
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        return reading._plan([reading._Place(one) for one in wanted], pool)


class RowsHere(jax.sharding.SingleDeviceSharding):
    """Of which this process' device holds some rows, and others' the rest."""

    def addressable_devices_indices_map(self, global_shape):
        (device,) = self.device_set
        return {device: (slice(6, 14), slice(None))}


def test_a_host_reads_the_chunks_of_its_own_devices_alone(chunk_by_chunk):
    fake = Fake()
    reads = plan(parameters([fake], sharding=RowsHere(jax.devices()[0])))
    assert [read.box[0] for read in reads] == [range(6, 8), range(8, 12), range(12, 14)]


def test_small_chunks_are_read_together(monkeypatch):
    monkeypatch.setattr(reading, "BLOCK_BYTES", 3 * CHUNK_BYTES)
    fake = Fake()
    read_all([fake])
    assert [rows for rows, _ in fake.reads] == [(0, 12), (12, 24), (24, 32)]


def test_what_has_no_chunks_is_read_in_blocks_of_rows(monkeypatch):
    monkeypatch.setattr(reading, "BLOCK_BYTES", 3 * CHUNK_BYTES)
    fake = Fake()
    fake.stored = dataclasses.replace(fake.stored, chunks=None)
    read_all([fake])
    assert [rows for rows, _ in fake.reads] == [(0, 12), (12, 24), (24, 32)]


def test_a_device_takes_the_buffer_as_it_is(monkeypatch):
    buffers = []

    def buffer(shape, dtype):
        buffers.append(real(shape, dtype))
        return buffers[-1]

    real = reading._buffer
    monkeypatch.setattr(reading, "_buffer", buffer)
    found = reading.read_all(parameters([Fake(), Fake((3, 5), (1, 5))]), "reading")
    addresses = [array.unsafe_buffer_pointer() for array in found.values()]
    assert addresses == [one.ctypes.data for one in buffers]


# --- tensors


def test_tensors_taken_apart_and_put_together():
    fake = Fake((4, 3, 5, 2), (3, 2, 2, 1))
    stored, all_of = Tensor.from_array(fake.stored), (slice(None),) * 3
    taken = stored.taken(1, 2)
    np.testing.assert_array_equal(taken.read(all_of), fake.values[:, 2])
    expected = fake.values[:, 2].reshape(4, 10)
    merged = taken.merged(1)
    assert merged.shape == (4, 10)
    for tensor, array in ((merged, expected), (merged.transposed(), expected.T)):
        np.testing.assert_array_equal(tensor.read(all_of[:2]), array)
        part = (slice(1, 3), slice(1, 4))
        np.testing.assert_array_equal(tensor.read(part), array[part])
    first = taken.merged(0)
    np.testing.assert_array_equal(
        first.read(all_of[:2]), fake.values[:, 2].reshape(20, 2)
    )


# --- what goes wrong


@pytest.fixture
def step(tmp_path):
    """A step of T5X with stacked layers."""
    amplification.write(tmp_path, (3, 5), stacked=True)
    return tmp_path


def test_of_stacked_layers_the_one_that_is_not_finite_is_named():
    fake = Fake((4, 3, 5), (4, 3, 5))
    fake.values[2, 1, 3] = np.inf
    layers = [Tensor.from_array(fake.stored).taken(1, layer) for layer in range(3)]
    wanted = [
        reading.Parameter(
            f"{n}", layer.shape, layer.dtype, None, [(f"layer {n}", layer.pieces[0])]
        )
        for n, layer in enumerate(layers)
    ]
    with pytest.raises(CheckpointError, match="^layer 1 holds NaN or infinity"):
        reading.read_all(wanted, "reading")


def test_after_an_error_nothing_more_is_read(chunk_by_chunk, monkeypatch):
    monkeypatch.setattr(reading, "BUDGET_BYTES", 1)  # one read at a time
    fakes = [Fake(), Fake()]

    def before(num_bytes):
        if len(fakes[0].reads) == 3:
            raise OSError("the disk\nis gone")

    fakes[0].before = before
    with pytest.raises(CheckpointError, match="stored 0 cannot be read: the disk is"):
        read_all(fakes)
    assert len(fakes[0].reads) == 3 and not fakes[1].reads


def test_an_array_that_cannot_be_opened_is_named(step):
    (step / "target.encoder.encoder.mlp.wo.kernel" / ".zarray").unlink()
    with pytest.raises(
        CheckpointError, match="mlp/wo/kernel cannot be read: NOT_FOUND"
    ):
        t5x.open_folder(step).load()


# --- progress


@pytest.mark.parametrize("is_long", [True, False])
def test_a_long_loading_tells_how_many_bytes_it_has(step, is_long, monkeypatch, capsys):
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setattr(progress, "LINES_APART", 0.0)
    total = 4 * sum(
        math.prod(s) for s in parameter_shapes(amplification.CONFIG).values()
    )
    monkeypatch.setattr(reading, "SHOWN_BYTES", total + 1 - is_long)
    t5x.open_folder(step).load()
    told = capsys.readouterr()
    assert told.out == ""
    if not is_long:
        assert told.err == ""
        return
    title = f"loading {step.parent.name}/{step.name}"
    gigabytes = f"{total / 1e9:.2f} GB"
    assert told.err.splitlines()[-1] == f"{title}: {gigabytes} of {gigabytes}"
