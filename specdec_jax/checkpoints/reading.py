"""Reads parameters: each stored chunk once, many at a time, into their final places.

Storage is read by whole chunks, which may hold something of several parameters (stacked
layers), of several devices' parts (chunks that are cut otherwise than the mesh cuts),
or both. So what is planned is not the reading of a parameter but that of a chunk: it is
read by one thread, checked, cast, and copied into the host's buffer of every part that
it has something of. A parameter goes to its devices as soon as its parts are full.
"""

import concurrent.futures
import contextlib
import dataclasses
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence

import jax
import numpy as np

from specdec_jax.checkpoints.tensors import (
    Box,
    Piece,
    Shape,
    StoredArray,
    box_of,
    index_of,
    whole,
)
from specdec_jax.errors import CheckpointError, one_line
from specdec_jax.runtime.progress import progress_bar
from specdec_jax.typing import Callable

READS = 32  # in flight at most
# Chunks of reads in flight, as they are decoded: 16 of T5X's largest.
BUDGET_BYTES = 2**30
BLOCK_BYTES = 16 * 2**20  # smaller chunks are read so many together
SHOWN_BYTES = 10**9  # a longer reading shows its progress
ALIGNMENT = 64  # of a buffer that a CPU device takes as it is


@dataclasses.dataclass(frozen=True)
class Parameter:
    """What is to be read.

    Attributes:
      name: its own.
      shape, dtype: as it will be.
      sharding: over devices; None for the default device.
      pieces: which fill it, each with a name of its source for error messages.
      keep: what is kept of it, by name, once it is on its devices; waits for what it
        computes, so that they hold one such parameter at a time. Itself if not given.
    """

    name: str
    shape: Shape
    dtype: np.dtype
    sharding: jax.sharding.Sharding | None
    pieces: Sequence[tuple[str, Piece]]
    keep: Callable[[jax.Array], dict[str, jax.Array]] | None = None


def read_all(parameters: Iterable[Parameter], title: str) -> dict[str, jax.Array]:
    """Reads parameters, for the devices of this process.

    The host holds, besides those that are read: of reads in flight at most
    `BUDGET_BYTES` of decoded chunks (or one chunk that is larger), and as much again
    while they are decoded and copied; and the parameters that these have something of,
    in full. Those are a few, and where layers are stacked all layers' of a kind.

    Args:
      parameters: in the order in which they are read, more or less.
      title: of the progress bar.

    Returns:
      The parameters, or what is kept of them, by name.

    Raises:
      CheckpointError: a tensor cannot be read, or holds NaN or infinity.
    """
    places = [_Place(parameter) for parameter in parameters]
    with concurrent.futures.ThreadPoolExecutor(READS) as pool:
        try:
            return _read_all(places, title, pool)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _read_all(places, title, pool) -> dict[str, jax.Array]:
    reads = _plan(places, pool)
    total = sum(read.num_bytes for read in reads)
    shown = total >= SHOWN_BYTES and jax.process_index() == 0
    in_flight: dict[concurrent.futures.Future, _Read] = {}
    result = {}
    with progress_bar(title, shown, in_bytes=True) as bar:
        task = bar.add_task("", total=total)

        def finish_some() -> None:
            done, _ = concurrent.futures.wait(
                in_flight, return_when=concurrent.futures.FIRST_COMPLETED
            )
            for future in [f for f in in_flight if f in done]:
                read = in_flight.pop(future)
                future.result()
                bar.advance(task, read.num_bytes)
                for place in read.places:
                    place.missing -= 1
                    if not place.missing:
                        result.update(place.put())

        reads.reverse()  # each is forgotten once it is done
        while reads:
            read = reads.pop()
            while in_flight and not _fits(read, in_flight.values()):
                finish_some()
            for place in read.places:
                place.allocate()
            in_flight[pool.submit(_perform, read)] = read
        while in_flight:
            finish_some()
    return result


def _fits(read: "_Read", in_flight: Iterable["_Read"]) -> bool:
    in_flight = list(in_flight)
    total = sum(other.num_bytes for other in in_flight) + read.num_bytes
    return len(in_flight) < READS and total <= BUDGET_BYTES


@dataclasses.dataclass(eq=False)
class _Part:
    """A part of a parameter that some devices of this process hold."""

    box: Box
    devices: list[jax.Device]
    array: np.ndarray | None = None


class _Place:
    """Where a parameter is put together on this host."""

    def __init__(self, parameter: Parameter):
        self.parameter = parameter
        self.missing = 0  # reads
        sharding, shape = parameter.sharding, parameter.shape
        parts = {}
        if sharding is None:
            parts[whole(shape)] = []
        else:
            for device, i in sharding.addressable_devices_indices_map(shape).items():
                parts.setdefault(box_of(i, shape), []).append(device)
        self.parts = [_Part(box, devices) for box, devices in parts.items()]

    def allocate(self) -> None:
        """Makes the buffers, if there are none yet."""
        for part in self.parts:
            if part.array is None:
                part.array = _buffer(tuple(map(len, part.box)), self.parameter.dtype)

    def put(self) -> dict[str, jax.Array]:
        """What is kept of the parameter; the buffers are its devices', or forgotten."""
        keep = self.parameter.keep
        return keep(self._put()) if keep else {self.parameter.name: self._put()}

    def _put(self) -> jax.Array:
        parameter = self.parameter
        parts, self.parts = self.parts, []
        if parameter.sharding is None:
            return jax.device_put(parts[0].array)
        arrays = [
            jax.device_put(part.array, device)
            for part in parts
            for device in part.devices
        ]
        return jax.make_array_from_single_device_arrays(
            parameter.shape, parameter.sharding, arrays, dtype=parameter.dtype
        )


@dataclasses.dataclass(frozen=True, eq=False)
class _Copy:
    """A piece that a read has for a part of a parameter."""

    name: str
    piece: Piece
    part: _Part


@dataclasses.dataclass(frozen=True, eq=False)
class _Read:
    """A read of a chunk, or of what is needed of it.

    Attributes:
      box: of the source.
      copies: of the block that is read.
      places: of the parameters that these are of.
      num_bytes: of the chunks, as they are decoded.
    """

    source: StoredArray
    box: Box
    copies: list[_Copy]
    places: list[_Place]
    num_bytes: int


def _plan(places: Sequence[_Place], pool: concurrent.futures.Executor) -> list[_Read]:
    """The reads, in the order in which parameters need them."""
    names = {}  # of sources
    for place in places:
        for name, piece in place.parameter.pieces:
            names.setdefault(piece.source, name)
    chunks = dict(
        zip(names, pool.map(_chunk_shape, names, names.values()), strict=True)
    )
    blocks = {s: _block_shape(s, chunk) for s, chunk in chunks.items()}
    copies: dict[tuple[StoredArray, Box], list[_Copy]] = {}
    users: dict[tuple[StoredArray, Box], dict[_Place, None]] = {}
    for place in places:
        for part, (name, piece) in itertools.product(
            place.parts, place.parameter.pieces
        ):
            needed = piece.inside(part.box)
            if needed is None:
                continue
            for block in _blocks(needed, blocks[piece.source]):
                key = piece.source, block
                copies.setdefault(key, []).append(
                    _Copy(name, needed.of_source(block), part)
                )
                users.setdefault(key, {})[place] = None
    reads = []
    for (source, block), own in copies.items():
        box = _hull([copy.piece.box for copy in own])
        of_block = list(users[source, block])
        for place in of_block:
            place.missing += 1
        num_bytes = _stored_bytes(source, box, chunks[source])
        reads.append(_Read(source, box, own, of_block, num_bytes))
    return reads


def _chunk_shape(source: StoredArray, name: str) -> Shape:
    if source.chunks is None:
        return (1,) * len(source.shape)
    with _named(name):
        return tuple(source.chunks())


def _block_shape(source: StoredArray, chunk: Shape) -> Shape:
    """A chunk, or neighbours that are read together, the last axis growing first."""
    block = list(chunk)
    for axis in reversed(range(len(block))):
        num_bytes = math.prod(block) * source.dtype.itemsize
        most = -(-source.shape[axis] // block[axis])
        block[axis] *= max(1, min(most, BLOCK_BYTES // num_bytes))
    return tuple(block)


def _blocks(piece: Piece, block: Shape) -> Iterator[Box]:
    """The blocks of the source that a piece has something of."""
    shape = piece.source.shape
    starts = [
        range(own.start // size * size, own.stop, size)
        for own, size in zip(piece.box, block, strict=True)
    ]
    for corner in itertools.product(*starts):
        yield tuple(
            range(start, min(start + size, n))
            for start, size, n in zip(corner, block, shape, strict=True)
        )


def _hull(boxes: Sequence[Box]) -> Box:
    """The smallest box that holds all of them."""
    return tuple(
        range(min(r.start for r in axis), max(r.stop for r in axis))
        for axis in zip(*boxes, strict=True)
    )


def _stored_bytes(source: StoredArray, box: Box, chunk: Shape) -> int:
    """Of all the chunks that a box has something of."""
    lengths = [
        min(-(-own.stop // size) * size, n) - own.start // size * size
        for own, size, n in zip(box, chunk, source.shape, strict=True)
    ]
    return math.prod(lengths) * source.dtype.itemsize


def _perform(read: _Read) -> None:
    """Reads a block and copies it where it belongs."""
    with _named(read.copies[0].name):
        block = read.source.read(index_of(read.box))
    for copy in read.copies:
        view = copy.piece.view(block, read.box)
        if not _all_finite(view):
            raise CheckpointError(f"{copy.name} holds NaN or infinity")
        copy.piece.write(view, copy.part.array, copy.part.box)


@contextlib.contextmanager
def _named(name: str) -> Iterator[None]:
    """Says of what is read in this context what it is, if it cannot be read."""
    try:
        yield
    except CheckpointError:
        raise
    except Exception as error:  # every library has its own
        raise CheckpointError(f"{name} cannot be read: {one_line(error)}") from error


def _all_finite(part: np.ndarray) -> bool:
    # A sum is cheap and shows every NaN and infinity; it may also overflow alone.
    with np.errstate(all="ignore"):
        total = np.sum(part, dtype=np.float32)
    return bool(np.isfinite(total) or np.isfinite(part).all())


def _buffer(shape: Shape, dtype: np.dtype) -> np.ndarray:
    """An empty array that a CPU device takes without a copy."""
    num_bytes = math.prod(shape) * dtype.itemsize
    memory = np.empty(num_bytes + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + num_bytes].view(dtype).reshape(shape)
