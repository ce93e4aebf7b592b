"""The bound of an oracle that stops each block in time: section 3.5 of the paper."""

from specdec_jax.experiments import commands, paper
from specdec_jax.experiments.record_set import MODEL, RecordSet, values_of
from specdec_jax.experiments.reproduce import paper_tables
from specdec_jax.experiments.tables import Column, Kind, Source, Table
from specdec_jax.sampling import theory


def oracle(records: RecordSet) -> list[Table]:
    """What the best fixed gamma leaves to one that knows the first rejection."""
    rows = [
        ("as given", alpha, c, *_oracle(alpha, c))
        for c in paper.FIGURE_3_COSTS
        for alpha in (0.5, 0.6, 0.7, 0.8, 0.9)
    ]
    measured = {}
    for found in paper_tables.benchmarks(records):
        key = values_of(found, "pair", "temperature", *MODEL)
        measured[key] = max(
            found, measured.get(key, found), key=lambda one: one.speedup
        )
    measured = list(measured.values())
    for found in measured:
        name = f"{found.pair}, T {found.temperature:g}"
        rows.append((name, found.alpha, found.c, *_oracle(found.alpha, found.c)))
    columns = (
        Column("α and c of"),
        Column("α", format=".2f"),
        Column("c", format=".2f"),
        Column("best γ", Kind.COMPUTED, "d"),
        Column("speedup", Kind.COMPUTED),
        Column("oracle's tokens per target call", Kind.COMPUTED),
        Column("oracle's speedup", Kind.COMPUTED),
        Column("gain", Kind.COMPUTED, ".0%"),
    )
    title = "Section 3.5: the bound of an oracle that stops each block in time"
    notes = (
        "v = 1, so that a draft token costs nothing but c, and where c is 0 there is "
        "no best γ. Rows of a pair: the α and c that were measured with the γ of its "
        "best speedup, in the same formulas.",
    )
    return [
        Table(
            title,
            columns,
            rows,
            notes,
            Source.from_records(measured, commands.BENCHMARK),
        )
    ]


def _oracle(alpha: float, c: float) -> tuple:
    best = theory.best_gamma(alpha, c, paper_tables.MAX_GAMMA)
    speed, bound = theory.speedup(alpha, best, c), theory.oracle_speedup(alpha, c)
    return best, speed, theory.oracle_tokens(alpha), bound, bound / speed - 1
