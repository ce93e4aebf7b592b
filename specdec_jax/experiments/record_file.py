"""The file that a run appends its records to, and goes on from."""

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from specdec_jax.errors import DataError
from specdec_jax.experiments.kinds import KINDS
from specdec_jax.experiments.legacy import read_record
from specdec_jax.runtime.json_lines import JsonLinesFile
from specdec_jax.runtime.records import Record
from specdec_jax.typing import Any

Kind = TypeVar("Kind", bound=Record)


class RecordFile:
    """A JSON-lines file of records, a line each."""

    def __init__(self, path: str | os.PathLike):
        """Opens a file for appending, and makes its folder; see `JsonLinesFile`."""
        self._lines = JsonLinesFile(path)

    @property
    def path(self) -> Path:
        return self._lines.path

    def __iter__(self) -> Iterator[Record]:
        """The records so far.

        Raises:
          DataError: a line is none of a kind that is known, or holds what it cannot.
        """
        for number, values in enumerate(self._lines, 1):
            place = f"{self.path}:{number}"
            record = read_record(values, place, self.path)
            if record is None:
                told = _short(values.get("kind"))
                raise DataError(
                    f"{place} is no record: its kind must be one of "
                    f"{', '.join(KINDS)}, not {told}"
                )
            yield record

    def of_run(
        self, kinds: type[Kind] | tuple[type[Kind], ...], identity: dict[str, Any]
    ) -> list[Kind]:
        """The records so far, all of which must be of the run that goes on with them.

        Args:
          kinds: what the run writes here.
          identity: the run's values of the kinds' identity fields.

        Raises:
          DataError: one is of another kind or of another run.
        """
        found = []
        for number, record in enumerate(self, 1):
            if not isinstance(record, kinds):
                raise DataError(
                    f"{self.path}:{number} is of kind {record.kind}, which this run "
                    "does not write: give the records another name"
                )
            self.require(
                number,
                record,
                {name: identity[name] for name in record.identity_names()},
            )
            found.append(record)
        return found

    def require(self, number: int, record: Record, wanted: dict[str, Any]) -> None:
        """Raises DataError unless a record is of the run that goes on with the file.

        Args:
          number: of its line.
          record: as it was read.
          wanted: what its fields must be, as they were before they became JSON.
        """
        for name, value in wanted.items():
            found, expected = getattr(record, name), json.loads(json.dumps(value))
            if found != expected:
                raise DataError(
                    f"{self.path}:{number} has {name} {_short(found)} and this run "
                    f"{_short(expected)}: give the records another name"
                )

    def alone(self) -> contextlib.AbstractContextManager[None]:
        """Keeps other runs from appending meanwhile; see `JsonLinesFile.alone`."""
        return self._lines.alone()

    def append(self, record: Record) -> None:
        """Writes one line, and has it on the disk before it returns.

        Raises:
          DataError: the disk is full, or whatever else keeps it from being written.
        """
        self._lines.append(record.to_json())


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 200 else text[:200] + "..."
