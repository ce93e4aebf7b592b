"""A report of sections, as Markdown and as HTML."""

import dataclasses
import html
import re
from collections.abc import Sequence
from pathlib import Path

from specdec_jax.experiments import tables
from specdec_jax.experiments.tables import MEANINGS, Source, Table, link

TITLE = "The paper's tables and figures, beside ours"
ABOUT = (
    "“Fast Inference from Transformers via Speculative Decoding” (Leviathan, Kalman, "
    "Matias, ICML 2023, arXiv 2211.17192), and this project."
)
HEADS = "The head of each column says what its numbers are:"
DASH = f"{tables.NOTHING}: the paper prints no number, or there is no record."


@dataclasses.dataclass(frozen=True)
class Picture:
    """A figure: `stem.svg` and `stem.png`, and an interactive page if there is one."""

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

    @property
    def anchor(self) -> str:
        """Its place in a page, as GitHub makes it from a heading."""
        return re.sub(r"[^\w\- ]", "", self.title.lower()).replace(" ", "-")


def markdown(sections: Sequence[Section], folder: Path, command: str) -> str:
    """The report as Markdown; of several sections the first comes before the contents.

    Args:
      sections: in order.
      folder: where the text will lie; files are linked from there.
      command: what made it.
    """
    first, *rest = sections
    parts = [
        f"# {TITLE}",
        f"{ABOUT} Made by `{command}`.",
        section_markdown(first, folder),
    ]
    if rest:
        contents = "\n".join(f"- [{one.title}](#{one.anchor})" for one in rest)
        parts += ["## Contents", contents]
    meanings = "\n".join(f"- **{k.value}**: {text}" for k, text in MEANINGS.items())
    parts += [HEADS, meanings, DASH]
    parts += [section_markdown(one, folder) for one in rest]
    return "\n\n".join(parts) + "\n"


def as_html(sections: Sequence[Section], folder: Path, command: str) -> str:
    """The report as one HTML page, beside its figures; as `markdown`."""
    first, *rest = sections
    parts = [
        f"<h1>{html.escape(TITLE)}</h1>",
        f"<p>{html.escape(ABOUT)} Made by <code>{html.escape(command)}</code>.</p>",
        _section_html(first, folder),
    ]
    if rest:
        contents = "".join(
            f'<li><a href="#{one.anchor}">{html.escape(one.title)}</a></li>'
            for one in rest
        )
        parts.append(f'<h2>Contents</h2>\n<nav><ul class="contents">{contents}</ul>')
        parts.append("</nav>")
    meanings = "".join(
        f'<li><b class="{k.value}">{k.value}</b>: {html.escape(text)}</li>'
        for k, text in MEANINGS.items()
    )
    parts.append(f"<p>{HEADS}</p>\n<ul>{meanings}</ul>\n<p>{html.escape(DASH)}</p>")
    parts += [_section_html(one, folder) for one in rest]
    body = "\n".join(parts)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(TITLE)}</title>\n<style>{_STYLE}</style>\n</head>\n"
        f"<body>\n{body}\n</body>\n</html>\n"
    )


def section_markdown(section: Section, folder: Path) -> str:
    """One section as Markdown; as `markdown`."""
    parts = [f"## {section.title}", section.text]
    for picture in section.pictures:
        svg, png = (picture.stem.with_suffix(end) for end in (".svg", ".png"))
        also = [f"[PNG]({link(png, folder)})"]
        if picture.page:
            also.append(f"[interactive page]({link(picture.page, folder)})")
        parts.append(f"![{picture.text}]({link(svg, folder)})")
        parts.append(f"Also: {', '.join(also)}.")
    parts.append(tables.sources_markdown(section.sources, folder))
    parts += [tables.markdown(table, folder).rstrip() for table in section.tables]
    return "\n\n".join(part for part in parts if part)


def _section_html(section: Section, folder: Path) -> str:
    parts = [f'<h2 id="{section.anchor}">{html.escape(section.title)}</h2>']
    parts.append(f"<p>{html.escape(section.text)}</p>")
    for picture in section.pictures:
        svg, png = (link(picture.stem.with_suffix(e), folder) for e in (".svg", ".png"))
        also = f'<a href="{html.escape(png)}">PNG</a>'
        if picture.page:
            page = html.escape(link(picture.page, folder))
            also += f', <a href="{page}">interactive page</a>'
        text = html.escape(picture.text)
        parts.append(f'<img src="{html.escape(svg)}" alt="{text}"><p>Also: {also}.</p>')
    parts.append(tables.sources_html(section.sources, folder))
    parts += [tables.as_html(table, folder) for table in section.tables]
    return "\n".join(parts)


_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 75rem;
       padding: 0 1rem; color: #1a1a1a; background: #fff; }
.contents { columns: 12rem; }
.wide { overflow-x: auto; }
.title { font-weight: bold; margin: 1.5rem 0 .3rem; }
details { margin: 1rem 0; }
summary { cursor: pointer; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums;
        font-size: .9rem; }
th, td { padding: .2rem .5rem; border-bottom: 1px solid #ddd; text-align: left; }
td { white-space: nowrap; }
th { font-weight: normal; vertical-align: bottom; border-bottom: 2px solid #888; }
.paper { background: #f2f2f2; }
.computed { background: #e3eefa; }
.predicted { background: #efe6f7; }
.compiler { background: #fbe9e3; }
.roofline { background: #fdf3dc; }
.measured { background: #e3f3ec; }
img { max-width: 100%; }
code { background: #f5f5f5; overflow-wrap: anywhere; }
"""
