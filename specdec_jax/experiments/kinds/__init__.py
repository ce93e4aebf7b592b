"""The kinds of records: one frozen dataclass each, for who writes and who reads it."""

from specdec_jax.experiments.kinds.aot import (
    BatchCost,
    CompiledProgram,
    CompiledRow,
    CompiledStep,
    Roofline,
    StepFloor,
    Walltime,
)
from specdec_jax.experiments.kinds.outputs import (
    DecodedRow,
    DecodedText,
    TaskScores,
    Trace,
)
from specdec_jax.experiments.kinds.pairs import (
    Alpha,
    AlphaOutput,
    Benchmark,
    LogitsError,
    OfPair,
    Sweep,
)
from specdec_jax.experiments.kinds.peers import AbsentPeer, MeasuredPeer

KINDS = {
    kind.kind: kind
    for kind in (
        Benchmark,
        Alpha,
        AlphaOutput,
        LogitsError,
        Sweep,
        MeasuredPeer,
        AbsentPeer,
        CompiledProgram,
        CompiledStep,
        CompiledRow,
        StepFloor,
        Walltime,
        BatchCost,
        Roofline,
        Trace,
        DecodedText,
        DecodedRow,
        TaskScores,
    )
}

__all__ = [
    "KINDS",
    "AbsentPeer",
    "Alpha",
    "AlphaOutput",
    "BatchCost",
    "Benchmark",
    "CompiledProgram",
    "CompiledRow",
    "CompiledStep",
    "DecodedRow",
    "DecodedText",
    "LogitsError",
    "MeasuredPeer",
    "OfPair",
    "Roofline",
    "StepFloor",
    "Sweep",
    "TaskScores",
    "Trace",
    "Walltime",
]
