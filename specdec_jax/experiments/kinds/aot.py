"""What a run compiled ahead of time for a TPU would take: compiler and roofline."""

from specdec_jax.runtime.records import (
    Count,
    Flag,
    NonNegative,
    Object,
    Positive,
    Rate,
    Record,
    Text,
    Values,
    stored,
)


@stored
class _OnTopology(Record):
    """The base of all: the TPU.

    Attributes:
      topology: its generation.
      chips: how many.
      mesh: sizes by axis; None for one chip.
      quantization: of the target's weights, "int8"; None if they are bfloat16.
    """

    topology: Text
    chips: Count
    mesh: Object | None = None
    quantization: Text | None = None


@stored
class CompiledProgram(_OnTopology):
    """The compiler's facts of a program; bytes are those of one chip.

    Attributes:
      gamma, batch: of the run.
      program: of `compile.PROGRAMS`.
      compile_seconds: of this machine.
      arguments, outputs, temporaries, code, memory: bytes; the last is their sum.
      flops, bytes_read: of a run of the program; None where the compiler is silent.
      large_copies: copies of at least a MiB, in any memory.
      collectives: `count` and `bytes` by kind; of the loop, in each step.
      bytes_read_over_needed: over weights and caches; of the baseline's loop.
      resident, resident_over_chip, largest_batch: of the loop: bytes that a chip holds
        while it runs, their share of its memory, and how many rows would fit.
    """

    kind = "aot_program"

    gamma: Count
    batch: Count
    program: Text
    compile_seconds: NonNegative
    arguments: Count
    outputs: Count
    temporaries: Count
    code: Count
    memory: Count
    flops: NonNegative | None = None
    bytes_read: NonNegative | None = None
    large_copies: Count
    collectives: Object
    bytes_read_over_needed: NonNegative | None = None
    resident: Count | None = None
    resident_over_chip: NonNegative | None = None
    largest_batch: Count | None = None


@stored
class CompiledStep(_OnTopology):
    """What the compiler's cost model expects of a step of a program, on one chip.

    Attributes:
      gamma, batch: of the run.
      step, milliseconds, large_copies, loops: of `estimate.StepEstimate`.
    """

    kind = "aot_compiled_step"

    gamma: Count
    batch: Count
    step: Text
    milliseconds: NonNegative
    large_copies: Count
    loops: Values | None = None


@stored
class StepFloor(_OnTopology):
    """The least time of a step, from the chip's published peaks.

    Attributes:
      gamma, batch: of the run.
      step: of `run.STEPS`.
      weight_bytes, cache_bytes, sent_bytes, messages, flops: of `roofline.StepCost`.
      milliseconds, over_target_step: the time, and over that of the target's step.
    """

    kind = "aot_step"

    gamma: Count
    batch: Count
    step: Text
    weight_bytes: NonNegative
    cache_bytes: NonNegative
    sent_bytes: NonNegative
    messages: Count
    flops: NonNegative
    milliseconds: NonNegative
    over_target_step: NonNegative


@stored
class Walltime(_OnTopology):
    """What a picture of the run's walltime is drawn from.

    Attributes:
      gamma, batch: of the run.
      steps: `gamma`, `c` and `v` of each row of the picture.
      alpha: with which draft tokens are accepted, the paper's.
    """

    kind = "aot_walltime"

    gamma: Count
    batch: Count
    steps: Values
    alpha: Rate


@stored
class BatchCost(_OnTopology):
    """What speculation gains at a batch, from the chip's published peaks.

    Attributes:
      gamma: the run's, of `v` and `speedup`.
      batch: rows on all chips together.
      shard_drafter, is_used, is_better: whether the drafter is sharded, whether the run
        does so, and whether that is the faster of the two at its best gamma.
      alpha: with which draft tokens are accepted, the paper's.
      c, v: of the least times.
      speedup: by Theorem 3.8.
      best_gamma, best_speedup: the largest; 0 and 1 where no gamma wins.
      bytes_a_row, resident, fits: on one chip: of a row's keys and values, of all rows
        and all weights, and whether these alone are within its memory.
    """

    kind = "aot_batch"

    gamma: Count
    batch: Count
    shard_drafter: Flag
    is_used: Flag
    is_better: Flag
    alpha: Rate
    c: NonNegative
    v: Positive
    speedup: Positive
    best_gamma: Count
    best_speedup: Positive
    bytes_a_row: Count
    resident: Count
    fits: Flag


@stored
class Roofline(_OnTopology):
    """A row of the paper's Table 2, with c and v from a TPU's published peaks.

    Attributes:
      run: the run file, of `paper.ROWS`.
      gamma, alpha: the paper's.
      c, v: of the least times.
      predicted_speedup: by Theorem 3.8.
      why: a sentence where that is far from what the paper measured, else "".
    """

    kind = "roofline"

    run: Text
    gamma: Count | None = None
    alpha: Rate | None = None
    c: NonNegative
    v: Positive
    predicted_speedup: Positive
    why: Text = ""


@stored
class CompiledRow(_OnTopology):
    """A row of the paper's Table 2, by what the compiler expects of its programs.

    Attributes:
      run, gamma, alpha: as in `Roofline`.
      c, v: of the steps of `CompiledStep`, none shorter than its `StepFloor`.
      output: tokens of an output.
      baseline_milliseconds, milliseconds: to encode an input and decode it.
      estimated_speedup: the first over the second.
    """

    kind = "aot_table_2"

    run: Text
    gamma: Count
    alpha: Rate
    c: NonNegative
    v: Positive
    output: Count
    baseline_milliseconds: Positive
    milliseconds: Positive
    estimated_speedup: Positive
