"""The trace of a decode, as the paper's Figure 1: a line for each target call.

Told by colour, or by marks where there is none: draft tokens that were accepted, the
first that was rejected, and the target's own token after them.
"""

import dataclasses
import enum
import html
import os
from collections.abc import Callable, Sequence

from rich import get_console
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from specdec_jax.decoding.state import StepInfo
from specdec_jax.errors import DataError

Piece = Callable[[int], str]  # the text of an id, a leading space where a word begins


class Fate(enum.Enum):
    """What became of a token: its style in a terminal, its mark, its HTML element.

    In HTML each token has a background of its own, so that it can be read on a light
    and on a dark page; elements keep a meaning where a page drops styles.
    """

    BEFORE = ("bright_black", "{}", "span", "opacity:.6")  # of an earlier target call
    ACCEPTED = ("green", "[{}]", "span", "background:#c4ecd0;color:#0b3d1f")
    REJECTED = ("red strike", "(-{})", "del", "background:#fbd5d0;color:#7a1410")
    TARGET = ("bold blue", "(+{})", "b", "background:#cfe3fb;color:#0b3a6b")

    @property
    def style(self) -> str:
        return self.value[0]

    def mark(self, piece: str) -> str:
        """The piece with the mark that tells its fate without colour."""
        space = " " if piece.startswith(" ") else ""
        return space + self.value[1].format(piece.removeprefix(" "))

    def html(self, text: str) -> str:
        """The text as an element of a page."""
        _, _, tag, style = self.value
        return f'<{tag} style="{style}">{html.escape(text)}</{tag}>'


LEGEND = (
    (Fate.ACCEPTED, "accepted"),
    (Fate.REJECTED, "rejected"),
    (Fate.TARGET, "the target's own"),
)


@dataclasses.dataclass(frozen=True)
class TraceToken:
    """One token of one line."""

    token: int
    fate: Fate


Line = Sequence[TraceToken]


def steps(infos: StepInfo, row: int) -> list[list[TraceToken]]:
    """The tokens of each target call of one row.

    Draft tokens after the first rejection were never tested and are left out, and so
    is all that lies past the row's end.

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
        drafted = infos.drafted[step, row]
        line = [TraceToken(int(x), Fate.ACCEPTED) for x in drafted[:accepted][:emitted]]
        if emitted > accepted:
            if accepted < infos.gamma[step, row]:
                line.append(TraceToken(int(drafted[accepted]), Fate.REJECTED))
            line.append(TraceToken(int(infos.next_token[step, row]), Fate.TARGET))
        lines.append(line)
    return lines


def render(lines: Sequence[Line], piece: Piece, color: bool) -> Text:
    """A trace for a terminal: with colours, or with marks where there are none.

    Args:
      lines: from `steps`.
      piece: the text of a token.
      color: whether fates are told by colour; by marks otherwise.
    """
    rendered, before = Text(), Text()
    for number, line in enumerate(lines, 1):
        rendered.append(f"{number:3d} ", "bright_black")
        rendered.append_text(before)
        for token in line:
            text = piece(token.token)
            shown = text if color else token.fate.mark(text)
            rendered.append(shown, token.fate.style)
            if token.fate is not Fate.REJECTED:
                before.append(text, Fate.BEFORE.style)
        rendered.append("\n")
    return rendered


def legend(color: bool) -> Text:
    """What the colours, or the marks, mean."""
    text = Text("    ")
    for fate, meaning in LEGEND:
        text.append(meaning if color else fate.mark(meaning), fate.style)
        text.append("   ")
    return text


# A line is as wide as its page: what came before gives way, and shows its end.
_LINE = "display:flex;white-space:pre;line-height:1.6"
_BEFORE = (
    "flex:0 1 auto;min-width:0;overflow:hidden;text-overflow:ellipsis;direction:rtl"
)
_TOKENS = "flex:0 0 auto;max-width:calc(100% - 9ch);white-space:pre-wrap"


def as_html(lines: Sequence[Line], piece: Piece, heading: str = "") -> str:
    """A trace as a self-contained element of a page, such as a notebook.

    Args:
      lines, piece: as in `render`.
      heading: above the trace.
    """
    rows, before = [], ""
    for number, line in enumerate(lines, 1):
        tokens = "".join(token.fate.html(piece(token.token)) for token in line)
        rows.append(
            f'<div style="{_LINE}">{Fate.BEFORE.html(f"{number:3d} ")}'
            f'<span style="{_BEFORE}"><bdi dir="ltr">{Fate.BEFORE.html(before)}</bdi>'
            f'</span><span style="{_TOKENS}">{tokens}</span></div>'
        )
        kept = (token for token in line if token.fate is not Fate.REJECTED)
        before += "".join(piece(token.token) for token in kept)
    meanings = " ".join(fate.html(meaning) for fate, meaning in LEGEND)
    return (
        f'<div style="margin:.5em 0"><b>{html.escape(heading)}</b>\n'
        f'<div style="font-family:monospace">\n{"".join(rows)}\n</div>'
        f"<small>{meanings}</small></div>"
    )


def print_trace(
    console: Console, lines: Sequence[Line], piece: Piece, heading: str
) -> None:
    """Prints a heading, a trace and its legend, in the encoding of the terminal."""

    def printable(text: str) -> str:
        return text.encode(console.encoding, "replace").decode(console.encoding)

    color = console.color_system is not None
    trace = render(lines, lambda token: printable(piece(token)), color)
    options = {"highlight": False, "soft_wrap": True}
    console.print(printable(heading), style="bold", markup=False, **options)
    console.print(trace, end="", **options)
    console.print(legend(color), **options)


def show(traces: Sequence[tuple[str, Sequence[Line]]], piece: Piece) -> None:
    """Shows traces in the notebook, or else prints them.

    Args:
      traces: a heading and the lines of each.
      piece: as in `render`.
    """
    if get_console().is_jupyter:
        from IPython.display import HTML, display

        display(HTML("".join(as_html(lines, piece, head) for head, lines in traces)))
        return
    console = Console()
    for heading, lines in traces:
        print_trace(console, lines, piece, heading)


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
