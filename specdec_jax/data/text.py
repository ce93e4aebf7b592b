"""Lines of text from plain or gzip files."""

import gzip
import os
from collections.abc import Iterable
from pathlib import Path

from specdec_jax.errors import DataError


def read_lines(path: str | os.PathLike) -> list[str]:
    """All lines of a UTF-8 file, without their ends; gzip when it is named `.gz`.

    Raises:
      DataError: the file does not exist, or is not UTF-8 (or not gzip).
    """
    path = Path(path).expanduser()
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rb") as file:
            return read_stream(file, path)
    except (OSError, EOFError) as error:
        raise DataError(f"cannot read text from {path}: {error}") from error


def read_stream(stream: Iterable[bytes], name: str | os.PathLike) -> list[str]:
    """All lines of UTF-8 bytes, without their ends, whatever the locale is.

    Args:
      stream: the bytes, a line each.
      name: of the stream, for the error.

    Raises:
      DataError: a line is not UTF-8.
    """
    lines = []
    for number, line in enumerate(stream, 1):
        try:
            lines.append(line.decode("utf-8").rstrip("\r\n"))
        except UnicodeDecodeError as error:
            raise DataError(f"line {number} of {name} is not UTF-8: {error}") from error
    return lines


def read_pairs(
    source: str | os.PathLike, target: str | os.PathLike
) -> list[tuple[str, str]]:
    """Line-aligned pairs of two files.

    Raises:
      DataError: a file cannot be read, or they have different numbers of lines.
    """
    sources, targets = read_lines(source), read_lines(target)
    if len(sources) != len(targets):
        raise DataError(
            f"{source} has {len(sources)} lines and {target} {len(targets)}: "
            "they must be aligned line by line"
        )
    return list(zip(sources, targets, strict=True))
