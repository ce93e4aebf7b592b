"""A report of sections, as Markdown and as HTML."""

import dataclasses
import html
from collections.abc import Sequence
from pathlib import Path

from specdec_jax.experiments import tables
from specdec_jax.experiments.tables import MEANINGS, Source, Table, link

TITLE = "The paper's tables and figures, beside ours"
ABOUT = (
    "“Fast Inference from Transformers via Speculative Decoding” (Leviathan, Kalman, "
    "Matias, ICML 2023, arXiv 2211.17192), and this project. The head of each column "
    "says what its numbers are:"
)
DASH = f"{tables.NOTHING} is where the paper prints no number, or there is no record."


@dataclasses.dataclass(frozen=True)
class Picture:
    """A figure: `stem.svg` and `stem.png`, and a page where it can be pointed at."""

    stem: Path
    text: str  # for who does not see it
    page: Path | None = None

    def _repr_png_(self) -> bytes:
        """How a notebook shows it."""
        return self.stem.with_suffix(".png").read_bytes()


@dataclasses.dataclass(frozen=True, repr=False)
class Section:
    """A table or a figure of the paper.

    Attributes:
      title, text: what it is, and what there is to see.
      tables, pictures: of it.
      sources: of the pictures; tables have their own.
    """

    title: str
    text: str
    tables: Sequence[Table] = ()
    pictures: Sequence[Picture] = ()
    sources: Sequence[Source] = ()

    def __repr__(self) -> str:
        """Short, as notebooks keep it, and without the places of its records."""
        return f"Section({self.title!r})"

    def _repr_markdown_(self) -> str:
        """How a notebook shows it; its pictures show themselves."""
        return section_markdown(dataclasses.replace(self, pictures=()), Path())


def markdown(sections: Sequence[Section], folder: Path, command: str) -> str:
    """The report as Markdown.

    Args:
      sections: in order.
      folder: where the text will lie; files are linked from there.
      command: what made it.
    """
    meanings = "\n".join(f"- **{k.value}**: {text}" for k, text in MEANINGS.items())
    head = [f"# {TITLE}", f"{ABOUT}\n\n{meanings}", DASH, f"Made by `{command}`."]
    return (
        "\n\n".join(head + [section_markdown(one, folder) for one in sections]) + "\n"
    )


def as_html(sections: Sequence[Section], folder: Path, command: str) -> str:
    """The report as one HTML page, beside its figures; as `markdown`."""
    meanings = "".join(
        f'<li><b class="{k.value}">{k.value}</b>: {html.escape(text)}</li>'
        for k, text in MEANINGS.items()
    )
    body = "\n".join(_section_html(one, folder) for one in sections)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f"<title>{html.escape(TITLE)}</title>\n<style>{_STYLE}</style>\n</head>\n"
        f"<body>\n<h1>{html.escape(TITLE)}</h1>\n<p>{html.escape(ABOUT)}</p>\n"
        f"<ul>{meanings}</ul>\n<p>{html.escape(DASH)} Made by "
        f"<code>{html.escape(command)}</code>.</p>\n{body}\n</body>\n</html>\n"
    )


def section_markdown(section: Section, folder: Path) -> str:
    """One section as Markdown; as `markdown`."""
    parts = [f"## {section.title}", section.text]
    for picture in section.pictures:
        svg, png = (picture.stem.with_suffix(end) for end in (".svg", ".png"))
        also = [f"[PNG]({link(png, folder)})"]
        if picture.page:
            also.append(f"[a page to point at]({link(picture.page, folder)})")
        parts.append(f"![{picture.text}]({link(svg, folder)})")
        parts.append(f"Also: {', '.join(also)}.")
    parts += [tables.markdown(table, folder).rstrip() for table in section.tables]
    notes = [tables.show_source(source, folder) for source in section.sources]
    parts.append("\n".join(f"- {note}" for note in notes))
    return "\n\n".join(part for part in parts if part)


def _section_html(section: Section, folder: Path) -> str:
    parts = [f"<h2>{html.escape(section.title)}</h2>"]
    parts.append(f"<p>{html.escape(section.text)}</p>")
    for picture in section.pictures:
        svg, png = (link(picture.stem.with_suffix(e), folder) for e in (".svg", ".png"))
        also = f'<a href="{html.escape(png)}">PNG</a>'
        if picture.page:
            page = html.escape(link(picture.page, folder))
            also += f', <a href="{page}">a page to point at</a>'
        text = html.escape(picture.text)
        parts.append(f'<img src="{html.escape(svg)}" alt="{text}"><p>Also: {also}.</p>')
    parts += [tables.as_html(table, folder) for table in section.tables]
    notes = [tables.show_source_html(source, folder) for source in section.sources]
    parts += [f"<ul>{''.join(f'<li>{note}</li>' for note in notes)}</ul>"] * bool(notes)
    return "\n".join(parts)


_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 75rem;
       padding: 0 1rem; color: #1a1a1a; background: #fff; }
table { border-collapse: collapse; margin-top: 1.5rem; display: block;
        overflow-x: auto; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: bold; padding: .3rem 0; white-space: nowrap; }
th, td { padding: .2rem .7rem; border-bottom: 1px solid #ddd; text-align: left; }
th { font-weight: normal; vertical-align: bottom; border-bottom: 2px solid #888; }
.paper { background: #f2f2f2; }
.computed, .predicted { background: #e8f1f8; }
.roofline { background: #fdf3dc; }
.measured { background: #e3f3ec; }
img { max-width: 100%; }
code { background: #f5f5f5; overflow-wrap: anywhere; }
"""
