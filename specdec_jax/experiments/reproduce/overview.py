"""The report's first page: what was measured here, its speedup, and Table 2."""

from pathlib import Path

from specdec_jax.experiments import commands
from specdec_jax.experiments.kinds import (
    Alpha,
    Benchmark,
    MeasuredPeer,
    OfPair,
    TaskScores,
    Trace,
)
from specdec_jax.experiments.record_set import RecordSet
from specdec_jax.experiments.reproduce import paper_tables
from specdec_jax.experiments.reproduce.report import Picture, Section
from specdec_jax.experiments.tables import Column, Source, Table

TITLE = "Overview"
FIGURE = "overview"


def overview(records: RecordSet, out: Path) -> Section:
    """The first page; its figure is written on the way.

    Args:
      records: all of them.
      out: the report's folder.
    """
    tables = [_measured(records), paper_tables.table_2(records)[0]]
    found = main_sweep(records)
    if not found:
        source = Source("No benchmark record yet", commands.BENCHMARK)
        return Section(TITLE, "No speedup was measured here.", tables, (), [source])
    from specdec_jax.experiments import figures  # tables need no matplotlib
    from specdec_jax.experiments.reproduce import pair_figures

    stem = out / "figures" / FIGURE
    figures.save(pair_figures.speed_figure(found), stem)
    alt = f"Speedup of {found[0].pair} over autoregressive decoding against γ"
    sources = Source.from_records(found, commands.BENCHMARK)
    return Section(TITLE, _headline(found), tables, [Picture(stem, alt)], sources)


def main_sweep(records: RecordSet) -> list[Benchmark]:
    """The benchmarks of the pair that is found first: a packaged one comes last."""
    first = next(iter(records.of(Benchmark, lenience=1.0)), None)
    return [
        one
        for one in paper_tables.benchmarks(records)
        if one.pair == first.pair and one.of_one_model(first)
    ]


def _headline(found: list[Benchmark]) -> str:
    """The largest speedup at each temperature."""
    best: dict[float, Benchmark] = {}
    for one in sorted(found, key=lambda one: (one.temperature, one.speedup)):
        best[one.temperature] = one
    parts = []
    for temperature, one in best.items():
        low, high = one.speedup_spread or (one.speedup, one.speedup)
        parts.append(
            f"{one.speedup:.2f} at temperature {temperature:g} (γ = {one.gamma}, "
            f"rounds from {low:.2f} to {high:.2f})"
        )
    first = found[0]
    inputs = _inputs(first)
    of = f" of {inputs} inputs" if inputs else ""
    return (
        f"{first.pair} on {first.made_on}: the largest speedup over autoregressive "
        f"decoding{of}, one at a time, is {', '.join(parts)}."
    )


def _measured(records: RecordSet) -> Table:
    """Which records there are: of what, of how many inputs, on which device."""
    rows: dict[tuple, list[str]] = {}
    for name, found in _by_what(records).items():
        for one in found:
            key = (name, _inputs(one), one.made_on, _version(one))
            rows.setdefault(key, []).append(one.pair)
    columns = (
        Column("measured"),
        Column("pair"),
        Column("records", format="d"),
        Column("inputs", format="d"),
        Column("device"),
        Column("specdec_jax"),
    )
    return Table(
        "Measured here",
        columns,
        [
            (name, _listed(pairs), len(pairs), inputs, device, version)
            for (name, inputs, device, version), pairs in rows.items()
        ],
    )


def _by_what(records: RecordSet) -> dict[str, list[OfPair]]:
    """The records of pairs, by what was measured."""
    benchmarks, alphas = records.of(Benchmark), records.of(Alpha)
    return {
        "speedup": [one for one in benchmarks if one.lenience == 1],
        "speedup with lenience": [one for one in benchmarks if one.lenience < 1],
        "acceptance rate α": alphas,
        "rejection sampling": [x for x in alphas if x.rejection_alpha is not None],
        "other libraries": records.of(MeasuredPeer),
        "task scores": records.of(TaskScores),
        "traces": records.of(Trace),
    }


def _listed(pairs: list[str]) -> str:
    first, *more = sorted(set(pairs))
    return first + f" and {len(more)} more" * bool(more)


def _inputs(one: OfPair) -> int | None:
    return one.rows if isinstance(one, TaskScores) else getattr(one, "inputs", None)


def _version(one: OfPair) -> str | None:
    return one.versions.get("specdec_jax")
