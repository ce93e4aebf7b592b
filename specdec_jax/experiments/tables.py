"""Tables as values: a column says what its numbers are, a table where they are from.

Written as Markdown that reads well unrendered too, or as HTML.
"""

import dataclasses
import enum
import html
import os
from collections.abc import Sequence
from pathlib import Path

from specdec_jax.experiments.record_set import Found

Cell = str | int | float | tuple[float, ...] | list[float] | None
NOTHING = "–"  # of which there is no record, or which the paper does not print


class Kind(enum.Enum):
    """What the numbers of a column are, as the column's head says it."""

    KEY = ""
    PAPER = "paper"
    COMPUTED = "computed"
    PREDICTED = "predicted"
    COMPILER = "compiler"
    ROOFLINE = "roofline"
    MEASURED = "measured"


MEANINGS = {
    Kind.PAPER: "printed in the paper: measured or predicted by its authors",
    Kind.COMPUTED: "the paper's formula, with the paper's α, c and γ",
    Kind.PREDICTED: "a formula, with α, c and v as they were measured here",
    Kind.COMPILER: "read from a program that was compiled for a TPU; nothing ran",
    Kind.ROOFLINE: "from a program compiled for a TPU and the chip's published peaks; "
    "nothing ran",
    Kind.MEASURED: "measured by this project, on the device that is named",
}


@dataclasses.dataclass(frozen=True)
class Column:
    """A column: its name, what its numbers are, and how they are written."""

    name: str
    kind: Kind = Kind.KEY
    format: str = ".2f"

    @property
    def head(self) -> str:
        return f"{self.name} ({self.kind.value})" if self.kind.value else self.name

    def show(self, cell: Cell) -> str:
        if cell is None:
            return NOTHING
        if isinstance(cell, str):
            return cell
        if isinstance(cell, tuple | list):
            return "–".join(format(end, self.format) for end in cell)
        return format(cell, self.format)


@dataclasses.dataclass(frozen=True)
class Source:
    """Where numbers are from, or would be from: a file, a command.

    Attributes:
      text: what it gives, and on what it was measured.
      command: what makes it.
      path: the file of records; None if there is none yet.
    """

    text: str
    command: str
    path: Path | None = None

    @classmethod
    def from_records(cls, found: Sequence[Found], command: str) -> list["Source"]:
        """One for each file and device of some records; what is missing, if none."""
        if not found:
            return [cls("No record yet", command)]
        seen = dict.fromkeys(
            (f"Measured on {one.made_on}", one.made_by(command), one.path)
            for one in found
        )
        return [cls(*source) for source in seen]


@dataclasses.dataclass(frozen=True, repr=False)
class Table:
    """A table. Each row has a cell for each column; None is written as a dash.

    Attributes:
      title, columns, rows: what it shows.
      notes: what a reader has to know about single numbers.
      sources: where they are from.
    """

    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    notes: Sequence[str] = ()
    sources: Sequence[Source] = ()

    def __post_init__(self):
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"{self.title}: {row} has not a cell for each column")

    def __repr__(self) -> str:
        """Short, as notebooks keep it, and without the places of its records."""
        return f"Table({self.title!r})"

    def _repr_markdown_(self) -> str:
        """How a notebook shows it; files are linked from the working directory."""
        return markdown(self, Path())

    def cells(self) -> list[list[str]]:
        """All rows as they are written, under the heads."""
        heads = [column.head for column in self.columns]
        return [heads] + [
            [column.show(cell) for column, cell in zip(self.columns, row, strict=True)]
            for row in self.rows
        ]


def markdown(table: Table, folder: Path) -> str:
    """A table as Markdown.

    Args:
      table: what to write.
      folder: where the text will lie; files are linked from there.
    """
    heads, *rows = (list(map(_plain, row)) for row in table.cells())
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]

    def line(cells):
        padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
        return f"| {' | '.join(padded)} |"

    rule = f"|{'|'.join('-' * (width + 2) for width in widths)}|"
    parts = [
        f"**{_plain(table.title)}**",
        "\n".join([line(heads), rule, *map(line, rows)]),
    ]
    if not rows:
        parts[1:] = ["No record yet."]
    parts += [
        _bullets([*table.notes, *(show_source(s, folder) for s in table.sources)])
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def as_html(table: Table, folder: Path) -> str:
    """A table as HTML; columns are coloured by what they are, which the heads say too.

    Args:
      table, folder: as in `markdown`.
    """
    heads, *rows = table.cells()
    kinds = [column.kind.value or "key" for column in table.columns]

    def line(tag, cells):
        return "".join(
            f'<{tag} class="{kind}">{html.escape(cell)}</{tag}>'
            for kind, cell in zip(kinds, cells, strict=True)
        )

    body = "\n".join(f"<tr>{line('td', row)}</tr>" for row in rows)
    if not rows:
        body = f'<tr><td colspan="{len(heads)}">No record yet.</td></tr>'
    notes = [html.escape(note) for note in table.notes]
    notes += [show_source_html(s, folder) for s in table.sources]
    return (
        f"<table>\n<caption>{html.escape(table.title)}</caption>\n"
        f"<thead><tr>{line('th', heads)}</tr></thead>\n<tbody>\n{body}\n</tbody>\n"
        f"</table>\n<ul>{''.join(f'<li>{note}</li>' for note in notes)}</ul>\n"
    )


def link(path: Path, folder: Path) -> str:
    """A path as seen from a folder, with forward slashes."""
    return Path(os.path.relpath(path, folder)).as_posix()


def _plain(text: str) -> str:
    """Text in a cell of Markdown, where bars, tags and new lines would be read so."""
    text = " ".join(text.split())
    for sign, written in (("&", "&amp;"), ("<", "&lt;"), ("|", "\\|"), ("`", "\\`")):
        text = text.replace(sign, written)
    return text


def _bullets(notes: Sequence[str]) -> str:
    return "\n".join(f"- {note}" for note in notes)


def show_source(source: Source, folder: Path) -> str:
    """A source as Markdown: what it gives, the file, the command."""
    if source.path is None:
        return f"{source.text}: make one with `{source.command}`"
    file = f"[{source.path.name}]({link(source.path, folder)})"
    return f"{source.text}: {file}, made by `{source.command}`"


def show_source_html(source: Source, folder: Path) -> str:
    """`show_source` as HTML."""
    text, command = html.escape(source.text), html.escape(source.command)
    if source.path is None:
        return f"{text}: make one with <code>{command}</code>"
    href, name = (
        html.escape(part) for part in (link(source.path, folder), source.path.name)
    )
    return f'{text}: <a href="{href}">{name}</a>, made by <code>{command}</code>'
