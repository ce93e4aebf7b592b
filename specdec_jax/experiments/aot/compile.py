"""Compiles a pair's programs for devices that need not be there.

They are the very programs that `generate` runs, `decoding.compiled.begin` and `run`,
of parameters as loading leaves them: speculative, and the baseline.
"""

import dataclasses
import time
from collections.abc import Iterator, Sequence

import jax

from specdec_jax.decoding import compiled
from specdec_jax.partitioning.description import Decode, state_of


@dataclasses.dataclass(frozen=True)
class Compiled:
    """A program and how long it took to compile."""

    name: str
    program: jax.stages.Compiled
    seconds: float


PROGRAMS = ("begin", "loop", "baseline begin", "baseline loop")


def compile_programs(
    decode: Decode, names: Sequence[str] = PROGRAMS
) -> Iterator[Compiled]:
    """Compiles programs, one after the other.

    Args:
      decode: the sizes and the devices.
      names: of `PROGRAMS`.
    """
    for name in names:
        start = time.perf_counter()
        program = _lowered(decode, name).compile()
        yield Compiled(name, program, time.perf_counter() - start)


def _lowered(decode: Decode, name: str) -> jax.stages.Lowered:
    rows, of = decode.rows, "target step" if name.startswith("baseline") else "loop"
    decoder, params = decode.decoder(of), decode.params(of)
    if decode.partition is not None:
        decoder = decode.partition.decoder(decoder)
    if name.endswith("begin"):
        return compiled.begin.lower(decoder, params, rows.inputs, rows.prompt)
    state = state_of(decode, of)
    return compiled.run.lower(decoder, rows.keys, state, params, rows.settings)
