"""All records that the report is made from, found in files and folders.

Files of anything else may lie beside them. Nothing here writes.
"""

import contextlib
import dataclasses
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from specdec_jax.errors import DataError
from specdec_jax.experiments.legacy import read_record
from specdec_jax.runtime.json_lines import parse_object
from specdec_jax.runtime.records import Record
from specdec_jax.typing import Any

Kind = TypeVar("Kind", bound=Record)
MODEL = ("weights", "dtype")  # tell models of one name apart


@dataclasses.dataclass(frozen=True)
class RecordSet:
    """Records in the order in which they were found."""

    records: Sequence[Record]

    @classmethod
    def read(cls, places: Sequence[str | os.PathLike]) -> "RecordSet":
        """Reads files, and the `.jsonl` and `.scores.json` files in folders.

        Args:
          places: where records of one key are told twice, the earlier place wins.

        Raises:
          DataError: a place does not exist, or holds something else than JSON, or a
            record's value is one that its field cannot hold; the message names it.
        """
        files = (path for place in places for path in _files(Path(place)))
        once = {path.resolve(): path for path in reversed(list(files))}
        found = []
        for path in reversed(once.values()):
            for values, place in _read(path):
                record = read_record(values, place, path)
                if record is not None:
                    found.append(record)
        return cls(found)

    def of(self, kind: type[Kind], **wanted: Any) -> list[Kind]:
        """The records of a kind whose fields have the wanted values."""
        return [
            record
            for record in self.records
            if isinstance(record, kind)
            and all(getattr(record, name) == value for name, value in wanted.items())
        ]


def distinct(records: Sequence[Kind], *names: str) -> list[Kind]:
    """The first record for each value of the fields together, in order of them."""
    first = {}
    for record in records:
        first.setdefault(values_of(record, *names), record)
    return [first[key] for key in sorted(first, key=_order)]


def values_of(record: Record, *names: str) -> tuple:
    """A record's values of some fields; "" for what it does not say."""
    values = (getattr(record, name) for name in names)
    return tuple("" if value is None else value for value in values)


def _order(key: tuple) -> tuple:
    """Sorts keys of unlike types: numbers by value, all else by how it is written."""
    return tuple(
        (0, part, "") if isinstance(part, int | float) else (1, 0, str(part))
        for part in key
    )


def _files(place: Path) -> list[Path]:
    if not place.exists():
        raise DataError(f"no records at {place}")
    if place.is_file():
        return [place]
    return sorted([*place.rglob("*.jsonl"), *place.rglob("*.scores.json")])


def _read(path: Path) -> Iterator[tuple[dict[str, Any], str]]:
    """A file's objects and their places; a run may be writing its last line."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"cannot read records from {path}: {error}") from error
    if path.name.endswith(".scores.json"):
        yield parse_object(content, str(path)), str(path)
        return
    *lines, last = content.split(b"\n")
    for number, line in enumerate(lines, 1):
        yield parse_object(line, f"{path}:{number}"), f"{path}:{number}"
    with contextlib.suppress(DataError):  # not whole yet
        yield parse_object(last, ""), f"{path}:{len(lines) + 1}"
