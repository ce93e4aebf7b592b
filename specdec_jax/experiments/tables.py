"""Tables as values: a column says what its numbers are, a table where they are from.

Written as Markdown that reads well unrendered too, as HTML, and for a terminal.
"""

import dataclasses
import enum
import html
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from rich import box
from rich.console import Group
from rich.table import Table as RichTable
from rich.text import Text

from specdec_jax.runtime.records import Record

Cell = str | int | float | tuple[float, ...] | list[float] | None
NOTHING = "–"  # of which there is no record, or which the paper does not print
FOLDED_ROWS = 24  # a table of more is folded, as its reader looks for a few of them
SHOWN_SOURCES = 2  # more are folded


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
    Kind.COMPILER: "read from a program compiled for a TPU; nothing was run",
    Kind.ROOFLINE: "from a program compiled for a TPU and the chip's published peaks; "
    "nothing was run",
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
    def from_records(cls, found: Sequence[Record], command: str) -> list["Source"]:
        """One for each file and device of some records; what is missing, if none."""
        if not found:
            return [cls("No record yet", command)]
        seen = dict.fromkeys(
            (f"Measured on {one.made_on}", one.command or command, one.path)
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
                raise ValueError(f"{self.title}: {row} must have a cell a column")

    def __repr__(self) -> str:
        """Short, as notebooks keep it, and without the places of its records."""
        return f"Table({self.title!r})"

    @classmethod
    def from_records(
        cls,
        title: str,
        columns: Mapping[str, Column],
        records: Iterable[Record],
        notes: Sequence[str] = (),
    ) -> "Table":
        """A row for each record, and a column for each of some of their fields.

        Args:
          title, notes: as of any table.
          columns: by field.
          records: what they do not have, as older ones may not, is None.
        """
        rows = [[getattr(record, name) for name in columns] for record in records]
        return cls(title, tuple(columns.values()), rows, notes)

    def _repr_markdown_(self) -> str:
        """How a notebook shows it; files are linked from the working directory."""
        return markdown(self, Path())

    def __rich__(self) -> Group:
        """How a console prints it."""
        return for_terminal(self)

    @property
    def folded(self) -> bool:
        """Whether only its title is seen at first."""
        return len(self.rows) > FOLDED_ROWS

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
    lines = "\n".join([line(heads), rule, *map(line, rows)])
    notes = "\n".join(f"- {note}" for note in table.notes)
    parts = [lines if rows else "No record yet."]
    parts += [part for part in (notes, sources_markdown(table.sources, folder)) if part]
    if table.folded:
        parts = [f"<details>\n{_summary(table)}", *parts, "</details>"]
    else:
        parts = [f"**{_plain(table.title)}**", *parts]
    return "\n\n".join(parts) + "\n"


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

    lines = "\n".join(f"<tr>{line('td', row)}</tr>" for row in rows)
    if not rows:
        lines = f'<tr><td colspan="{len(heads)}">No record yet.</td></tr>'
    body = (
        f'<div class="wide"><table>\n<thead><tr>{line("th", heads)}</tr></thead>\n'
        f"<tbody>\n{lines}\n</tbody>\n</table></div>\n"
        f"{_list(html.escape(note) for note in table.notes)}"
        f"{sources_html(table.sources, folder)}"
    )
    if table.folded:
        return f"<details>\n{_summary(table)}\n{body}</details>\n"
    return f'<p class="title">{html.escape(table.title)}</p>\n{body}'


def for_terminal(table: Table) -> Group:
    """A table for a console to print, its notes and sources under it."""
    heads, *rows = table.cells()
    shown = RichTable(box=box.SIMPLE, padding=(0, 1, 0, 0), show_edge=False)
    for head in heads:
        shown.add_column(Text(head), overflow="fold")  # nothing is left out
    for row in rows:
        shown.add_row(*map(Text, row))  # "[t5x]" is no markup
    notes = [*table.notes]
    for source in table.sources:
        where = f" in {source.path}" if source.path else ""
        notes.append(f"{source.text}{where}: {source.command}")
    lines = [Text(table.title, "bold"), shown if rows else Text("No record yet.")]
    return Group(*lines, *map(Text, notes))


def link(path: Path, folder: Path) -> str:
    """A path as seen from a folder, with forward slashes."""
    return Path(os.path.relpath(path, folder)).as_posix()


def sources_markdown(sources: Sequence[Source], folder: Path) -> str:
    """A list of what they give, the files and the commands; many are folded."""
    items = "\n".join(f"- {_source_markdown(source, folder)}" for source in sources)
    if len(sources) <= SHOWN_SOURCES:
        return items
    summary = f"<summary>{len(sources)} files and commands</summary>"
    return f"<details>\n{summary}\n\n{items}\n\n</details>"


def sources_html(sources: Sequence[Source], folder: Path) -> str:
    """`sources_markdown` as HTML."""
    items = _list(_source_html(source, folder) for source in sources)
    if len(sources) <= SHOWN_SOURCES:
        return items
    summary = f"<summary>{len(sources)} files and commands</summary>"
    return f"<details>\n{summary}\n{items}</details>\n"


def _source_markdown(source: Source, folder: Path) -> str:
    if source.path is None:
        return f"{source.text}: make one with `{source.command}`"
    file = f"[{source.path.name}]({link(source.path, folder)})"
    return f"{source.text}: {file}, made by `{source.command}`"


def _source_html(source: Source, folder: Path) -> str:
    text, command = html.escape(source.text), html.escape(source.command)
    if source.path is None:
        return f"{text}: make one with <code>{command}</code>"
    href, name = (
        html.escape(part) for part in (link(source.path, folder), source.path.name)
    )
    return f'{text}: <a href="{href}">{name}</a>, made by <code>{command}</code>'


def _list(items: Iterable[str]) -> str:
    """A list in HTML; nothing if it is empty."""
    written = "".join(f"<li>{item}</li>" for item in items)
    return f"<ul>{written}</ul>\n" if written else ""


def _summary(table: Table) -> str:
    """What is seen of a folded table, in HTML and in Markdown."""
    title = html.escape(table.title)
    return f"<summary><b>{title}</b> ({len(table.rows)} rows)</summary>"


def _plain(text: str) -> str:
    """Text in a cell of Markdown, where bars, tags and new lines would be read so."""
    text = " ".join(text.split())
    for sign, written in (("&", "&amp;"), ("<", "&lt;"), ("|", "\\|"), ("`", "\\`")):
        text = text.replace(sign, written)
    return text
