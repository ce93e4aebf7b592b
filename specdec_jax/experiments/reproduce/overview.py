"""The report's first page: what was measured here, its speedup, and Table 2."""

from pathlib import Path

from specdec_jax.experiments.record_set import COMMANDS, Evidence, Found
from specdec_jax.experiments.reproduce import paper_tables
from specdec_jax.experiments.reproduce.report import Picture, Section
from specdec_jax.experiments.tables import Column, Source, Table

TITLE = "Overview"
FIGURE = "overview"
MEASURED = {
    "benchmark": "speedup",
    "lenient": "speedup with lenience",
    "alpha": "acceptance rate α",
    "rejection": "rejection sampling",
    "peer": "other libraries",
    "scores": "task scores",
    "trace": "traces",
}


def overview(evidence: Evidence, out: Path) -> Section:
    """The first page; its figure is written on the way.

    Args:
      evidence: the records.
      out: the report's folder.
    """
    tables = [_measured(evidence), paper_tables.table_2(evidence)[0]]
    found = main_sweep(evidence)
    if not found:
        source = Source("No benchmark record yet", COMMANDS["benchmark"])
        return Section(TITLE, "No speedup was measured here.", tables, (), [source])
    from specdec_jax.experiments import figures  # tables need no matplotlib
    from specdec_jax.experiments.reproduce import pair_figures

    stem = out / "figures" / FIGURE
    figures.save(pair_figures.speed_figure([one.record for one in found]), stem)
    alt = f"Speedup of {found[0]['pair']} over autoregressive decoding against γ"
    sources = Source.from_records(found, COMMANDS["benchmark"])
    return Section(TITLE, _headline(found), tables, [Picture(stem, alt)], sources)


def main_sweep(evidence: Evidence) -> list[Found]:
    """The benchmarks of the pair that is found first: a packaged one comes last."""
    first = next(iter(evidence.of("benchmark")), None)
    return [
        one
        for one in paper_tables.benchmarks(evidence)
        if one["pair"] == first["pair"] and one.of_one_model(first)
    ]


def _headline(found: list[Found]) -> str:
    """The largest speedup at each temperature."""
    best: dict[float, Found] = {}
    for one in sorted(found, key=lambda one: (one["temperature"], one["speedup"])):
        best[one["temperature"]] = one
    parts = []
    for temperature, one in best.items():
        low, high = one.get("speedup_spread", [one["speedup"]] * 2)
        parts.append(
            f"{one['speedup']:.2f} at temperature {temperature:g} (γ = {one['gamma']}, "
            f"rounds from {low:.2f} to {high:.2f})"
        )
    first = found[0]
    inputs = _inputs(first)
    of = f" of {inputs} inputs" if inputs else ""
    return (
        f"{first['pair']} on {first.made_on}: the largest speedup over autoregressive "
        f"decoding{of}, one at a time, is {', '.join(parts)}."
    )


def _measured(evidence: Evidence) -> Table:
    """Which records there are: of what, of how many inputs, on which device."""
    rows: dict[tuple, list[str]] = {}
    for kind, name in MEASURED.items():
        for one in evidence.of(kind):
            key = (name, _inputs(one), one.made_on, _version(one))
            rows.setdefault(key, []).append(one["pair"])
    columns = (
        *(Column("measured"), Column("pair"), Column("records", format="d")),
        *(Column("inputs", format="d"), Column("device"), Column("specdec_jax")),
    )
    return Table(
        "Measured here",
        columns,
        [
            (name, _listed(pairs), len(pairs), inputs, device, version)
            for (name, inputs, device, version), pairs in rows.items()
        ],
    )


def _listed(pairs: list[str]) -> str:
    first, *more = sorted(set(pairs))
    return first + f" and {len(more)} more" * bool(more)


def _inputs(one: Found) -> int | None:
    return one.get("inputs", one.get("sentences", one.get("rows")))


def _version(one: Found) -> str | None:
    return one.get("versions", {}).get("specdec_jax")
