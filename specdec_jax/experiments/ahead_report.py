"""Tables in Markdown, and the walltime trace, from the records of an `AheadRun`."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from specdec_jax.experiments import paper
from specdec_jax.typing import Any

Record = dict[str, Any]


def markdown(records: Iterable[Record]) -> str:
    """The report; every table says whether it is the compiler's or a model's."""
    by_what: dict[str, list[Record]] = {}
    for record in records:
        by_what.setdefault(record["what"], []).append(record)
    steps = by_what.get("step", [])
    parts = [_title(steps or by_what["program"])]
    if programs := by_what.get("program"):
        parts += ["## Facts of the compiler, per chip", _programs(programs)]
        parts += [
            _sentences(programs),
            "### What moves between chips",
            _moved(programs),
        ]
    if steps:
        parts += ["## Model: the least time of a step, from published peaks"]
        parts += [_steps(steps)]
    if lines := by_what.get("table 2"):
        parts += ["## Model: Table 2 of the paper, with c and v of the model"]
        parts += [_table_2(lines), *_whys(lines)]
    return "\n\n".join(part for part in parts if part) + "\n"


def save(folder: Path, records: Sequence[Record]) -> None:
    """Writes `ahead.md` and the picture of the walltime."""
    (folder / "ahead.md").write_text(markdown(records), "utf-8")
    for record in records:
        if record["what"] == "walltime":
            for ending in ("png", "svg"):
                walltime_trace(folder / f"walltime.{ending}", record)


def _title(records: Sequence[Record]) -> str:
    one = records[0]
    mesh = "" if one["mesh"] is None else f", mesh {_mesh(one['mesh'])}"
    return (
        f"# {one['chips']} x TPU {one['topology']}{mesh}, batch {one['batch']}, "
        f"γ = {one['gamma']}"
    )


def _mesh(shape: dict[str, int]) -> str:
    return " x ".join(f"{size} {axis}" for axis, size in shape.items())


def _programs(programs: Sequence[Record]) -> str:
    def ratio(record):
        found = record.get("bytes_read_over_needed")
        return "" if found is None else f"{found:.3f}"

    return table(
        {
            "program": lambda r: r["program"],
            "compiled in": lambda r: f"{r['compile_seconds']:.0f} s",
            "arguments": lambda r: _size(r["arguments"]),
            "temporaries": lambda r: _size(r["temporaries"]),
            "code": lambda r: _size(r["code"]),
            "GFLOP": lambda r: "" if r["flops"] is None else f"{r['flops'] / 1e9:.3g}",
            "bytes read": lambda r: _size(r["bytes_read"]),
            "over weights + caches": ratio,
            "large copies": lambda r: str(r["large_copies"]),
        },
        programs,
    )


def _sentences(programs: Sequence[Record]) -> str:
    for record in programs:
        if record["program"] == "loop":
            return (
                f"While the loop runs a chip holds {_size(record['resident'])}, all "
                f"weights of both models among it: {record['resident_over_chip']:.0%} "
                "of its memory. By the size of this program, batches of up to "
                f"{record['largest_batch']} fit (model)."
            )
    return ""


def _moved(programs: Sequence[Record]) -> str:
    rows = [
        {"program": record["program"], "kind": kind, **moved}
        for record in programs
        for kind, moved in sorted(record["collectives"].items())
    ]
    if not rows:
        return "Nothing."
    return table(
        {
            "program": lambda r: (
                r["program"] + " (each step)" * (r["program"] == "loop")
            ),
            "collective": lambda r: r["kind"],
            "count": lambda r: str(r["count"]),
            "bytes": lambda r: _size(r["bytes"]),
        },
        rows,
    )


def _steps(steps: Sequence[Record]) -> str:
    return table(
        {
            "step": lambda r: r["step"],
            "weights": lambda r: _size(r["weight_bytes"]),
            "caches": lambda r: _size(r["cache_bytes"]),
            "GFLOP": lambda r: f"{r['flops'] / 1e9:.3g}",
            "sent": lambda r: _size(r["sent_bytes"]),
            "collectives": lambda r: str(r["messages"]),
            "ms": lambda r: f"{r['milliseconds']:.3g}",
            "over target step": lambda r: f"{r['over_target_step']:.3f}",
        },
        steps,
    )


def _table_2(lines: Sequence[Record]) -> str:
    printed = {line.run: line for line in paper.LINES}
    return table(
        {
            "run": lambda r: r["run"],
            "γ": lambda r: str(r["gamma"]),
            "α, paper": lambda r: f"{r['alpha']:.2f}",
            "c, paper": lambda r: f"{printed[r['run']].c:.2f}",
            "c": lambda r: f"{r['c']:.3f}",
            "v": lambda r: f"{r['v']:.3f}",
            "predicted": lambda r: f"{r['predicted_speedup']:.2f}",
            "paper's theorem": lambda r: f"{printed[r['run']].expected:.1f}",
            "paper measured": lambda r: f"{printed[r['run']].measured:.1f}",
        },
        lines,
    )


def _whys(lines: Sequence[Record]) -> list[str]:
    told = [f"- {r['run']}: {r['why']}" for r in lines if r["why"]]
    return ["Where prediction and clock differ by more than 15%:", "\n".join(told)] * (
        len(told) > 0
    )


def table(columns: dict[str, Any], rows: Iterable[Record]) -> str:
    """Markdown: a column for each title, filled by its function of a row."""
    lines = [list(columns), ["---"] * len(columns)]
    lines += [[cell(row) for cell in columns.values()] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _size(num_bytes: float) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if num_bytes >= size:
            return f"{num_bytes / size:.3g} {unit}"
    return f"{num_bytes:.0f} B"


def walltime_trace(path: Path, record: Record, tokens: int = 24) -> None:
    """The paper's Figure 5: target and draft runs as blocks, a row for each gamma.

    Args:
      path: of the picture; its ending says which kind.
      record: its "milliseconds" are those of each step, an entry a gamma, and "alpha"
        is the chance with which guesses stand, drawn from one seed for all rows.
      tokens: of the output.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(9, 0.7 + 0.6 * len(record["milliseconds"])))
    labels = []
    for place, times in enumerate(record["milliseconds"]):
        gamma = times["gamma"]
        labels.append("base" if gamma == 0 else f"γ = {gamma}")
        for start, length, is_target in blocks(gamma, times, record["alpha"], tokens):
            axes.broken_barh(
                [(start, length)],
                (place - 0.35, 0.7),
                facecolor="#0072b2" if is_target else "#e69f00",
                edgecolor="white",
                linewidth=0.4,
            )
    axes.set_yticks(range(len(labels)), labels)
    axes.invert_yaxis()
    axes.set_xlabel(f"ms for {tokens} tokens (model; blue: target, orange: drafter)")
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    plt.close(figure)


def blocks(
    gamma: int, times: dict[str, float], alpha: float, tokens: int
) -> list[tuple[float, float, bool]]:
    """Start, length and whether it is the target's, of each run."""
    random = np.random.default_rng(0)
    clock, done, found = 0.0, 0, []
    while done < tokens:
        for _ in range(gamma):
            found.append((clock, times["draft step"], False))
            clock += times["draft step"]
        length = times["verify step" if gamma else "target step"]
        found.append((clock, length, True))
        clock += length
        stands = random.random(gamma) < alpha
        done += int(np.cumprod(stands).sum()) + 1
    return found
