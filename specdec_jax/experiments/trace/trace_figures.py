"""Figures 1 and 5 of the paper, from traces: what was drafted, and when what ran."""

import dataclasses
from collections.abc import Mapping, Sequence

from specdec_jax.experiments.figures import (
    BLUE,
    ORANGE,
    YELLOW,
    Axes,
    Figure,
    styled,
)
from specdec_jax.experiments.kinds import Benchmark, Trace
from specdec_jax.experiments.trace import timeline
from specdec_jax.experiments.trace.timeline import Part, Span
from specdec_jax.typing import Any

# After `figures`, which says what to do where matplotlib is missing.
from matplotlib.patches import Patch  # isort: skip

# What became of a token. Besides its colour, an accepted draft token is underlined, a
# rejected one struck through, and the target's own token framed.
FATES = {
    "before": {"color": "#6e6e6e"},
    "accepted": {"color": "#006b4f"},
    "rejected": {"color": "#b04a00"},
    "own": {"color": "#005a8f", "weight": "bold"},
}
LEGEND = (
    ("accepted", "accepted"),
    ("rejected", "rejected"),
    ("own", "the target's own"),
)
# The parts of a decode: dark or bright, hatched or not, in grey print too.
FILLS = {
    Part.ENCODE_TARGET: {"facecolor": ORANGE, "hatch": "//"},
    Part.ENCODE_DRAFTER: {"facecolor": "white", "hatch": "...."},
    Part.TARGET: {"facecolor": BLUE},
    Part.DRAFT: {"facecolor": YELLOW},
}
WIDTH = 6.8  # inches, of a page
POINTS = 7.5  # of the typeface
CHARACTER = 0.602 * POINTS / 72  # inches: how wide a character of it is
THIN = 0.01  # of the longest row
MARGIN = 4  # characters, for the number of a line


@dataclasses.dataclass(frozen=True)
class Placed:
    """A piece of text in a trace: its column, its line, and what became of it."""

    column: int
    line: int
    piece: str
    fate: str  # of `FATES`


def placed(lines: Sequence[dict[str, Any]]) -> list[Placed]:
    """Where the tokens of a trace stand, each line after the text before it.

    Args:
      lines: of a trace record.
    """
    places, before = [], ""
    for number, line in enumerate(lines):
        places.append(Placed(MARGIN, number, before, "before"))
        column = MARGIN + len(before)
        for token in line["tokens"]:
            piece = token["piece"]
            fate = token["fate"] if token["fate"] in FATES else "own"
            places.append(Placed(column, number, piece, fate))
            column += len(piece)
            before += piece if fate != "rejected" else ""
    return places


@styled
def figure_1(trace: Trace) -> Figure:
    """A line for each target call: accepted, rejected, the target's own.

    Args:
      trace: of `explain`.
    """
    lines = trace.lines
    places = placed(lines)
    column = MARGIN
    for fate, text in LEGEND:
        places.append(Placed(column, len(lines) + 1, text, fate))
        column += len(text) + 3
    columns = max(place.column + len(place.piece) for place in places) + 1
    inches = max(WIDTH, columns * CHARACTER)
    figure = Figure(figsize=(inches, 0.21 * (len(lines) + 3)))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_xlim(0, inches / CHARACTER)
    axes.set_ylim(len(lines) + 2, -1)
    for number in range(len(lines)):
        _draw(axes, Placed(0, number, f"{number + 1:3d}", "before"))
    for place in places:
        _draw(axes, place)
    return figure


@styled
def figure_5(traces: Sequence[Trace], costs: Sequence[Benchmark]) -> Figure:
    """Which model runs when: a row for each gamma, and the baseline's.

    Args:
      traces: of one text, of one pair, at temperature 0, a gamma each.
      costs: the benchmark record of each.
    """
    rows = {
        f"γ = {trace.gamma}": timeline.trace_timeline(trace, cost)
        for trace, cost in zip(traces, costs, strict=True)
    }
    once, _ = timeline.once(costs[0])
    rows["autoregressive"] = timeline.baseline_timeline(traces[0].tokens, once)
    return timelines(rows)


@styled
def timelines(rows: Mapping[str, Sequence[Span]]) -> Figure:
    """Rows of spans, each under its name."""
    figure = Figure(figsize=(WIDTH, 0.5 * len(rows) + 1.3), layout="constrained")
    axes = figure.subplots()
    longest = max(timeline.length(spans) for spans in rows.values())
    for row, spans in enumerate(rows.values()):
        for span in spans:
            how = _fill(span.part)
            if span.width < THIN * longest:
                how["linewidth"] = 0.0  # its edges would hide it
            axes.barh(row, span.width, left=span.start, height=0.6, **how)
    axes.set_yticks(range(len(rows)), rows)
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    axes.set_xlabel("time, in target steps")
    seen = [span for spans in rows.values() for span in spans if span.width]
    used = dict.fromkeys(span.part for span in seen)
    handles = [Patch(label=part.value, **_fill(part)) for part in used]
    figure.legend(handles=handles, loc="outside lower center", ncols=2)
    return figure


def _draw(axes: Axes, place: Placed) -> None:
    how = FATES[place.fate]
    x, y, piece = place.column, place.line, place.piece
    look = {"family": "DejaVu Sans Mono", "size": POINTS, "va": "center"} | how
    axes.text(x, y, piece, parse_math=False, **look)
    left, right = x + len(piece) - len(piece.lstrip(" ")), x + len(piece)
    gap = 0.25  # so that pieces of one word are told apart
    line = {"color": how["color"], "linewidth": 1.0}
    if place.fate == "accepted":
        axes.plot([left + gap, right - gap], [y + 0.4, y + 0.4], **line)
    elif place.fate == "rejected":
        axes.plot([left + gap, right - gap], [y, y], **line)
    elif place.fate == "own":
        top, bottom = y - 0.45, y + 0.4
        corners = [left, right, right, left, left], [top, top, bottom, bottom, top]
        axes.plot(*corners, **line)


def _fill(part: Part) -> dict[str, Any]:
    return FILLS[part] | {"edgecolor": "black", "linewidth": 0.5}
