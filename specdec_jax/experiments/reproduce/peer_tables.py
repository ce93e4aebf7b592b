"""The report's tables of peers: other libraries that decode the same, beside ours."""

from collections.abc import Sequence

from specdec_jax.experiments import commands
from specdec_jax.experiments.kinds import AbsentPeer, MeasuredPeer
from specdec_jax.experiments.peers.catalogue import PEERS, SPECULATIVE
from specdec_jax.experiments.peers.summary import (
    agreement_text,
    memory_mb,
    times_as_fast,
)
from specdec_jax.experiments.record_set import RecordSet
from specdec_jax.experiments.tables import Column, Kind, Source, Table

Peer = MeasuredPeer | AbsentPeer
COLUMNS = (
    Column("peer"),
    Column("tokens/s", Kind.MEASURED, ".0f"),
    Column("over our baseline", Kind.MEASURED),
    Column("rounds", Kind.MEASURED),
    Column("ours over it", Kind.MEASURED),
    Column("target calls, all rounds", Kind.MEASURED, "d"),
    Column("tokens per target call", Kind.MEASURED),
    Column("MB", Kind.MEASURED, ".0f"),
    Column("same outputs", Kind.MEASURED),
)
NOTES = (
    "Over our baseline: the peer's tokens per second over those of our autoregressive "
    "decoding, which took turns with it; the median of the rounds, beside the least "
    "and the largest of them.",
    "Ours over it: the median of our speculative decoding over the peer's median, each "
    "over the baseline that it took turns with.",
    "MB: the peak resident memory beside the libraries: weights, buffers, compiled "
    "programs. At temperature 0 outputs are compared with our baseline's, input by "
    "input.",
)


def peers(records: RecordSet) -> list[Table]:
    """A table for each comparison; one without rows if there is none.

    A file is of one comparison, but for its temperatures: a peer's speed stands only
    beside those that were measured with the same prompts.
    """
    comparisons: dict[tuple, list[Peer]] = {}
    for one in [*records.of(MeasuredPeer), *records.of(AbsentPeer)]:
        key = (one.pair, one.temperature, one.path)
        comparisons.setdefault(key, []).append(one)
    tables = [_table(comparisons[key]) for key in sorted(comparisons)]
    return tables or [Table("Peers", COLUMNS, (), NOTES, _sources(()))]


def _table(comparison: Sequence[Peer]) -> Table:
    found, first = _by_peer(comparison), comparison[0]
    title = (
        f"{first.pair}, temperature {first.temperature:g}, "
        f"γ = {first.config['gamma']}, {first.inputs} prompts in "
        f"{first.config['repeats']} rounds"
    )
    ours = found.get(SPECULATIVE)
    rows, notes = [], list(NOTES)
    for name, one in found.items():
        if isinstance(one, AbsentPeer):
            rows.append((PEERS[name].title, "absent", *[None] * (len(COLUMNS) - 2)))
            notes.append(_absence(one))
            continue
        rows.append(_row(name, one, ours))
        made_of = ", ".join(f"{k} {v}" for k, v in one.peer_versions.items())
        threads = one.peer_settings.get("threads")
        notes.append(f"{PEERS[name].title}: {made_of}; threads: {threads}.")
    return Table(title, COLUMNS, rows, notes, _sources(list(found.values())))


def _by_peer(found: Sequence[Peer]) -> dict[str, Peer]:
    """The first record of each peer that was measured, or that it was absent."""
    first = {}
    for one in sorted(found, key=lambda one: isinstance(one, AbsentPeer)):
        first.setdefault(one.peer, one)
    return {name: first[name] for name in PEERS if name in first}


def _row(name: str, one: MeasuredPeer, ours: Peer | None) -> tuple:
    agreement = one.agreement
    return (
        PEERS[name].title,
        one.tokens_per_second,
        one.over_baseline,
        tuple(one.over_baseline_spread),
        times_as_fast(one, ours),
        one.target_calls,
        one.tokens_per_target_call,
        memory_mb(one),
        None if agreement is None else agreement_text(agreement),
    )


def _absence(one: AbsentPeer) -> str:
    how = f"; install it with `{one.install}`" if one.install else ""
    return f"{PEERS[one.peer].title} was absent: {one.absent}{how}."


def _sources(found: Sequence[Peer]) -> list[Source]:
    return Source.from_records(found, commands.PEERS)
