"""Times of steps by the compiler's own cost model: a model's word, not a measurement.

libtpu writes beside each instruction the cycles that it expects. Their sum, with the
trips of loops multiplied in, tells which of two programs is slow, and where. What runs
beside the rest, as fetching does, has no estimate.
"""

import dataclasses

from specdec_jax.partitioning.hlo import Instruction, Program, kind_of
from specdec_jax.partitioning.topology import Chip

LARGE = 2**20  # bytes: a copy of so many is one of a weight, a cache or distributions
PROPOSE = "/propose/"  # in the scope of what a drafter does


@dataclasses.dataclass(frozen=True)
class StepEstimate:
    """One step of a compiled program, on one chip.

    Attributes:
      step: "target step" of the baseline; "first draft step", "draft step" and "verify
        step" of the speculative loop; "begin" or "baseline begin".
      milliseconds: expected.
      large_copies: copies of at least `LARGE` bytes, in any memory.
      loops: trips of each loop inside.
    """

    step: str
    milliseconds: float
    large_copies: int
    loops: tuple[int, ...]


def step_estimates(name: str, program: Program, chip: Chip) -> list[StepEstimate]:
    """What each step of a program is expected to take.

    Args:
      name: of the program: "begin", "loop", "baseline begin" or "baseline loop".
      program: as compiled.
      chip: whose clock counts.
    """

    def estimate(step, computations, wanted=lambda i: True):
        runs = [
            run for run in program.runs(computations, unknown_trips=0) if wanted(run[0])
        ]
        return StepEstimate(
            step,
            1e3 * sum(i.cycles * often for i, often in runs) / chip.clock,
            sum(
                often
                for i, often in runs
                if i.num_bytes >= LARGE and program.is_copy(i)
            ),
            tuple(
                program.trips(loop) or 0
                for loop in program.loops(computations)
                if program.trips(loop) is not None and wanted(loop)
            ),
        )

    if name.endswith("begin"):
        return [estimate(name, [program.entry])]
    (outer,) = program.loops([program.entry])
    if name == "baseline loop":
        return [estimate("target step", outer.called)]

    def proposes(i: Instruction) -> bool:
        return PROPOSE in i.scope

    steps = [
        estimate("first draft step", outer.called, proposes),
        estimate("verify step", outer.called, lambda i: not proposes(i)),
    ]
    drafting = [
        loop for loop in program.loops(outer.called) if program.trips(loop) is None
    ]
    if drafting:
        steps[1:1] = [estimate("draft step", drafting[0].called)]
    return steps


def collectives_of_a_step(program: Program) -> dict[str, dict[str, int]]:
    """How many collectives a step has, and of how many bytes, by their kind.

    Of a program without a loop, those of a run.
    """
    outer = program.loops([program.entry])
    moved: dict[str, dict[str, int]] = {}
    for i in program.collectives(program.loop_body if outer else None):
        kind = moved.setdefault(kind_of(i), {"count": 0, "bytes": 0})
        kind["count"] += 1
        kind["bytes"] += i.num_bytes
    return moved
