"""The cost of a decode on a TPU that is not there: compiler's facts, and a roofline.

A record's kind says what it is. Facts are read from what libtpu compiled. Times are the
compiler's own estimates, and those of `partitioning.roofline`, a floor from published
peaks.
"""

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np

from specdec_jax.auto_gamma import best_gamma
from specdec_jax.decoding.settings import DecodeSettings
from specdec_jax.errors import SettingsError
from specdec_jax.experiments import paper
from specdec_jax.experiments.aot import compile as aot_compile
from specdec_jax.experiments.aot import table_2
from specdec_jax.experiments.aot.batches import batch_costs
from specdec_jax.experiments.kinds import (
    BatchCost,
    CompiledProgram,
    CompiledRow,
    CompiledStep,
    Roofline,
    StepFloor,
    Walltime,
)
from specdec_jax.models.quantization import check_quantization
from specdec_jax.models.t5 import T5Config
from specdec_jax.partitioning import roofline, topology
from specdec_jax.partitioning.description import Decode
from specdec_jax.partitioning.estimate import (
    LARGE,
    collectives_of_a_step,
    step_estimates,
)
from specdec_jax.partitioning.hlo import Program
from specdec_jax.runtime.records import Record, environment
from specdec_jax.runtime.validation import check_kinds
from specdec_jax.typing import Any, self_checked


@self_checked
class AOTRun:
    """A pair and how it decodes, to be compiled for a topology.

    Attributes:
      target, drafter: their sizes.
      settings: gamma, max_new_tokens and the rule are used, one for all rows.
      batch_size: rows decoded together.
      inputs_length: tokens of an input.
      mesh, shard_drafter, target_quantization: as in `load_pair`.

    Raises:
      SettingsError: a number is not what it may be, or there is no such quantization.
    """

    target: T5Config
    drafter: T5Config
    settings: DecodeSettings
    batch_size: int = 1
    inputs_length: int = 512
    mesh: Any = "auto"
    shard_drafter: bool | None = None
    target_quantization: str | None = None

    def __post_init__(self):
        check_kinds(self)
        check_quantization(self.target_quantization)

    def decode(self, devices: Sequence) -> Decode:
        """The decode that is compiled."""
        is_auto = self.settings.is_gamma_auto
        decode = Decode(
            target=self.target,
            drafter=self.drafter,
            gamma=self.settings.static_gamma,
            max_new_tokens=self.settings.buffer_size,
            devices=devices,
            batch=self.batch_size,
            source=self.inputs_length,
            mesh=self.mesh,
            shard_drafter=self.shard_drafter,
            target_quantization=self.target_quantization,
            rule=self.settings.verification_rule,
        )
        if is_auto:
            chip = topology.chip_of(devices[0])
            gamma = best_gamma(decode, chip, self.papers_alpha)
            decode = dataclasses.replace(decode, gamma=gamma)
        if decode.gamma < 1:
            raise SettingsError(
                "gamma must be at least 1 to compile a loop that drafts"
                + f": at batch {decode.batch} the baseline is faster" * is_auto
            )
        return decode

    def __call__(
        self,
        kind: str,
        chips: int,
        programs: Sequence[str] = aot_compile.PROGRAMS,
        with_table_2: bool = False,
    ) -> Iterator[Record]:
        """Yields records: programs, their steps, floors, batches, and rows of Table 2.

        Args:
          kind, chips: as in `topology.describe`.
          programs: to compile, of `aot_compile.PROGRAMS`.
          with_table_2: compile the pairs of the paper's Table 2 too.
        """
        decode = self.decode(topology.describe(kind, chips))
        chip = topology.CHIPS[kind]
        shape = decode.partition and dict(decode.partition.mesh.shape)
        made_with = environment()
        on_topology = {
            "topology": kind,
            "chips": chips,
            "mesh": shape,
            "quantization": decode.target_quantization,
        }
        common = on_topology | {
            "gamma": decode.gamma,
            "batch": decode.rows.prompt.lengths.shape[0],
        }
        costs = {name: roofline.step_cost(decode, name) for name in roofline.STEPS}
        for compiled in aot_compile.compile_programs(decode, programs):
            program = Program.parse(compiled.program.as_text())
            facts = program_facts(compiled, program)
            if compiled.name == "baseline loop":
                read = program.bytes_read(program.run_one_by_one(program.loop_body))
                needed = costs["target step"].bytes
                facts["bytes_read_over_needed"] = read / needed
            if compiled.name == "loop":
                resident = roofline.resident_bytes(decode, facts["memory"])
                facts["resident"] = resident
                facts["resident_over_chip"] = resident / chip.memory
                facts["largest_batch"] = roofline.largest_batch(
                    decode, chip, facts["memory"]
                )
            yield CompiledProgram(**common, **facts, **made_with)
            for step in step_estimates(compiled.name, program, chip):
                fields = dataclasses.asdict(step) | {"loops": list(step.loops) or None}
                yield CompiledStep(**fields, **common, **made_with)
        target = costs["target step"]
        for name, cost in costs.items():
            yield StepFloor(
                step=name, **step_floor(cost, target, chip), **common, **made_with
            )
        yield Walltime(**self.walltime(decode, chip), **common, **made_with)
        for fields in batch_costs(decode, chip, self.papers_alpha):
            yield BatchCost(**fields, **on_topology, **made_with)
        for row in paper.ROWS:
            yield Roofline(
                **table_2.roofline_row(row, decode, chip), **on_topology, **made_with
            )
        if with_table_2:
            for fields in table_2.compiled_rows(decode, chip):
                yield CompiledRow(**fields, **on_topology, **made_with)

    def walltime(self, decode: Decode, chip: topology.Chip) -> dict[str, Any]:
        """c and v of the run's gamma and of 3, with alpha of the paper's row."""
        steps = []
        for gamma in sorted({decode.gamma, 3}, reverse=True):
            c, v = roofline.model_costs(dataclasses.replace(decode, gamma=gamma), chip)
            steps.append({"gamma": gamma, "c": c, "v": v})
        return {"steps": steps, "alpha": self.papers_alpha}

    @property
    def papers_alpha(self) -> float:
        """Of the paper's row nearest to this run: by drafter, temperature and gamma."""

        def likeness(row: paper.Row) -> tuple[bool, bool, bool]:
            return (
                paper.t5_1_1(row.size).emb_dim == self.drafter.emb_dim,
                row.temperature == float(np.max(self.settings.temperature)),
                row.gamma == self.settings.gamma,
            )

        return max(paper.ROWS, key=likeness).alpha


def program_facts(compiled: aot_compile.Compiled, program: Program) -> dict[str, Any]:
    """What the compiler says of a program; all bytes are of one chip."""
    memory = compiled.program.memory_analysis()
    cost = compiled.program.cost_analysis() or {}
    aliased = memory.alias_size_in_bytes
    facts = {
        "program": compiled.name,
        "compile_seconds": compiled.seconds,
        "arguments": memory.argument_size_in_bytes,
        "outputs": memory.output_size_in_bytes - aliased,
        "temporaries": memory.temp_size_in_bytes,
        "code": memory.generated_code_size_in_bytes,
        "flops": cost.get("flops"),
        "bytes_read": program.bytes_read(),
        "large_copies": len(program.copies(LARGE)),
        "collectives": collectives_of_a_step(program),
    }
    parts = ("arguments", "outputs", "temporaries", "code")
    return facts | {"memory": sum(facts[part] for part in parts)}


def step_floor(
    cost: roofline.StepCost,
    target: roofline.StepCost,
    chip: topology.Chip,
) -> dict[str, Any]:
    """A step's floor, in milliseconds and against the target's step."""
    seconds = cost.seconds(chip)
    return {
        **dataclasses.asdict(cost),
        "milliseconds": 1e3 * seconds,
        "over_target_step": seconds / target.seconds(chip),
    }
