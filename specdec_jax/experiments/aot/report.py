"""Tables in Markdown, and the walltime trace, from the records of an `AOTRun`."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from specdec_jax.experiments import paper, tables
from specdec_jax.experiments.kinds import (
    BatchCost,
    CompiledProgram,
    CompiledRow,
    CompiledStep,
    Roofline,
    StepFloor,
    Walltime,
)
from specdec_jax.experiments.tables import Column, Kind, Table
from specdec_jax.experiments.trace import timeline
from specdec_jax.runtime.records import Record

PICTURE = "walltime"
TOKENS = 24  # of the output in the walltime trace


def markdown(records: Iterable[Record]) -> str:
    """The report; every column says whether it is the compiler's or a model's."""
    records = list(records)
    programs, compiled, steps, walltimes, batches, table_2, compiled_rows = (
        [record for record in records if isinstance(record, kind)]
        for kind in (
            CompiledProgram,
            CompiledStep,
            StepFloor,
            Walltime,
            BatchCost,
            Roofline,
            CompiledRow,
        )
    )
    found = [_programs(programs)] if programs else []
    found += [_moved(programs)] if any(p.collectives for p in programs) else []
    found += [_compiled_steps(compiled, steps)] if compiled else []
    found += [_steps(steps)] if steps else []
    found += [batch_table(batches)] if batches else []
    found += [_table_2(table_2, compiled_rows)] if table_2 else []
    parts = [f"# {_title((steps or programs)[0])}"]
    parts += [tables.markdown(table, Path()).rstrip() for table in found]
    for record in walltimes:
        parts.append(
            f"![When which model runs]({PICTURE}.png)\n\n"
            f"When which model runs in an output of {TOKENS} tokens, by the model's "
            "times and without encoding; each draft token is accepted with the "
            f"paper's α = {record.alpha:g}, drawn with one seed."
        )
    return "\n\n".join(parts) + "\n"


def save(folder: Path, records: Sequence[Record]) -> None:
    """Writes `aot.md` and the picture of the walltime."""
    from specdec_jax.experiments import figures
    from specdec_jax.experiments.trace import trace_figures

    (folder / "aot.md").write_text(markdown(records), "utf-8")
    for record in records:
        if isinstance(record, Walltime):
            picture = trace_figures.timelines(walltime_rows(record))
            figures.save(picture, folder / PICTURE)


def walltime_rows(record: Walltime) -> dict[str, list[timeline.Span]]:
    """The paper's Figure 5, of a model's times: a row for each gamma, and the baseline.

    Args:
      record: its "steps" hold c and v for each gamma, and "alpha" is the chance with
        which a draft token is accepted.
    """
    rows = {}
    for step in record.steps:
        gamma = step["gamma"]
        calls = timeline.drawn_target_calls(record.alpha, gamma, TOKENS)
        rows[f"γ = {gamma}"] = timeline.timeline(
            [gamma] * calls, step["c"], step["v"], (0.0, 0.0)
        )
    return rows | {"autoregressive": timeline.baseline_timeline(TOKENS, 0.0)}


def _title(record: CompiledProgram | StepFloor) -> str:
    mesh = record.mesh
    shape = (
        ""
        if mesh is None
        else ", mesh " + " x ".join(f"{size} {axis}" for axis, size in mesh.items())
    )
    return (
        f"{record.chips} x TPU {record.topology}{shape}, "
        + (f"{record.quantization} target, " if record.quantization else "")
        + f"batch {record.batch}, γ = {record.gamma}"
    )


def _programs(programs: Sequence[CompiledProgram]) -> Table:
    sizes = ("arguments", "temporaries", "code", "bytes_read")
    rows = [
        (
            record.program,
            record.compile_seconds,
            *(_size(getattr(record, size)) for size in sizes),
            record.flops and record.flops / 1e9,
            record.bytes_read_over_needed,
            record.large_copies,
        )
        for record in programs
    ]
    columns = (
        Column("program"),
        Column("compiled in, s", Kind.COMPILER, ".0f"),
        *(Column(size.replace("_", " "), Kind.COMPILER) for size in sizes),
        Column("GFLOP", Kind.COMPILER, ".3g"),
        Column("read over weights + caches", Kind.COMPILER, ".3f"),
        Column("large copies", Kind.COMPILER, "d"),
    )
    notes = ["Bytes are those of one chip."]
    notes += [
        f"In the loop a chip holds {_size(record.resident)}, the weights of both "
        f"models included: {record.resident_over_chip:.0%} of its memory. By the "
        f"size of this program, batches of up to {record.largest_batch} fit "
        "(estimated)."
        for record in programs
        if record.program == "loop"
    ]
    return Table("Compiled programs, per chip", columns, rows, notes)


def _moved(programs: Sequence[CompiledProgram]) -> Table:
    rows = [
        (
            record.program + " (each step)" * record.program.endswith("loop"),
            kind,
            moved["count"],
            _size(moved["bytes"]),
        )
        for record in programs
        for kind, moved in sorted(record.collectives.items())
    ]
    columns = (
        Column("program"),
        Column("collective"),
        Column("count", Kind.COMPILER, "d"),
        Column("bytes", Kind.COMPILER),
    )
    return Table("Collectives between chips", columns, rows)


def _compiled_steps(
    compiled: Sequence[CompiledStep], steps: Sequence[StepFloor]
) -> Table:
    floors = {record.step: record.milliseconds for record in steps}
    rows = [
        (
            record.step,
            record.milliseconds,
            floors.get(record.step),
            record.large_copies,
            ", ".join(str(int(trips)) for trips in record.loops or ()) or None,
        )
        for record in compiled
    ]
    columns = (
        Column("step"),
        Column("ms", Kind.COMPILER, ".3g"),
        Column("ms", Kind.ROOFLINE, ".3g"),
        Column("large copies", Kind.COMPILER, "d"),
        Column("trips of loops", Kind.COMPILER),
    )
    notes = [
        "Times are the compiler's own cost model's, not measured. It gives fetching "
        "beside the rest no time: a step takes the larger of the two. The first draft "
        "step reads the tokens that its cache lacks, and a verify step has all of "
        "the loop that is not drafting."
    ]
    return Table("Steps as they are compiled, per chip", columns, rows, notes)


def _steps(steps: Sequence[StepFloor]) -> Table:
    rows = [
        (
            record.step,
            *(
                _size(getattr(record, f"{part}_bytes"))
                for part in ("weight", "cache", "sent")
            ),
            record.messages,
            record.flops / 1e9,
            record.milliseconds,
            record.over_target_step,
        )
        for record in steps
    ]
    columns = (
        Column("step"),
        *(Column(part, Kind.ROOFLINE) for part in ("weights", "caches", "sent")),
        Column("collectives", Kind.ROOFLINE, "d"),
        Column("GFLOP", Kind.ROOFLINE, ".3g"),
        Column("ms", Kind.ROOFLINE, ".3g"),
        Column("over target step", Kind.ROOFLINE, ".3f"),
    )
    return Table("Lower bound of a step's time, from published peaks", columns, rows)


def batch_table(records: Sequence[BatchCost]) -> Table:
    """What speculation gains at each batch, and where it should be off."""
    first = records[0]
    rows = [
        (
            f"{record.batch}",
            _place(record) + " (better)" * (record.is_better and len(records) > 1),
            record.c,
            record.v,
            record.speedup,
            record.best_gamma,
            record.best_speedup,
            _size(record.bytes_a_row),
            _size(record.resident) + ", too much" * (not record.fits),
        )
        for record in records
    ]
    columns = (
        Column("batch"),
        Column("drafter"),
        Column("c", Kind.ROOFLINE, ".3f"),
        Column(f"v({first.gamma + 1})", Kind.ROOFLINE),
        Column(f"speedup at γ = {first.gamma}", Kind.ROOFLINE),
        Column("best γ", Kind.ROOFLINE, "d"),
        Column("speedup at it", Kind.ROOFLINE),
        Column("a row takes", Kind.ROOFLINE),
        Column("weights and rows", Kind.ROOFLINE),
    )
    used = next(record for record in records if record.is_used)
    notes = [
        f"By Theorem 3.8, with the paper's α = {first.alpha:g}; v(n) is the time of a "
        "pass over n tokens over that of one. Bytes are those of one chip.",
        f"In this run the drafter is {_place(used)}.",
    ]
    return Table("Gain by batch", columns, rows, notes + _slow_batches(records))


def _place(record: BatchCost) -> str:
    return "sharded" if record.shard_drafter else "replicated"


def _slow_batches(records: Sequence[BatchCost]) -> list[str]:
    """A sentence for each batch where a run of these settings would lose."""
    notes = []
    for record in records:
        where = f"Batch {record.batch}, drafter {_place(record)}"
        if record.best_gamma == 0:
            notes.append(
                f"{where}: best γ 0: the baseline is faster. Do not speculate."
            )
        elif record.is_used and record.speedup < 1:
            notes.append(
                f"{where}: the baseline is faster than γ = {record.gamma}; take "
                f"γ = {record.best_gamma}."
            )
    return notes


def _table_2(lines: Sequence[Roofline], compiled: Sequence[CompiledRow]) -> Table:
    estimates = {row.run: row for row in compiled}
    printed = {row.run: row for row in paper.ROWS}
    rows = [
        (
            record.run,
            record.gamma,
            record.alpha,
            printed[record.run].c,
            record.c,
            record.v,
            *((estimate.c, estimate.v) if estimate else (None, None)),
            printed[record.run].expected,
            record.predicted_speedup,
            estimate and estimate.estimated_speedup,
            printed[record.run].measured,
        )
        for record in lines
        for estimate in [estimates.get(record.run)]
    ]
    columns = (
        Column("run"),
        Column("γ", format="d"),
        Column("α", Kind.PAPER),
        Column("c", Kind.PAPER),
        Column("c", Kind.ROOFLINE, ".3f"),
        Column("v", Kind.ROOFLINE, ".3f"),
        *(Column(name, Kind.COMPILER, ".3f") for name in ("c", "v")),
        Column("predicted speedup", Kind.PAPER, ".1f"),
        Column("speedup", Kind.ROOFLINE),
        Column("speedup", Kind.COMPILER),
        Column("speedup", Kind.PAPER, ".1f"),
    )
    notes = [
        f"The compiler's speedup is of an output of {row.output} tokens, encoding "
        "included."
        for row in compiled[:1]
    ]
    notes += [
        f"{record.run}, more than 15% apart: {record.why}"
        for record in lines
        if record.why
    ]
    title = "Table 2 of the paper, with c and v of the roofline"
    return Table(title, columns, rows, notes)


def _size(num_bytes: float) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if num_bytes >= size:
            return f"{num_bytes / size:.3g} {unit}"
    return f"{num_bytes:.0f} B"
