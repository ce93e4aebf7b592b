"""Figures of the sampling rule itself, at one position and over whole blocks."""

from collections.abc import Sequence

import numpy as np

from specdec_jax.experiments.figures import (
    BLUE,
    GREEN,
    ORANGE,
    PURPLE,
    RED,
    Figure,
    styled,
)
from specdec_jax.sampling.laws import output_law

# Told apart by hatching too.
ACCEPTED = {"facecolor": BLUE}
REJECTED = {"facecolor": "white", "hatch": "xxx", "edgecolor": RED}
CORRECTION = {"facecolor": ORANGE, "hatch": "///"}
BAR = 0.38  # of the distance between two tokens
LENIENT = ((GREEN, "^"), (PURPLE, "D"), (RED, "s"), (ORANGE, "v"))


@styled
def rule_figure(p: np.ndarray, q: np.ndarray, names: Sequence[str]) -> Figure:
    """Two bars a token: what becomes of q's draft tokens, and what p is made of.

    The left one is q(x) = accepted + rejected, the right one p(x) = accepted +
    correction, with accepted = min(p, q) in both. Rejections and corrections have the
    same total.

    Args:
      p, q: [V].
      names: [V], of the tokens.
    """
    p, q = np.asarray(p, float), np.asarray(q, float)
    both, place = np.minimum(p, q), np.arange(len(p))
    figure = Figure(figsize=(5.6, 3.3), layout="constrained")
    axes = figure.subplots()
    left, right = place - BAR / 2 - 0.02, place + BAR / 2 + 0.02
    frame = {"edgecolor": "black", "linewidth": 0.6, "width": BAR}
    accepted = "accepted draft token, min(p, q)"
    axes.bar(left, both, label=accepted, **(frame | ACCEPTED))
    axes.bar(
        left, q - both, bottom=both, label="rejected draft token", **(frame | REJECTED)
    )
    axes.bar(right, both, **(frame | ACCEPTED))
    axes.bar(
        right,
        p - both,
        bottom=both,
        label="correction, max(0, p − q)",
        **(frame | CORRECTION),
    )
    for x, letter in ((left, "q"), (right, "p")):
        for at, top in zip(x, p if letter == "p" else q, strict=True):
            axes.text(at, top, letter, ha="center", va="bottom", style="italic")
    axes.set_xticks(place, names)
    axes.set_ylabel("probability")
    axes.grid(axis="x", visible=False)
    axes.margins(y=0.12)
    axes.legend()
    return figure


@styled
def law_figure(law: np.ndarray, seen: np.ndarray, samples: int) -> Figure:
    """The frequency of each outcome against its probability, and its error.

    Args:
      law: probabilities, of any shape.
      seen: frequencies, of the same shape.
      samples: how many there are.
    """
    law, seen = np.ravel(law), np.ravel(seen)
    law, seen = law[law > 0], seen[law > 0]
    figure = Figure(figsize=(6.8, 3.0), layout="constrained")
    shares, errors = figure.subplots(1, 2)
    ends = [law.min() / 1.5, law.max() * 1.5]
    shares.plot(ends, ends, color="black", linewidth=0.8)
    shares.loglog(law, seen, "o", color=BLUE, markersize=3.5)
    shares.set_xlabel("exact probability")
    shares.set_ylabel("frequency in the samples")
    deviation = np.sqrt(law * (1 - law) / samples)
    errors.axhspan(-2, 2, color="#dddddd", label="95% of the errors")
    errors.axhline(0, color="black", linewidth=0.8)
    errors.semilogx(law, (seen - law) / deviation, "o", color=BLUE, markersize=3.5)
    errors.set_xlabel("exact probability")
    errors.set_ylabel("error, in standard errors")
    errors.set_ylim(-5, 5)
    errors.legend(loc="upper left")
    return figure


@styled
def lenience_figure(
    p: np.ndarray, q: np.ndarray, leniences: Sequence[float], names: Sequence[str]
) -> Figure:
    """The output's distribution with lenience; a line above each mark is its bound p/l.

    Args:
      p, q: [V].
      leniences: l in (0, 1); four at most.
      names: [V], of the tokens.
    """
    p, q = np.asarray(p, float), np.asarray(q, float)
    after = np.broadcast_to(p, (len(p), len(p)))
    place = np.arange(len(p))
    figure = Figure(figsize=(5.6, 3.3), layout="constrained")
    axes = figure.subplots()
    axes.bar(place, p, width=0.85, color="#dddddd", label="p")
    step = 0.8 / (len(leniences) + 1)
    for i, lenience in enumerate(leniences):
        color, marker = LENIENT[i]
        law = output_law([p, after], [q], lenience).sum(axis=1)
        x = place + (i + 1) * step - 0.4
        axes.plot(x, law, marker, color=color, label=f"l = {lenience:g}")
        axes.hlines(p / lenience, x - step / 3, x + step / 3, color=color)
    axes.set_ylim(0, 1.0)
    axes.set_xticks(place, names)
    axes.set_ylabel("probability")
    axes.grid(axis="x", visible=False)
    axes.legend()
    return figure
