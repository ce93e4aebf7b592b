"""Records: one JSON line a result, with all that is needed to make it again."""

import contextlib
import fcntl
import hashlib
import json
import os
import platform
import re
import shlex
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import jax

from specdec_jax._version import __version__
from specdec_jax.errors import DataError
from specdec_jax.typing import Any

PACKAGES = ("jax", "jaxlib", "flax", "numpy")


def environment() -> dict[str, Any]:
    """The versions, the device and the command that a result was made with."""
    devices = jax.devices()
    return {
        "command": command(),
        "versions": {
            "python": platform.python_version(),
            "specdec_jax": __version__,  # also of a checkout on the path
            **{name: metadata.version(name) for name in PACKAGES},
        },
        "device": {
            "platform": devices[0].platform,
            "kind": devices[0].device_kind,
            "count": len(devices),
            "cpu_cores": os.cpu_count(),
        },
    }


def command() -> str | None:
    """The command that runs now, without `--out`; None if it is none of `scripts/`."""
    program, *given = sys.argv
    if Path(program).parent.name != "scripts":
        return None
    kept, after_out = [], False
    for argument in given:
        is_out = re.fullmatch("--?out(=.*)?", argument, re.DOTALL)
        if not (is_out or after_out):
            kept.append(argument)
        after_out = bool(is_out) and "=" not in argument
    return shlex.join(["python", f"scripts/{Path(program).name}", *kept])


def digest(values: Any) -> str:
    """SHA-256, in hex, of numbers and texts in lists: what tells inputs apart."""
    return hashlib.sha256(json.dumps(values).encode()).hexdigest()


class RecordFile:
    """A JSON-lines file that grows a whole line at a time and survives a kill."""

    def __init__(self, path: str | os.PathLike):
        """Opens a file for appending, and makes its folder.

        A last line that a kill cut short is dropped; a file of anything else than JSON
        lines is left as it is.

        Raises:
          DataError: it cannot be written, holds something else than JSON lines, is
            another run's for now (`alone`), or is named as the gin file beside it.
        """
        self.path = Path(path)
        if self.path.suffix == ".gin":
            raise DataError(
                f"{path}: records end in .jsonl; what gin filled in goes to .gin"
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
        """Ends the last line, or drops it if it is not whole."""
        content = self.path.read_bytes()
        start = content.rfind(b"\n") + 1
        line, number = content[start:], content.count(b"\n") + 1
        if not line:
            return
        for _ in self:  # raises if the lines before are not records
            pass
        try:
            self._parse(line, number)
        except DataError:
            if not (line == b"{" or line.startswith(b'{"')):  # as ours begin
                raise
            os.truncate(self.path, start)
        else:
            with self.path.open("ab") as file:
                file.write(b"\n")

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The records so far."""
        # Not splitlines(), which would also cut at the separators that text may hold.
        lines = self.path.read_bytes().split(b"\n")[:-1]
        for number, line in enumerate(lines, 1):
            yield self._parse(line, number)

    def _parse(self, line: bytes, number: int) -> dict[str, Any]:
        return parse_record(line, f"{self.path}:{number}")

    def require(
        self, number: int, record: dict[str, Any], wanted: dict[str, Any]
    ) -> None:
        """Raises DataError unless a record is of the run that goes on with the file.

        Args:
          number: of its line.
          record: as it was read.
          wanted: what its fields must be, as they were before they became JSON.
        """
        for name, value in wanted.items():
            found, expected = record.get(name), json.loads(json.dumps(value))
            if found != expected:
                raise DataError(
                    f"{self.path}:{number} has {name} {_short(found)} and this run "
                    f"{_short(expected)}: give the records another name"
                )

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

    def append(self, record: dict[str, Any]) -> None:
        """Writes one line, and has it on the disk before it returns.

        Raises:
          DataError: the disk is full, or whatever else keeps it from being written.
        """
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record, ensure_ascii=False) + "\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise DataError(f"cannot write to {self.path}: {error}") from error


def parse_record(content: bytes, place: str) -> dict[str, Any]:
    """One record of JSON.

    Args:
      content: a line, or a whole file of one record.
      place: where it is, for the error.

    Raises:
      DataError: it is something else.
    """
    try:
        record = json.loads(content)
    except ValueError as error:
        raise DataError(f"{place} is not JSON: {error}") from error
    if not isinstance(record, dict):
        raise DataError(f"{place} is not a JSON object")
    return record


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 200 else text[:200] + "..."
