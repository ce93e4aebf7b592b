"""Append-only files of JSON objects, one a line, that survive a kill."""

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path

from specdec_jax.errors import DataError
from specdec_jax.typing import Any


class JsonLinesFile:
    """A JSON-lines file that grows a whole line at a time and survives a kill."""

    def __init__(self, path: str | os.PathLike):
        """Opens a file for appending, and makes its folder.

        A last line that a kill cut short is moved to `FILE.jsonl.cut`; a file of
        anything else than JSON lines is left as it is.

        Raises:
          DataError: it cannot be written, holds something else than JSON lines, is
            another run's for now (`alone`), or is named as the gin file beside it.
        """
        self.path = Path(path)
        if self.path.suffix == ".gin":
            raise DataError(
                f"{path}: records end in .jsonl; .gin is for what a run is told"
            )
        if self.path.exists() and not self.path.is_file():  # /dev/full, a folder
            raise DataError(f"cannot write records to {path}: it is no regular file")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.alone():
                self._mend()
        except OSError as error:
            raise DataError(f"cannot write records to {path}: {error}") from error

    def _mend(self) -> None:
        """Ends the last line, or moves it out if it is not whole."""
        content = self.path.read_bytes()
        start = content.rfind(b"\n") + 1
        line, number = content[start:], content.count(b"\n") + 1
        if not line:
            return
        for _ in self:  # raises if the lines before are not JSON objects
            pass
        try:
            self._parse(line, number)
        except DataError:
            if not (line == b"{" or line.startswith(b'{"')):  # as ours begin
                raise
            with self.path.with_name(self.path.name + ".cut").open("ab") as file:
                file.write(line + b"\n")
            os.truncate(self.path, start)
        else:
            with self.path.open("ab") as file:
                file.write(b"\n")

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The objects so far."""
        # Not splitlines(), which would also cut at the separators that text may hold.
        lines = self.path.read_bytes().split(b"\n")[:-1]
        for number, line in enumerate(lines, 1):
            yield self._parse(line, number)

    def _parse(self, line: bytes, number: int) -> dict[str, Any]:
        return parse_object(line, f"{self.path}:{number}")

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Keeps other runs from appending meanwhile; a kill ends that too.

        Raises:
          DataError: another run appends already.
        """
        with self.path.open("ab") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise DataError(
                    f"another run appends to {self.path}: wait for its end, or give "
                    "the records another name"
                ) from error
            except OSError:
                pass  # a network disk without locks
            yield

    def append(self, value: dict[str, Any]) -> None:
        """Writes one line, and has it on the disk before it returns.

        Raises:
          DataError: the disk is full, or whatever else keeps it from being written.
        """
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(value, ensure_ascii=False) + "\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise DataError(f"cannot write to {self.path}: {error}") from error


def parse_object(content: bytes, place: str) -> dict[str, Any]:
    """One JSON object.

    Args:
      content: a line, or a whole file of one object.
      place: where it is, for the error.

    Raises:
      DataError: it is something else.
    """
    try:
        value = json.loads(content)
    except ValueError as error:
        raise DataError(f"{place} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise DataError(f"{place} is not a JSON object")
    return value
