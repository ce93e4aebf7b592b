"""The flags that give a program inputs to decode, one by one or a file of them."""

import sys
from collections.abc import Callable

from absl import flags

from specdec_jax.data.text import read_lines, read_stream
from specdec_jax.errors import SettingsError

_TEXT = flags.DEFINE_multi_string("text", [], "an input; may be given repeatedly.")
_INPUT = flags.DEFINE_string(
    "input",
    None,
    "a file of inputs, one a line (-: standard input). Without --text and --input the "
    "run file's task is decoded, or standard input if it has none.",
)

STANDARD_INPUT = "standard input"


def are_given() -> bool:
    """Whether the flags name inputs, which then come before a task."""
    return bool(_TEXT.value or _INPUT.value)


def read() -> tuple[list[str], Callable[[int], str]]:
    """The inputs, and how an error calls the n-th of them, from 1.

    Raises:
      SettingsError: both flags are given.
      DataError: a file cannot be read or is not UTF-8.
    """
    if _TEXT.value and _INPUT.value:
        raise SettingsError("give --text or --input, not both")
    if _TEXT.value:
        return _TEXT.value, "text {}".format
    if _INPUT.value in (None, "-"):
        lines, name = read_stream(sys.stdin.buffer, STANDARD_INPUT), STANDARD_INPUT
    else:
        lines, name = read_lines(_INPUT.value), _INPUT.value
    return lines, lambda number: f"line {number} of {name}"
