"""Tables 1, 2 and 4 of the paper: its numbers beside ours.

Computed columns come from `sampling.theory`, measured ones from records. Where there is
no record there is a dash, and below the table the command that would make one.
"""

from specdec_jax.experiments import commands, paper
from specdec_jax.experiments.kinds import Benchmark, CompiledRow, Roofline
from specdec_jax.experiments.record_set import MODEL, RecordSet, distinct
from specdec_jax.experiments.tables import Column, Kind, Source, Table
from specdec_jax.sampling import theory

MAX_GAMMA = 64  # of a search for the best
PAPERS_TPU = {"topology": "v4", "chips": 1, "quantization": None}
ROW_KEYS = (
    Column("task"),
    Column("M_q"),
    Column("T", format="g"),
    Column("γ", format="d"),
)
DEMO_KEYS = (Column("pair"), Column("T", format="g"), Column("γ", format="d"))


def table_1(records: RecordSet) -> list[Table]:
    """Operations and speedup for some alpha and gamma, c = c_hat = 0."""
    rows = [
        (
            alpha,
            gamma,
            operations,
            theory.operations(alpha, gamma, 0.0),
            speed,
            theory.speedup(alpha, gamma, 0.0),
        )
        for alpha, gamma, operations, speed in paper.TABLE_1
    ]
    columns = (
        Column("α", format=".1f"),
        Column("γ", format="d"),
        Column("operations", Kind.PAPER),
        Column("operations", Kind.COMPUTED),
        Column("speedup", Kind.PAPER),
        Column("speedup", Kind.COMPUTED),
    )
    return [
        Table("Table 1: operations and speedup where drafting is free", columns, rows)
    ]


def table_2(records: RecordSet) -> list[Table]:
    """Speedups of the paper's twelve rows, and of the pairs measured here."""
    rows, measured = [], []
    for row in paper.ROWS:
        roofline, ours = of_row(records, row)
        measured += [ours] if ours else []
        compiled = next(iter(records.of(CompiledRow, run=row.run, **PAPERS_TPU)), None)
        rows.append(
            (
                row.task,
                row.drafter,
                row.temperature,
                row.gamma,
                row.alpha,
                ours and ours.alpha,
                row.measured,
                theory.speedup(row.alpha, row.gamma, row.c),
                roofline and roofline.predicted_speedup,
                compiled and compiled.estimated_speedup,
                ours and ours.speedup,
            )
        )
    columns = (
        *ROW_KEYS,
        Column("α", Kind.PAPER),
        Column("α", Kind.MEASURED),
        Column("speedup", Kind.PAPER, ".1f"),
        Column("speedup", Kind.COMPUTED),
        Column("speedup", Kind.ROOFLINE),
        Column("speedup", Kind.COMPILER),
        Column("speedup", Kind.MEASURED),
    )
    title = "Table 2: T5-XXL (11B), batch 1; the paper: one TPU v4, against T5X"
    lines = Table(title, columns, rows, sources=_row_sources(records, measured))
    return [lines, _demo_speeds(records)]


def table_4(records: RecordSet) -> list[Table]:
    """What goes into the twelve predictions, and how they turn out."""
    rows, measured = [], []
    for row in paper.ROWS:
        roofline, ours = of_row(records, row)
        measured += [ours] if ours else []
        best = theory.best_gamma(row.alpha, row.c, MAX_GAMMA)
        rows.append(
            (
                row.task,
                row.drafter,
                row.temperature,
                row.gamma,
                row.alpha,
                row.c,
                roofline and roofline.c,
                ours and ours.c,
                roofline and roofline.v,
                ours and ours.v,
                row.expected,
                theory.speedup(row.alpha, row.gamma, row.c),
                ours and ours.predicted_speedup,
                ours and ours.beta_predicted_speedup,
                row.measured,
                ours and ours.speedup,
                best,
                theory.speedup(row.alpha, best, row.c),
            )
        )
    columns = (
        *ROW_KEYS,
        Column("α", Kind.PAPER),
        *(Column("c", kind) for kind in (Kind.PAPER, Kind.ROOFLINE, Kind.MEASURED)),
        *(Column("v", kind) for kind in (Kind.ROOFLINE, Kind.MEASURED)),
        Column("Exp", Kind.PAPER, ".1f"),
        *(Column("Exp", kind) for kind in (Kind.COMPUTED, Kind.PREDICTED)),
        Column("Exp, by β", Kind.PREDICTED),
        Column("Emp", Kind.PAPER, ".1f"),
        Column("Emp", Kind.MEASURED),
        Column("best γ", Kind.COMPUTED, "d"),
        Column("Exp there", Kind.COMPUTED),
    )
    notes = (
        "c: a draft call over a target call. v: a target call of γ + 1 tokens over one "
        "of a single token; the paper takes it as 1.",
        "Exp is Theorem 3.8; the paper prints it with one decimal, off by up to 0.1 "
        "from its own α and c.",
        "Exp, by β: from β at each token of the baseline's outputs in place of α.",
    )
    sources = _row_sources(records, measured)
    title = "Table 4: predicted (Exp) and measured (Emp) speedup"
    return [Table(title, columns, rows, notes, sources), *_rooflines(records)]


def of_row(
    records: RecordSet, row: paper.Row
) -> tuple[Roofline | None, Benchmark | None]:
    """A roofline of the paper's hardware, and a benchmark, of one of the paper's rows.

    A benchmark is a row's if its file is named for the row's run file.
    """
    rooflines = records.of(Roofline, run=row.run, **PAPERS_TPU)
    benchmarks = [
        one
        for one in records.of(
            Benchmark,
            temperature=row.temperature,
            gamma=row.gamma,
            lenience=1.0,
            quantization=None,
        )
        if one.path.stem == row.run
    ]
    return next(iter(rooflines), None), next(iter(benchmarks), None)


def benchmarks(records: RecordSet) -> list[Benchmark]:
    """One record for each pair, of its weights, temperature and gamma."""
    lossless = records.of(Benchmark, lenience=1.0)
    return distinct(lossless, "pair", "temperature", "gamma", *MODEL)


def _row_sources(records: RecordSet, measured: list[Benchmark]) -> list[Source]:
    """Of the twelve rows: what there is, and how to get what there is not."""
    rooflines = [
        found
        for row in paper.ROWS
        for found in records.of(Roofline, run=row.run, **PAPERS_TPU)
    ]
    sources = _roofline_sources("Roofline, one TPU v4", rooflines)
    sources += Source.from_records(measured, commands.PAPER_ROW) if measured else []
    missing = [row.run for row in paper.ROWS if not of_row(records, row)[0]]
    if missing:
        text = f"No roofline record of {_listed(missing)}"
        sources.append(Source(text, commands.ROOFLINE))
    missing = [row.run for row in paper.ROWS if not of_row(records, row)[1]]
    if missing:
        text = (
            f"No measurement of {_listed(missing)} (it needs an accelerator, and "
            "checkpoints fine-tuned on the task, which the authors did not publish)"
        )
        sources.append(Source(text, commands.PAPER_ROW))
    return sources


def _listed(runs: list[str]) -> str:
    return "any row" if len(runs) == len(paper.ROWS) else ", ".join(runs)


def _demo_speeds(records: RecordSet) -> Table:
    found = benchmarks(records)
    rows = [
        (
            one.pair,
            one.temperature,
            one.gamma,
            one.inputs,
            one.drafted_per_target_call,
            one.alpha,
            one.c,
            one.v,
            theory.speedup(one.alpha, one.gamma, one.c),
            one.predicted_speedup,
            one.beta_predicted_speedup,
            one.speedup,
            one.speedup_spread,
            one.speedup / (one.beta_predicted_speedup or one.predicted_speedup),
            one.best_gamma,
        )
        for one in found
    ]
    columns = (
        *DEMO_KEYS,
        Column("inputs", format="d"),
        Column("drafted per target call", Kind.MEASURED),
        *(Column(name, Kind.MEASURED) for name in ("α", "c", "v")),
        Column("Theorem 3.8, v = 1", Kind.PREDICTED),
        Column("speedup", Kind.PREDICTED),
        Column("speedup, by β", Kind.PREDICTED),
        Column("speedup", Kind.MEASURED),
        Column("rounds", Kind.MEASURED),
        Column("measured / by β"),
        Column("best γ, by β", Kind.PREDICTED, "d"),
    )
    notes = (
        "α is of the draft tokens that were tested: a drafter that seldom drafts (see "
        "the column before it) may have a high α and gain little.",
        "Theorem 3.8 has v = 1 and outputs without end; the prediction beside it "
        "counts v, the outputs' lengths and what is paid once (encoding) too.",
        "By β: with β at each token of the baseline's outputs in place of α; and the "
        "best γ by the same, up to the largest that was measured.",
        "Rounds: the speedup of the slowest and of the fastest round over all inputs.",
        "Both sides are this project's: the baseline is cached and jitted too.",
    )
    title = "The same of the pairs measured here"
    return Table(
        title, columns, rows, notes, Source.from_records(found, commands.BENCHMARK)
    )


def _rooflines(records: RecordSet) -> list[Table]:
    found = distinct(records.of(Roofline), "run", "topology", "chips", "quantization")
    if not found:
        return []
    paper_speed = {row.run: row.measured for row in paper.ROWS}
    rows = [
        (
            one.run,
            f"{one.topology} × {one.chips}"
            + (f", {one.quantization} target" if one.quantization else ""),
            one.c,
            one.v,
            one.predicted_speedup,
            paper_speed.get(one.run),
        )
        for one in found
    ]
    columns = (
        Column("run"),
        Column("TPU"),
        *(Column(name, Kind.ROOFLINE) for name in ("c", "v", "speedup")),
        Column("speedup", Kind.PAPER, ".1f"),
    )
    notes = (
        "With the target sharded over several chips its calls are shorter. A drafter "
        "that is replicated takes as long as before, and one that is sharded has sums "
        "to wait for: c grows.",
    )
    sources = _roofline_sources("Roofline", found)
    return [Table("All rooflines", columns, rows, notes, sources)]


def _roofline_sources(text: str, found: list[Roofline]) -> list[Source]:
    """One for each file of rooflines, with the command for its run and its TPU."""
    first = {one.path: one for one in reversed(found)}
    sources = []
    for path, one in reversed(first.items()):
        command = commands.ROOFLINE.replace("RUN", one.run)
        where = f"{one.topology}_{one.chips}"
        command = command.replace("records/v4_1", f"records/{where}")
        command = command.replace("--topology=v4", f"--topology={one.topology}")
        command = command.replace("--chips=1", f"--chips={one.chips}")
        sources.append(Source(text, one.command or command, path))
    return sources
