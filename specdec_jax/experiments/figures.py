"""Figures 2 to 4 of the paper, and the style of all figures; drawn with matplotlib.

Every series has a colour that the colour-blind can tell, a marker and a line style, so
that it can be told in grey print as well. The same data give the same files, byte for
byte.
"""

import functools
import math
from pathlib import Path

import numpy as np

from specdec_jax.errors import SettingsError
from specdec_jax.experiments import paper
from specdec_jax.sampling import theory

try:
    import matplotlib
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
except ImportError as error:
    raise SettingsError(
        "figures are drawn with matplotlib, which is missing: pip install -e '.[plots]'"
    ) from error

# Okabe and Ito's colours: apart for all common kinds of colour-blindness.
BLUE, ORANGE, GREEN, RED, PURPLE = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7"
YELLOW = "#F0E442"
SERIES = (
    {"color": BLUE, "marker": "o"},
    {"color": RED, "marker": "s"},
    {"color": GREEN, "marker": "^"},
    {"color": PURPLE, "marker": "D"},
    {"color": "black", "marker": "v"},
)
DASHES = ("-", "--", "-.", (0, (1, 1)), (0, (5, 1, 1, 1, 1, 1)))
MARKED = 8  # points from one marker to the next
STYLE = {
    "font.size": 9,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "axes.axisbelow": True,
    "lines.linewidth": 1.5,
    "lines.markersize": 4.5,
    "legend.frameon": False,
    "text.hinting": "no_hinting",  # else letters are as wide as whole pixels
    "svg.hashsalt": "specdec_jax",  # else the ids in an SVG are drawn at random
}
MAX_GAMMA = 64  # of a search for the best


def styled(function):
    """Runs a function in the style of all figures."""

    @functools.wraps(function)
    def inside(*args, **kwargs):
        with matplotlib.rc_context(STYLE):
            return function(*args, **kwargs)

    return inside


def use_style() -> None:
    """Sets the style for good, as where a notebook draws the figures that it shows."""
    matplotlib.rcParams.update(STYLE)


@styled
def save(figure: Figure, stem: Path) -> list[Path]:
    """Writes `stem.png` and `stem.svg`."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    # Neither date nor version, so that equal figures are equal files.
    facts = {".png": {"Software": None}, ".svg": {"Date": None, "Creator": None}}
    paths = [stem.with_suffix(suffix) for suffix in facts]
    for path, metadata in zip(paths, facts.values(), strict=True):
        figure.savefig(path, dpi=200, metadata=metadata)
    return paths


@styled
def figure_2() -> Figure:
    """Expected tokens per target call against alpha, for some gamma (equation 1)."""
    alphas = np.linspace(0.5, 0.9, 41)
    figure, axes = plot("acceptance rate α", "tokens per target call")
    for i, gamma in enumerate(paper.FIGURE_2_GAMMAS):
        label = "γ = ∞" if math.isinf(gamma) else f"γ = {gamma}"
        tokens = theory.expected_tokens(alphas, gamma)
        axes.plot(alphas, tokens, label=label, **_series(i))
    axes.legend()
    return figure


@styled
def figure_3() -> Figure:
    """The best gamma against alpha, for some c."""
    alphas = np.round(np.linspace(0.3, 0.9, 61), 2)
    figure, axes = plot("acceptance rate α", "best γ")
    for i, c in enumerate(paper.FIGURE_3_COSTS):
        best = [theory.best_gamma(alpha, c, MAX_GAMMA) for alpha in alphas]
        axes.step(alphas, best, where="mid", label=f"c = {c:g}", **_series(i))
    axes.legend()
    return figure


@styled
def figure_4() -> Figure:
    """Speedup (solid) and operations (dotted) against alpha; c = c_hat = 0."""
    alphas = np.linspace(0.5, 0.9, 41)
    figure, axes = plot("acceptance rate α", "relative to autoregressive decoding")
    for i, gamma in enumerate(paper.FIGURE_4_GAMMAS):
        series = SERIES[i] | {"markevery": MARKED}
        speed = theory.speedup(alphas, gamma, 0.0)
        operations = theory.operations(alphas, gamma, 0.0)
        axes.plot(alphas, speed, "-", label=f"γ = {gamma}", **series)
        axes.plot(alphas, operations, ":", markerfacecolor="white", **series)
    kinds = [
        Line2D([], [], color="black", linestyle=style, label=label)
        for style, label in (("-", "speedup"), (":", "operations"))
    ]
    axes.legend(handles=axes.get_legend_handles_labels()[0] + kinds)
    return figure


def plot(x: str, y: str) -> tuple[Figure, Axes]:
    """A figure of half a page's width, with one pair of axes of these names."""
    figure = Figure(figsize=(4.6, 3.3), layout="constrained")
    axes = figure.subplots()
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    return figure, axes


def _series(index: int) -> dict:
    return SERIES[index] | {"linestyle": DASHES[index], "markevery": MARKED}
