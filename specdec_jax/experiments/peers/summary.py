"""Peers' records for who reads a terminal: a line each, and a table of all."""

from collections.abc import Iterable

from specdec_jax.experiments.kinds import AbsentPeer, MeasuredPeer
from specdec_jax.experiments.peers.catalogue import PEERS, SPECULATIVE
from specdec_jax.experiments.tables import NOTHING, Column, Table
from specdec_jax.typing import Any

Record = MeasuredPeer | AbsentPeer
COLUMNS = (
    Column("peer"),
    Column("tokens/s", format=".0f"),
    Column("of baseline"),
    Column("ours/it"),
    Column("calls", format="d"),
    Column("MB", format=".0f"),
    Column("same"),
)


def latest(records: Iterable[Record], temperature: float) -> dict[str, Record]:
    """The last record of each peer at a temperature, in the catalogue's order.

    A peer that was absent at first and measured later counts as measured.
    """
    found = {
        record.peer: record for record in records if record.temperature == temperature
    }
    return {name: found[name] for name in PEERS if name in found}


def times_as_fast(record: Record, ours: Record | None) -> float | None:
    """Our speculative tokens per second over a peer's, each against its own baseline.

    Both were measured beside our baseline, though not always in the same run.
    """
    if ours is None or isinstance(ours, AbsentPeer) or isinstance(record, AbsentPeer):
        return None
    return ours.over_baseline / record.over_baseline


def memory_mb(record: MeasuredPeer) -> float | None:
    """The most that a peer held beside its libraries: weights, buffers, programs."""
    memory = record.memory
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
    title = PEERS[record.peer].title
    if isinstance(record, AbsentPeer):
        return f"{title}: absent: {record.absent}{_how(record)}"
    same = agreement_text(record.agreement)
    return (
        f"{title}: {record.tokens_per_second:.0f} tokens/s, "
        f"{record.over_baseline:.2f} of our baseline's, same tokens: {same}"
    )


def summary(records: Iterable[Record], temperature: float) -> Table:
    """A table of all peers, and below it what is absent or differs."""
    shown = latest(records, temperature)
    ours, rows, notes = shown.get(SPECULATIVE), [], []
    for name, record in shown.items():
        title = PEERS[name].title
        if isinstance(record, AbsentPeer):
            rows.append((title, "absent", *[None] * (len(COLUMNS) - 2)))
            notes.append(line(record))
            continue
        agreement = record.agreement
        if agreement is not None and agreement["differences"]:
            same = agreement_text(agreement)
            notes.append(f"{title}: not the baseline's tokens: {same}")
        rows.append(
            (
                title,
                record.tokens_per_second,
                record.over_baseline,
                times_as_fast(record, ours),
                record.target_calls,
                memory_mb(record),
                agreement and f"{agreement['equal']}/{agreement['prompts']}",
            )
        )
    title = f"temperature {temperature:g}; target calls of all rounds"
    return Table(title, COLUMNS, rows, notes)


def _how(record: AbsentPeer) -> str:
    return f": {record.install}" if record.install else ""
