"""Rows of a dataset's split, and the batches that they are decoded in."""

import array
import dataclasses
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from specdec_jax.errors import SettingsError
from specdec_jax.typing import Any


@dataclasses.dataclass(frozen=True)
class Example:
    """One row of a split.

    Attributes:
      index: its position in the split.
      inputs, targets: ids, truncated to the task's lengths and ended by EOS, but for
        inputs that targets continue.
      source, target: the texts, not truncated; the source with the task's prefix.
    """

    index: int
    inputs: list[int]
    targets: list[int]
    source: str
    target: str


@dataclasses.dataclass(frozen=True)
class DecodeBatch:
    """Rows to decode together; as many in every batch, the last one too.

    Attributes:
      examples: the rows that are wanted, in order; they come first.
      inputs: ids of all rows, B lists; a padding row is EOS alone.
      row_ids: B positions in the split; 0 for padding rows.
      is_padding: [B] bool.
    """

    examples: list[Example]
    inputs: list[list[int]]
    row_ids: list[int]
    is_padding: np.ndarray


class TokenPairs(Sequence):
    """Ids of (source, target) of many rows, in two flat arrays.

    Millions of pairs as Python lists would take ten times the memory; here a pair
    becomes two lists when it is asked for.
    """

    def __init__(self, pairs: Iterable[tuple[np.ndarray, np.ndarray]]):
        """Copies pairs of int32 arrays, each read once."""
        flat = array.array("i"), array.array("i")
        ends = array.array("q", [0]), array.array("q", [0])
        for pair in pairs:
            for side in (0, 1):
                flat[side].frombytes(np.asarray(pair[side], np.int32).tobytes())
                ends[side].append(len(flat[side]))
        self._flat = tuple(np.frombuffer(tokens, np.int32) for tokens in flat)
        self._ends = tuple(np.frombuffer(offsets, np.int64) for offsets in ends)

    def __len__(self) -> int:
        return len(self._ends[0]) - 1

    def __getitem__(self, index: Any) -> Any:
        """A pair of lists, or for a slice a list of such pairs."""
        rows = range(len(self))[index]  # checks it, and counts from the end if negative
        if isinstance(rows, range):
            return [self[row] for row in rows]
        source, target = (
            tokens[ends[rows] : ends[rows + 1]].tolist()
            for tokens, ends in zip(self._flat, self._ends, strict=True)
        )
        return source, target


def decode_batches(
    examples: Sequence[Example], batch_size: int, eos_id: int, start: int = 0
) -> Iterator[DecodeBatch]:
    """Examples from position `start` on, in order, in batches of one size.

    Args:
      examples: the rows.
      batch_size: B.
      eos_id: of the tokenizer.
      start: the position of the first row.

    Raises:
      SettingsError: the size is below 1.
    """
    if batch_size < 1:
        raise SettingsError(f"batch_size must be at least 1, not {batch_size}")
    for first in range(start, len(examples), batch_size):
        rows = list(examples[first : first + batch_size])
        padding = batch_size - len(rows)
        yield DecodeBatch(
            examples=rows,
            inputs=[row.inputs for row in rows] + [[eos_id]] * padding,
            row_ids=[row.index for row in rows] + [0] * padding,
            is_padding=np.arange(batch_size) >= len(rows),
        )
