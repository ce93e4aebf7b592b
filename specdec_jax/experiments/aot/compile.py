"""Compiles a pair's programs for devices that need not be there, and keeps the facts.

The programs are those of a decode: encoding of both models, a step of each, a verify
step, the beginning, and the whole speculative loop. Layouts of weights and caches are
the compiler's choice for the loop; all other programs take them as they are then.
"""

import dataclasses
import functools
import time
from collections.abc import Iterator, Sequence

import jax
import jax.numpy as jnp
from flax import traverse_util
from jax.experimental.layout import Format
from jax.sharding import NamedSharding, PartitionSpec, SingleDeviceSharding

from specdec_jax.checkpoints.weights import parameter_shapes, stacked_shape
from specdec_jax.decoding.autoregressive import Autoregressive
from specdec_jax.decoding.contracts import LanguageModel, Prompt
from specdec_jax.decoding.loop import slots_needed
from specdec_jax.decoding.settings import DecodeSettings
from specdec_jax.decoding.speculative import PairParams, Speculative
from specdec_jax.drafters.constant import ConstantDrafter
from specdec_jax.drafters.neural import NeuralDrafter
from specdec_jax.models.adapters import EncoderInputs, t5_language_model, widened
from specdec_jax.models.cache import AXES, KeyValues
from specdec_jax.models.packing import packed_parts
from specdec_jax.models.t5 import T5Config
from specdec_jax.partitioning.layouts import automatic, jit_automatic
from specdec_jax.partitioning.loops import Partition
from specdec_jax.partitioning.mesh import DATA, Shape, choose_mesh
from specdec_jax.partitioning.sharding import layout_of, partitioned
from specdec_jax.sampling import row_keys
from specdec_jax.typing import Any, Callable, PyTree

EOS_ID = 1


@dataclasses.dataclass(frozen=True)
class Decode:
    """One decode's sizes, and the devices that it is compiled for.

    Attributes:
      target, drafter: the models' sizes.
      gamma, max_new_tokens: of the loop.
      devices: real ones, or those of `topology.describe`.
      batch: rows; made a multiple of the mesh's axis `data`.
      source: E, tokens of the input.
      mesh: as `load_pair` takes it.
      shard_drafter: as `load_pair` takes it.
      dtype: of weights and activations.
    """

    target: T5Config
    drafter: T5Config
    gamma: int
    max_new_tokens: int
    devices: Sequence[jax.Device]
    batch: int = 1
    source: int = 512
    mesh: str | Shape | None = "auto"
    shard_drafter: bool = False
    dtype: str = "bfloat16"

    @functools.cached_property
    def partition(self) -> Partition | None:
        mesh = choose_mesh(self.mesh, lambda: self.target, self.devices)
        return mesh and Partition(mesh)

    @functools.cached_property
    def sides(self) -> PairParams:
        """Both models, with their parameters' shapes and places."""
        padded = max(c.padded_vocab_size for c in (self.target, self.drafter))
        return PairParams(
            self._side(self.target, True, padded),
            self._side(self.drafter, self.shard_drafter, padded),
        )

    def _side(self, config: T5Config, cut: bool, padded: int) -> "Side":
        config = dataclasses.replace(config, dtype=self.dtype, packed=True)
        model, layout = t5_language_model(config), None
        if self.partition is not None:
            layout = layout_of(config, self.partition.mesh, cut)
            model = partitioned(model, layout)
        flat = {}
        for name, shape in packed_shapes(config).items():
            place = layout.parameter(name, shape) if layout else self.whole
            flat[name] = jax.ShapeDtypeStruct(shape, self.dtype, sharding=place)
        params = traverse_util.unflatten_dict(flat, sep="/")
        keys_values = layout.sharding(*AXES) if layout else self.whole
        return Side(config, widened(model, padded), params, keys_values)

    @property
    def whole(self) -> jax.sharding.Sharding:
        """Of what every device holds whole."""
        if self.partition is None:
            return SingleDeviceSharding(self.devices[0])
        return NamedSharding(self.partition.mesh, PartitionSpec())

    @property
    def dealt(self) -> jax.sharding.Sharding:
        """Of what is dealt out by rows, its first axis."""
        if self.partition is None:
            return self.whole
        return NamedSharding(self.partition.mesh, PartitionSpec(DATA))

    @functools.cached_property
    def rows(self) -> "Rows":
        """What a decode takes of each row."""
        batch = self.partition.padded(self.batch) if self.partition else self.batch
        settings = DecodeSettings(gamma=self.gamma, max_new_tokens=self.max_new_tokens)

        def make():
            tokens = jnp.zeros((batch, self.source), jnp.int32)
            return Rows(
                keys=row_keys(jax.random.key(0), jnp.arange(batch)),
                inputs=EncoderInputs(tokens, tokens == 0),
                prompt=Prompt(tokens[:, :1], tokens[:, 0] + 1),
                settings=settings.rows(batch),
            )

        return jax.tree.map(lambda x: _at(x, self.dealt), jax.eval_shape(make))

    @property
    def slots(self) -> int:
        """S of the target's cache, and of the drafter's."""
        return slots_needed(self.rows.prompt, self.max_new_tokens, self.gamma)

    def decoder(self, name: str) -> Autoregressive | Speculative:
        """Of one program: a step of either model, a verify step, or the loop."""
        target, drafter = self.sides.target.model, self.sides.drafter.model
        if name in ("target step", "draft step"):
            model = target if name == "target step" else drafter
            return Autoregressive(model, self.max_new_tokens, EOS_ID)
        free = ConstantDrafter(target.vocab_size, target.padded_vocab_size)
        return Speculative(
            target,
            free if name == "verify step" else NeuralDrafter(drafter),
            self.gamma,
            self.max_new_tokens,
            EOS_ID,
        )

    def params(self, name: str) -> Any:
        """Of that program."""
        target, drafter = self.sides.target.params, self.sides.drafter.params
        return {
            "target step": target,
            "draft step": drafter,
            "verify step": PairParams(target, {}),
        }.get(name, PairParams(target, drafter))


@dataclasses.dataclass(frozen=True)
class Side:
    """A model, where its parameters are, and where its keys and values are."""

    config: T5Config
    model: LanguageModel
    params: Any  # descriptions of arrays, in the tree of parameters
    keys_values: jax.sharding.Sharding


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["keys", "inputs", "prompt", "settings"],
    meta_fields=[],
)
@dataclasses.dataclass(frozen=True)
class Rows:
    """What a decode takes of each row."""

    keys: Any
    inputs: Any
    prompt: Any
    settings: Any


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


def state_of(decode: Decode, name: str) -> PyTree:
    """The description of a loop's state, placed as `Partition.constrain` places it."""
    decoder, rows = decode.decoder(name), decode.rows
    state = jax.eval_shape(decoder.init, decode.params(name), rows.inputs, rows.prompt)
    batch = rows.prompt.lengths.shape[0]
    sides = decode.sides
    main = sides.drafter if name == "draft step" else sides.target

    def place(tree, keys_values):
        def of(x):
            if isinstance(x, KeyValues):
                return jax.tree.map(lambda leaf: _at(leaf, keys_values), x)
            by_rows = x.ndim and x.shape[0] == batch
            return _at(x, decode.dealt if by_rows else decode.whole)

        return jax.tree.map(of, tree, is_leaf=lambda x: isinstance(x, KeyValues))

    steps_first = decode.whole
    if decode.partition is not None:
        spec = PartitionSpec(None, DATA)
        steps_first = NamedSharding(decode.partition.mesh, spec)
    infos = jax.tree.map(lambda x: _at(x, steps_first), state.infos)
    rest = state.replace(infos=None, target_cache=None, draft_state=None)
    return place(rest, decode.whole).replace(
        infos=infos,
        target_cache=place(state.target_cache, main.keys_values),
        draft_state=place(state.draft_state, sides.drafter.keys_values),
    )


def _at(x: jax.ShapeDtypeStruct, place: jax.sharding.Sharding):
    return jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=place)


def packed_shapes(config: T5Config) -> dict[str, tuple[int, ...]]:
    """The shape of every packed parameter, by its path joined by "/"."""
    shapes = parameter_shapes(config)
    return {
        name: shapes[parts[0]]
        if len(parts) == 1
        else stacked_shape(shapes[parts[0]], len(parts))
        for name, parts in packed_parts(shapes).items()
    }
