"""The sections of the report, by name: what each says, and what it needs."""

from collections.abc import Callable
from pathlib import Path

from specdec_jax.experiments import commands, paper
from specdec_jax.experiments.kinds import Benchmark, Trace
from specdec_jax.experiments.record_set import RecordSet
from specdec_jax.experiments.reproduce import (
    alpha_tables,
    lenience_tables,
    oracle_table,
    overview,
    paper_tables,
    peer_tables,
)
from specdec_jax.experiments.reproduce.report import Picture, Section
from specdec_jax.experiments.tables import Source, Table
from specdec_jax.experiments.trace import timeline
from specdec_jax.experiments.trace.page import trace_page

TABLES: dict[str, tuple[str, Callable[[RecordSet], list[Table]]]] = {
    "table1": (
        "Speedup and operations where drafting costs nothing, c = ĉ = 0 (Theorems 3.8 "
        "and 3.11).",
        paper_tables.table_1,
    ),
    "table2": (
        "Speedup over autoregressive decoding: the paper's twelve rows, and the pairs "
        "measured here.",
        paper_tables.table_2,
    ),
    "table3": (
        "The acceptance rate, α = E[Σ min(p, q)], by drafter.",
        alpha_tables.table_3,
    ),
    "table4": (
        "The speedup that α and c predict, and the measured one. The best γ is by "
        "Theorem 3.8.",
        paper_tables.table_4,
    ),
    "table5": (
        "Lenience (appendix A.5): more draft tokens are accepted and the output's "
        "distribution is no longer the target's, though no token becomes likelier than "
        "p/l.",
        lenience_tables.table_5,
    ),
    "rejection": (
        "On the same p and q, the rate at which speculative sampling accepts draft "
        "tokens, and that of rejection sampling.",
        alpha_tables.rejection,
    ),
    "oracle": (
        "No fixed γ does better than an oracle that drafts up to the first rejection "
        "and no further.",
        oracle_table.oracle,
    ),
    "peers": (
        "The same weights, inputs and settings in other libraries, float32, in turns "
        "with ours.",
        peer_tables.peers,
    ),
}
FIGURES = {
    "figure1": "A line for each target call: accepted draft tokens, the first "
    "rejection, and the target's own token.",
    "figure2": "Expected tokens per target call, equation 1, against α.",
    "figure3": "The γ of the largest speedup (Theorem 3.8) against α, for four c.",
    "figure4": "Speedup and operations against α where drafting costs nothing, "
    "c = ĉ = 0.",
    "figure5": "When which model runs in one decode.",
}
NAMES = ("overview", *TABLES, *FIGURES)
FIGURE_1_GAMMA = 7  # the paper's for most rows of EnDe
TITLES = {
    "overview": overview.TITLE,
    **{f"table{i}": f"Table {i}" for i in range(1, 6)},
    **{f"figure{i}": f"Figure {i}" for i in range(1, 6)},
    "rejection": "Appendix A.2: rejection sampling",
    "oracle": "The oracle's bound",
    "peers": "Other libraries",
}


def section(name: str, records: RecordSet, out: Path) -> Section:
    """A section; a figure's files are written on the way.

    Args:
      name: one of `NAMES`.
      records: the records.
      out: the report's folder.

    Raises:
      SettingsError: matplotlib is missing, and it is a figure.
    """
    if name == "overview":
        return overview.overview(records, out)
    if name in TABLES:
        text, make = TABLES[name]
        return Section(TITLES[name], text, make(records))
    if name == "figure1":
        return _figure_1(records, out)
    if name == "figure5":
        return _figure_5(records, out)
    from specdec_jax.experiments import figures  # tables need no matplotlib

    draw = {"figure2": figures.figure_2, "figure3": figures.figure_3}
    figure = draw.get(name, figures.figure_4)()
    stem = _stem(out, name)
    figures.save(figure, stem)
    text = f"{FIGURES[name]} Computed from the paper's formulas."
    return Section(TITLES[name], text, pictures=[Picture(stem, FIGURES[name])])


def traces_wanted(records: RecordSet, pair: str) -> list[tuple[int, float]]:
    """Gamma and temperature of the traces of Figures 1 and 5."""
    gammas = timeline.measured_gammas(records, pair, paper.FIGURE_5_GAMMAS)
    return [(FIGURE_1_GAMMA, 1.0), *((gamma, 0.0) for gamma in gammas)]


def _figure_1(records: RecordSet, out: Path) -> Section:
    from specdec_jax.experiments import figures
    from specdec_jax.experiments.trace import trace_figures

    traces = [one for one in records.of(Trace) if one.temperature > 0]
    if not traces:
        return _without("figure1", "No record of a trace", commands.REPRODUCE)
    trace, stem = traces[0], _stem(out, "figure1")
    figures.save(trace_figures.figure_1(trace), stem)
    page = out / "figure1.html"
    page.write_text(trace_page(trace), "utf-8")
    calls = len(trace.lines)
    ours = f"{trace.tokens} tokens in {calls} target call{'s' * (calls != 1)}"
    text = (
        f"{FIGURES['figure1']} Here: {ours} ({trace.pair}, γ = {trace.gamma}, "
        f"temperature {trace.temperature:g}); the paper's: {paper.FIGURE_1_TOKENS} "
        f"tokens in {paper.FIGURE_1_CALLS} target calls."
    )
    alt = f"A trace of “{trace.text}”: {ours}"
    sources = Source.from_records([trace], commands.REPRODUCE)
    return Section(TITLES["figure1"], text, (), [Picture(stem, alt, page)], sources)


def _figure_5(records: RecordSet, out: Path) -> Section:
    from specdec_jax.experiments import figures
    from specdec_jax.experiments.trace import trace_figures

    traces, costs = _timed_traces(records)
    if not traces:
        text = "No benchmark record of the pair's costs at temperature 0"
        return _without("figure5", text, commands.BENCHMARK)
    stem = _stem(out, "figure5")
    figures.save(trace_figures.figure_5(traces, costs), stem)
    spans = [timeline.trace_timeline(t, c) for t, c in zip(traces, costs, strict=True)]
    once, _ = timeline.once(costs[0])
    base = timeline.baseline_timeline(traces[0].tokens, once)
    took = ", ".join(
        f"{timeline.length(s):.1f} with γ = {trace.gamma}"
        for s, trace in zip(spans, traces, strict=True)
    )
    text = (
        f"{FIGURES['figure5']} {traces[0].tokens} tokens take {took} and "
        f"{timeline.length(base):.1f} autoregressively, in target steps. The target "
        "calls are those of a decode at temperature 0; c, v and the costs of encoding "
        f"are measured{'' if once else ' (this record lacks the last)'}. The paper's "
        "figure has γ = 7 and 3."
    )
    sources = Source.from_records(traces, commands.REPRODUCE)
    sources += Source.from_records(costs, commands.BENCHMARK)
    pictures = [Picture(stem, f"{FIGURES['figure5']} {took}")]
    return Section(TITLES["figure5"], text, (), pictures, sources)


def _timed_traces(records: RecordSet) -> tuple[list[Trace], list[Benchmark]]:
    """Traces of one text that have costs, by falling gamma, and these costs."""
    traces = [one for one in records.of(Trace) if one.temperature == 0]
    timed = [(one, timeline.costs_of(records, one)) for one in traces]
    timed = [
        (trace, costs)
        for trace, costs in timed
        if costs and (trace.pair, trace.text) == (traces[0].pair, traces[0].text)
    ]
    timed.sort(key=lambda both: -both[0].gamma)
    return [trace for trace, _ in timed], [costs for _, costs in timed]


def _without(name: str, text: str, command: str) -> Section:
    return Section(TITLES[name], FIGURES[name], sources=[Source(text, command)])


def _stem(out: Path, name: str) -> Path:
    return out / "figures" / name
