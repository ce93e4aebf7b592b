"""Lines of text from plain or gzip files."""

import gzip
import os
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
        with opener(path, "rt", encoding="utf-8", newline="\n") as file:
            return [line.rstrip("\r\n") for line in file]
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise DataError(f"cannot read text from {path}: {error}") from error


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
