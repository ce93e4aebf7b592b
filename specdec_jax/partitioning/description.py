"""A decode described by shapes and shardings: weights, rows and state, on no device.

What a program is compiled for, and what a step has to read, follow from it.
"""

import dataclasses
import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from flax import traverse_util
from jax.sharding import NamedSharding, PartitionSpec, SingleDeviceSharding

from specdec_jax.data.tokenizer import T5_IDS
from specdec_jax.decoding.autoregressive import Autoregressive
from specdec_jax.decoding.contracts import LanguageModel
from specdec_jax.decoding.loop import slots_needed
from specdec_jax.decoding.settings import DecodeSettings
from specdec_jax.decoding.speculative import PairParams, Speculative
from specdec_jax.drafters.constant import ConstantDrafter
from specdec_jax.drafters.neural import NeuralDrafter
from specdec_jax.models.adapters import language_model, widened
from specdec_jax.models.cache import AXES, KeyValues
from specdec_jax.models.config import ModelConfig
from specdec_jax.models.parameters import loaded_parameters
from specdec_jax.partitioning.loops import Partition
from specdec_jax.partitioning.mesh import (
    DATA,
    Shape,
    choose_mesh,
    is_drafter_sharded,
    lowering_on,
)
from specdec_jax.partitioning.sharding import Layout, layout_of, partitioned
from specdec_jax.sampling import Rule, TokenRule, row_keys
from specdec_jax.sampling.keys import seed_key
from specdec_jax.typing import Any, Callable, PyTree


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
      target_quantization: of the target's weights, as `load_pair` takes it.
      rule: how draft tokens are verified.
    """

    target: ModelConfig
    drafter: ModelConfig
    gamma: int
    max_new_tokens: int
    devices: Sequence[jax.Device]
    batch: int = 1
    source: int = 512
    mesh: str | Shape | None = "auto"
    shard_drafter: bool | None = None
    dtype: str = "bfloat16"
    target_quantization: str | None = None
    rule: Rule = TokenRule()

    @functools.cached_property
    def partition(self) -> Partition | None:
        mesh = choose_mesh(self.mesh, lambda: self.target, self.devices)
        return mesh and Partition(mesh)

    @property
    def is_drafter_sharded(self) -> bool:
        """Over the mesh's axis `model`."""
        mesh = self.partition and self.partition.mesh
        return is_drafter_sharded(self.shard_drafter, self.drafter, mesh)

    @functools.cached_property
    def sides(self) -> PairParams:
        """Both models, with their parameters' shapes and places."""
        padded = max(c.padded_vocab_size for c in (self.target, self.drafter))
        return PairParams(
            self._side(self.target, True, padded, self.target_quantization),
            self._side(self.drafter, self.is_drafter_sharded, padded),
        )

    def _side(
        self,
        config: ModelConfig,
        sharded: bool,
        padded: int,
        quantization: str | None = None,
    ) -> "Side":
        mesh = self.partition and self.partition.mesh
        lowering = lowering_on(mesh, sharded, self.devices)
        config = dataclasses.replace(config, dtype=self.dtype, lowering=lowering)
        model, layout = language_model(config), None
        if self.partition is not None:
            layout = layout_of(config, self.partition.mesh, sharded)
            model = partitioned(model, layout)
        flat = {
            name: _at(x, layout.parameter(name, x.shape) if layout else self.replicated)
            for name, x in loaded_parameters(config, quantization).items()
        }
        params = traverse_util.unflatten_dict(flat, sep="/")

        def keys_values(shape):
            return layout.sharding(AXES, shape) if layout else self.replicated

        model = widened(model, padded)
        return Side(config, model, params, keys_values, layout, quantization)

    @property
    def replicated(self) -> jax.sharding.Sharding:
        """Of what every device holds."""
        if self.partition is None:
            return SingleDeviceSharding(self.devices[0])
        return NamedSharding(self.partition.mesh, PartitionSpec())

    @property
    def by_rows(self) -> jax.sharding.Sharding:
        """Of what is sharded by rows, its first axis."""
        if self.partition is None:
            return self.replicated
        return NamedSharding(self.partition.mesh, PartitionSpec(DATA))

    @functools.cached_property
    def rows(self) -> "Rows":
        """What a decode takes of each row."""
        batch = self.partition.padded(self.batch) if self.partition else self.batch
        settings = DecodeSettings(gamma=self.gamma, max_new_tokens=self.max_new_tokens)

        def make():
            rows = [[T5_IDS.pad_id] * self.source] * batch
            inputs, prompt = self.target.batch(rows, T5_IDS)
            return Rows(
                keys=row_keys(seed_key(0), jnp.arange(batch)),
                inputs=inputs,
                prompt=prompt,
                settings=settings.rows(batch),
            )

        return jax.tree.map(lambda x: _at(x, self.by_rows), jax.eval_shape(make))

    @property
    def slots(self) -> int:
        """S of the target's cache, and of the drafter's."""
        return slots_needed(self.rows.prompt, self.max_new_tokens, self.gamma)

    def decoder(self, name: str) -> Autoregressive | Speculative:
        """Of one program: a step of either model, a verify step, or the loop."""
        target, drafter = self.sides.target.model, self.sides.drafter.model
        if name in ("target step", "draft step"):
            model = target if name == "target step" else drafter
            return Autoregressive(model, self.max_new_tokens, T5_IDS.eos_id)
        free = ConstantDrafter(target.vocab_size, target.padded_vocab_size)
        return Speculative(
            target,
            free if name == "verify step" else NeuralDrafter(drafter),
            self.gamma,
            self.max_new_tokens,
            T5_IDS.eos_id,
            self.rule,
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

    config: ModelConfig
    model: LanguageModel
    params: Any  # descriptions of arrays, in the tree of parameters
    keys_values: Callable[[tuple[int, ...]], jax.sharding.Sharding]  # by shape
    layout: Layout | None  # of a mesh
    quantization: str | None = None  # of its weights


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
                return jax.tree.map(lambda leaf: _at(leaf, keys_values(leaf.shape)), x)
            by_rows = x.ndim and x.shape[0] == batch
            return _at(x, decode.by_rows if by_rows else decode.replicated)

        return jax.tree.map(of, tree, is_leaf=lambda x: isinstance(x, KeyValues))

    steps_first = decode.replicated
    if decode.partition is not None:
        spec = PartitionSpec(None, DATA)
        steps_first = NamedSharding(decode.partition.mesh, spec)
    infos = jax.tree.map(lambda x: _at(x, steps_first), state.infos)
    rest = state.replace(infos=None, target_cache=None, draft_state=None)
    return place(rest, None).replace(
        infos=infos,
        target_cache=place(state.target_cache, main.keys_values),
        draft_state=place(state.draft_state, sides.drafter.keys_values),
    )


def _at(x: jax.ShapeDtypeStruct, place: jax.sharding.Sharding):
    return jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=place)
