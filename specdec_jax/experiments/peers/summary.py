"""Peers' records for who reads a terminal: a line each, and a table of all."""

from collections.abc import Iterable

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from specdec_jax.experiments.peers.catalogue import PEERS, SPECULATIVE
from specdec_jax.typing import Any

Record = dict[str, Any]
NOTHING = "–"
COLUMNS = ("peer", "tok/s", "of baseline", "ours/it", "calls", "MB", "same")


def latest(records: Iterable[Record], temperature: float) -> dict[str, Record]:
    """The last record of each peer at a temperature, in the catalogue's order.

    A peer that was absent at first and measured later counts as measured.
    """
    found = {
        record["peer"]: record
        for record in records
        if record["temperature"] == temperature
    }
    return {name: found[name] for name in PEERS if name in found}


def times_as_fast(record: Record, ours: Record | None) -> float | None:
    """Our speculative tokens per second over a peer's, each against its own baseline.

    Both were measured beside our baseline, though not always in the same run.
    """
    if ours is None or "absent" in ours or "absent" in record:
        return None
    return ours["over_baseline"] / record["over_baseline"]


def memory_mb(record: Record) -> float | None:
    """The most that a peer held beside its libraries: weights, buffers, programs."""
    memory = record["memory"]
    return None if memory is None else memory["peak_mb"] - memory["imports_mb"]


def agreement_text(agreement: dict[str, Any] | None) -> str:
    """How many prompts' outputs were the baseline's, and where one first was not."""
    if agreement is None:
        return NOTHING
    text = f"{agreement['equal']} of {agreement['prompts']}"
    if agreement["differences"]:
        first = agreement["differences"][0]
        text += f" (prompt {first['prompt']} differs at token {first['place']})"
    return text


def line(record: Record) -> str:
    """What is said when a peer is done, or was not found."""
    title = PEERS[record["peer"]].title
    if "absent" in record:
        return f"{title}: absent: {record['absent']}{_how(record)}"
    same = agreement_text(record["agreement"])
    return (
        f"{title}: {record['tokens_per_second']:.0f} tokens/s, "
        f"{record['over_baseline']:.2f} of our baseline's, same tokens: {same}"
    )


def summary(records: Iterable[Record], temperature: float) -> Group:
    """A table of all peers, and below it what is absent or differs."""
    shown = latest(records, temperature)
    title = f"temperature {temperature:g}; calls of the target in all rounds"
    table = Table(*COLUMNS, box=box.SIMPLE, title=title)
    table.columns[0].overflow = "fold"  # no name is cut short
    notes = []
    for name, record in shown.items():
        if "absent" in record:
            table.add_row(PEERS[name].title, "absent", *[NOTHING] * (len(COLUMNS) - 2))
            notes.append(line(record))
            continue
        agreement = record["agreement"]
        if agreement is not None and agreement["differences"]:
            same = agreement_text(agreement)
            notes.append(f"{PEERS[name].title}: not the baseline's tokens: {same}")
        table.add_row(PEERS[name].title, *_cells(record, shown.get(SPECULATIVE)))
    return Group(table, *map(Text, notes))  # "[t5x]" is no markup


def _cells(record: Record, ours: Record | None) -> list[str]:
    ratio, memory = times_as_fast(record, ours), memory_mb(record)
    agreement = record["agreement"]
    return [
        f"{record['tokens_per_second']:.0f}",
        f"{record['over_baseline']:.2f}",
        NOTHING if ratio is None else f"{ratio:.2f}",
        str(record["target_calls"]),
        NOTHING if memory is None else f"{memory:.0f}",
        NOTHING
        if agreement is None
        else f"{agreement['equal']}/{agreement['prompts']}",
    ]


def _how(record: Record) -> str:
    return f": {record['install']}" if record["install"] else ""
