"""Compiles a pair's programs for devices that need not be there, and keeps the facts.

The programs are those of a decode: encoding of both models, a step of each, a verify
step, the beginning, and the whole speculative loop. Layouts of weights and caches are
the compiler's choice for the loop; all other programs take them as they are then.
"""

import dataclasses
import time
from collections.abc import Iterator, Sequence

import jax
from jax.experimental.layout import Format

from specdec_jax.partitioning.description import Decode, state_of
from specdec_jax.partitioning.layouts import automatic, jit_automatic
from specdec_jax.typing import Callable


@dataclasses.dataclass(frozen=True)
class Compiled:
    """A program and how long it took to compile."""

    name: str
    program: jax.stages.Compiled
    seconds: float


PROGRAMS = (
    "loop",
    "target step",
    "draft step",
    "verify step",
    "encode target",
    "encode drafter",
    "begin",
)


def compile_programs(
    decode: Decode, names: Sequence[str] = PROGRAMS
) -> Iterator[Compiled]:
    """Compiles programs, one after the other.

    Args:
      decode: the sizes and the devices.
      names: of `PROGRAMS`. The loop comes first, if it is among them: its compilation
        chooses the layouts of weights, which the others then keep.
    """
    chosen: dict[int, Format] = {}  # by the identity of a parameter's description
    for name in sorted(names, key=PROGRAMS.index):
        function, args, donated = _program(decode, name)
        formats = jax.tree.map(lambda x: chosen.get(id(x), automatic(x)), args)
        jitted = jit_automatic(function, formats, donated)
        start = time.perf_counter()
        program = jitted.lower(*args).compile()
        seconds = time.perf_counter() - start
        if name == "loop":
            params, formats = args[2], program.input_formats[0][2]
            for leaf, found in zip(
                jax.tree.leaves(params), jax.tree.leaves(formats), strict=True
            ):
                if found.layout is not None:  # None: the loop has no use for it
                    chosen[id(leaf)] = found
        yield Compiled(name, program, seconds)


def _program(decode: Decode, name: str) -> tuple[Callable, tuple, tuple[int, ...]]:
    """A program, its arguments, and which of them it consumes."""
    rows = decode.rows
    if name.startswith("encode"):
        side = getattr(decode.sides, name.removeprefix("encode "))

        def encode(params, inputs):
            return side.model.start(params, inputs, decode.slots)[0]

        return encode, (side.params, rows.inputs), ()
    decoder, params = decode.decoder(name), decode.params(name)
    on_mesh = decode.partition.decoder(decoder) if decode.partition else decoder
    if name == "begin":
        return on_mesh.init, (params, rows.inputs, rows.prompt), ()
    state = state_of(decode, name)
    args = (rows.keys, state, params, rows.settings)
    if name == "loop":
        return on_mesh.run, args, (1,)

    def step(keys, state, params, settings):
        state, _ = decoder.step(keys, state, params, settings)
        return decode.partition.constrain(state) if decode.partition else state

    return step, args, (1,)
