"""The paper's Figure 1: a line for each target run, and what became of each guess."""

import dataclasses
import enum
import os
from collections.abc import Callable, Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from specdec_jax.decoding.state import StepInfo
from specdec_jax.errors import DataError


class Fate(enum.Enum):
    """What a token of a trace is, with its colour and its mark."""

    BEFORE = ("bright_black", "{}")  # of an earlier run
    ACCEPTED = ("green", "[{}]")  # a guess that stood
    REJECTED = ("red strike", "(-{})")  # the first guess that did not
    CORRECTED = ("bold blue", "(+{})")  # the target's own: correction or bonus

    @property
    def style(self) -> str:
        return self.value[0]

    def mark(self, piece: str) -> str:
        """The piece with the mark that tells its fate without colour."""
        space = " " if piece.startswith(" ") else ""
        return space + self.value[1].format(piece.removeprefix(" "))


LEGEND = ((Fate.ACCEPTED, "accepted"), (Fate.REJECTED, "rejected"))
LEGEND += ((Fate.CORRECTED, "the target's own"),)


@dataclasses.dataclass(frozen=True)
class TraceToken:
    """One token of one line."""

    token: int
    fate: Fate


def trace(infos: StepInfo, row: int) -> list[list[TraceToken]]:
    """The lines of one row's trace, without what came before them.

    Guesses after the first rejection were never tested and are left out, and so is all
    that lies past the row's end.

    Args:
      infos: [steps, B, ...], on the host.
      row: which of the B.
    """
    lines = []
    for step in range(infos.gamma.shape[0]):
        emitted = int(infos.num_emitted[step, row])
        if emitted == 0:
            break
        accepted = int(infos.num_accepted[step, row])
        guesses = infos.drafted[step, row]
        line = [TraceToken(int(g), Fate.ACCEPTED) for g in guesses[:accepted][:emitted]]
        if emitted > accepted:
            if accepted < infos.gamma[step, row]:
                line.append(TraceToken(int(guesses[accepted]), Fate.REJECTED))
            line.append(TraceToken(int(infos.next_token[step, row]), Fate.CORRECTED))
        lines.append(line)
    return lines


def render(
    lines: Sequence[Sequence[TraceToken]], piece: Callable[[int], str], color: bool
) -> Text:
    """A trace for a terminal: with colours, or with marks where there are none.

    Args:
      lines: from `trace`.
      piece: the text of a token, a leading space where a word begins.
      color: whether fates are told by colour; by marks otherwise.
    """

    def show(token: TraceToken) -> Text:
        text = piece(token.token)
        return Text(text if color else token.fate.mark(text), token.fate.style)

    rendered, before = Text(), Text()
    for number, line in enumerate(lines, 1):
        rendered.append(f"{number:3d} ", "bright_black")
        rendered.append_text(before)
        for token in line:
            rendered.append_text(show(token))
            if token.fate is not Fate.REJECTED:
                before.append(piece(token.token), Fate.BEFORE.style)
        rendered.append("\n")
    return rendered


def legend(color: bool) -> Text:
    """What the colours, or the marks, mean."""
    text = Text("    ")
    for fate, meaning in LEGEND:
        text.append(meaning if color else fate.mark(meaning), fate.style)
        text.append("   ")
    return text


def save_svg(console: Console, path: str | os.PathLike) -> None:
    """Draws what a recording console printed, as wide as its longest line.

    Raises:
      DataError: the file cannot be written.
    """
    printed = console.export_text(clear=False)
    # At the terminal's width rich would cut what soft_wrap left long.
    console.width = max(map(cell_len, printed.splitlines()), default=1)
    try:
        console.save_svg(os.fspath(path), title="specdec_jax")
    except OSError as error:
        raise DataError(f"cannot write a picture to {path}: {error}") from error
