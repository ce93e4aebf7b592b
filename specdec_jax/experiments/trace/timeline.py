"""The paper's Figure 5: when, in one decode, which model runs.

Nothing is timed here. The steps are those of a trace, their times those of a benchmark
record: c, v and what is paid once, in target steps.
"""

import dataclasses
import enum
from collections.abc import Sequence

import numpy as np

from specdec_jax.experiments.kinds import Benchmark, Trace
from specdec_jax.experiments.record_set import RecordSet


class Part(enum.Enum):
    """What runs."""

    ENCODE_TARGET = "target M_p: encoder, once"
    ENCODE_DRAFTER = "drafter M_q: encoder, once"
    TARGET = "target M_p: decoder"
    DRAFT = "drafter M_q: decoder"


@dataclasses.dataclass(frozen=True)
class Span:
    """A call of one model; times are in target steps from the start of the decode."""

    part: Part
    start: float
    width: float


def baseline_timeline(tokens: int, once: float) -> list[Span]:
    """Encode, then a target step for each token.

    Args:
      tokens: of the output, EOS included.
      once: what is paid once.
    """
    return _in_a_row([(Part.ENCODE_TARGET, once)] + [(Part.TARGET, 1.0)] * tokens)


def timeline(
    gammas: Sequence[int], c: float, v: float, once: tuple[float, float]
) -> list[Span]:
    """Encode both, then for each target call its draft steps and itself.

    timeline([2], .5, 1.2, (3, 4)) is M_p 3, M_q 1, two drafts of .5, M_p 1.2: 6.2 long.

    Args:
      gammas: draft tokens of each target call.
      c: a draft step.
      v: a target call that verifies a block.
      once: what is paid once, by the baseline and by both models.
    """
    parts = [
        (Part.ENCODE_TARGET, once[0]),
        (Part.ENCODE_DRAFTER, max(0.0, once[1] - once[0])),
    ]
    for gamma in gammas:
        parts += [(Part.DRAFT, c)] * gamma + [(Part.TARGET, v)]
    return _in_a_row(parts)


def drawn_target_calls(alpha: float, gamma: int, tokens: int) -> int:
    """Target calls of one output, if each draft token is accepted with chance alpha.

    The draws are of one seed, so that an output is the same for every c and v.
    """
    random, calls, done = np.random.default_rng(0), 0, 0
    while done < tokens:
        accepted = random.random(gamma) < alpha
        done += int(np.cumprod(accepted).sum()) + 1
        calls += 1
    return calls


def length(spans: Sequence[Span]) -> float:
    """When the last of them ends."""
    return spans[-1].start + spans[-1].width


def measured_gammas(records: RecordSet, pair: str, wanted: Sequence[int]) -> list[int]:
    """The gammas nearest to those wanted of which there are costs at temperature 0."""
    found = records.of(Benchmark, pair=pair, temperature=0.0, lenience=1.0)
    gammas = sorted({one.gamma for one in found}, reverse=True)
    if not gammas:
        return []
    nearest = [min(gammas, key=lambda g: abs(g - gamma)) for gamma in wanted]
    return list(dict.fromkeys(nearest))


def costs_of(records: RecordSet, trace: Trace) -> Benchmark | None:
    """The benchmark record that a trace's steps take their times from, if any."""
    found = records.of(
        Benchmark,
        pair=trace.pair,
        gamma=trace.gamma,
        temperature=trace.temperature,
        lenience=1.0,
    )
    return next(iter(found), None)


def trace_timeline(trace: Trace, costs: Benchmark) -> list[Span]:
    """When the models ran in a trace, by the costs of a benchmark record."""
    gammas = [line["gamma"] for line in trace.lines]
    return timeline(gammas, costs.c, costs.v, once(costs))


def once(costs: Benchmark) -> tuple[float, float]:
    """What a decode pays once, in target steps: the baseline, and both models.

    Nothing, if the record does not tell.
    """
    return tuple(costs.fixed_costs or (0.0, 0.0))


def _in_a_row(parts: Sequence[tuple[Part, float]]) -> list[Span]:
    spans, now = [], 0.0
    for part, width in parts:
        spans.append(Span(part, now, width))
        now += width
    return spans
