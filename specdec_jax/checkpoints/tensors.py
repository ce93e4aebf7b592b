"""Arrays in storage, and the tensors that boxes of them make up.

A checkpoint seldom stores a parameter as this project has it: layers may be stacked,
heads have an axis of their own, kernels be transposed. A `Tensor` says from which boxes
of which stored arrays it is put together, so that one chunk of storage can be read once
for all tensors, and all parts of them, that it has something of.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

from specdec_jax.typing import Callable

Shape = tuple[int, ...]
Index = tuple[slice, ...]
Box = tuple[range, ...]  # a range of step 1 for each axis


@dataclasses.dataclass(frozen=True, eq=False)
class StoredArray:
    """An array in storage, not read yet.

    Attributes:
      shape, dtype: as it will be read.
      read: the part at an index of slices, one for each axis; called from many threads.
      chunks: gives the shape of what is stored as one, and read whole for any part of
        it. It may have to ask the storage. Every element is one if not given.
    """

    shape: Shape
    dtype: np.dtype
    read: Callable[[Index], np.ndarray]
    chunks: Callable[[], Shape] | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class Piece:
    """A box of a stored array, and where it is in a tensor.

    Attributes:
      source: the stored array.
      box: of the source.
      axes: the axis of the source that each of the tensor's is. The box has length 1
        along all others.
      start: of the box, in the tensor.
    """

    source: StoredArray
    box: Box
    axes: tuple[int, ...]
    start: tuple[int, ...]

    def inside(self, box: Box) -> "Piece | None":
        """What is inside a box of the tensor."""
        of_source = list(self.box)
        for axis, first, part in zip(self.axes, self.start, box, strict=True):
            shift = self.box[axis].start - first
            of_source[axis] = range(part.start + shift, part.stop + shift)
        return self.of_source(tuple(of_source))

    def of_source(self, box: Box) -> "Piece | None":
        """What is inside a box of the source."""
        common = tuple(
            range(max(a.start, b.start), min(a.stop, b.stop))
            for a, b in zip(self.box, box, strict=True)
        )
        if not all(common):
            return None
        moved = [common[a].start - self.box[a].start for a in self.axes]
        start = tuple(s + m for s, m in zip(self.start, moved, strict=True))
        return dataclasses.replace(self, box=common, start=start)

    def view(self, block: np.ndarray, box: Box) -> np.ndarray:
        """The piece, with the tensor's axes.

        Args:
          block: of the source.
          box: where it is in the source.
        """
        index = [
            slice(own.start - whole.start, own.stop - whole.start)
            if axis in self.axes
            else own.start - whole.start
            for axis, (own, whole) in enumerate(zip(self.box, box, strict=True))
        ]
        order = sorted(self.axes)
        return block[tuple(index)].transpose([order.index(a) for a in self.axes])

    def write(self, view: np.ndarray, out: np.ndarray, box: Box) -> None:
        """Casts the piece into its place.

        Args:
          view: see `view`.
          out: a part of the tensor.
          box: where that is in the tensor.
        """
        index = [
            slice(first - whole.start, first - whole.start + size)
            for first, whole, size in zip(self.start, box, view.shape, strict=True)
        ]
        out[tuple(index)] = view

    def moved(self, axis: int, distance: int) -> "Piece":
        """The piece elsewhere along an axis of the tensor."""
        start = list(self.start)
        start[axis] += distance
        return dataclasses.replace(self, start=tuple(start))


@dataclasses.dataclass(frozen=True)
class Tensor:
    """A tensor made of stored arrays, not read yet.

    Attributes:
      shape: its own.
      dtype: of what is stored.
      pieces: boxes of stored arrays, which fill it.
    """

    shape: Shape
    dtype: np.dtype
    pieces: tuple[Piece, ...]

    @classmethod
    def from_array(cls, source: StoredArray) -> "Tensor":
        """A stored array as it is."""
        rank = len(source.shape)
        piece = Piece(source, whole(source.shape), tuple(range(rank)), (0,) * rank)
        return cls(source.shape, source.dtype, (piece,))

    def read(self, index: Index) -> np.ndarray:
        """The part at an index of slices, one for each axis."""
        box = box_of(index, self.shape)
        out = np.empty([len(r) for r in box], self.dtype)
        for piece in filter(None, (piece.inside(box) for piece in self.pieces)):
            block = piece.source.read(index_of(piece.box))
            piece.write(piece.view(block, piece.box), out, box)
        return out

    def transposed(self) -> "Tensor":
        """With its axes reversed."""
        pieces = [
            dataclasses.replace(p, axes=p.axes[::-1], start=p.start[::-1])
            for p in self.pieces
        ]
        return Tensor(self.shape[::-1], self.dtype, tuple(pieces))

    def taken(self, axis: int, position: int) -> "Tensor":
        """What is at a position of an axis, without that axis."""
        box = list(whole(self.shape))
        box[axis] = range(position, position + 1)
        pieces = [
            dataclasses.replace(
                piece,
                axes=_without(piece.axes, axis),
                start=_without(piece.start, axis),
            )
            for piece in filter(None, (p.inside(tuple(box)) for p in self.pieces))
        ]
        return Tensor(_without(self.shape, axis), self.dtype, tuple(pieces))

    def merged(self, axis: int) -> "Tensor":
        """With an axis and the next one as one: [..., N, H, ...] -> [..., N*H, ...]."""
        number, size = self.shape[axis : axis + 2]
        pieces = tuple(
            piece.moved(axis, position * size)
            for position in range(number)
            for piece in self.taken(axis, position).pieces
        )
        shape = (*self.shape[:axis], number * size, *self.shape[axis + 2 :])
        return Tensor(shape, self.dtype, pieces)


def interleaved(tensors: Sequence[Tensor], parts: int) -> list[list[Piece]]:
    """The pieces of G tensors [..., F] in one [..., G * F].

    The first F / parts columns of each, then the next of each, and so on.

    Returns:
      The pieces of each tensor.
    """
    *before, features = tensors[0].shape
    width = features // parts
    rest = whole(tuple(before))
    result = []
    for member, tensor in enumerate(tensors):
        pieces = []
        for part in range(parts):
            columns = range(part * width, (part + 1) * width)
            distance = (part * len(tensors) + member - part) * width
            inside = (piece.inside((*rest, columns)) for piece in tensor.pieces)
            pieces += [p.moved(-1, distance) for p in inside if p is not None]
        result.append(pieces)
    return result


def whole(shape: Shape) -> Box:
    """All of a shape."""
    return tuple(map(range, shape))


def box_of(index: Index, shape: Shape) -> Box:
    """The box at an index of slices of step 1."""
    return tuple(range(*i.indices(n)) for i, n in zip(index, shape, strict=True))


def index_of(box: Box) -> Index:
    """The index of slices of a box."""
    return tuple(slice(r.start, r.stop) for r in box)


def _without(values: tuple, axis: int) -> tuple:
    return (*values[:axis], *values[axis + 1 :])
