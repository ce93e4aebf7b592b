"""Which logical axis lies on which axis of the mesh, in T5X's style, and by name.

A network's weights are sharded as in Megatron: the products into heads, feed-forward
and logits by columns, the products out of them by rows. So a layer's own arrays never
leave their device, and one sum over `model` follows each of the three products by rows
of a decoder layer.
"""

import dataclasses
import functools
from collections.abc import Mapping

import jax
from absl import logging
from jax.sharding import AbstractMesh, Mesh, NamedSharding, PartitionSpec

from specdec_jax.axes import constrain, constrained_by
from specdec_jax.decoding.contracts import LanguageModel
from specdec_jax.errors import SettingsError
from specdec_jax.models.config import ModelConfig
from specdec_jax.partitioning.mesh import DATA, MODEL, axis_size
from specdec_jax.typing import Array

# Logical axis -> axis of the mesh; None is replicated.
REPLICATED: Mapping[str, str | None] = {
    "batch": DATA,
    "rows": DATA,
    "length": None,
    "embed": None,
    "heads": None,
    "head_dim": None,
    "joined_kv": None,
    "slots": None,
    "mlp": None,
    "vocab": None,
    "lookup": None,
    "positions": None,
    "buckets": None,
}
SHARDED = {"heads": MODEL, "joined_kv": MODEL, "mlp": MODEL, "vocab": MODEL}


@dataclasses.dataclass(frozen=True)
class Layout:
    """What a mesh makes of one model's arrays.

    Attributes:
      mesh: of axes `data` and `model`.
      config: the model's, which names the axes of its parameters.
      rules: pairs of a logical axis and the axis of the mesh that it lies on, or None.
    """

    mesh: Mesh | AbstractMesh
    config: ModelConfig
    rules: tuple[tuple[str, str | None], ...]

    def sharding(
        self, names: tuple[str | None, ...], shape: tuple[int, ...]
    ) -> NamedSharding:
        """Of an array of this shape whose axes have these names.

        Where devices along `model` would all do the same, each takes some of the rows,
        if there are enough: of a network, or of an attention, that is not sharded, and
        of `rows`, what is sampled from.
        """
        rules = {None: None, **dict(self.rules)}
        spec = [rules[name] for name in names]
        all_devices = axis_size(self.mesh, DATA) * axis_size(self.mesh, MODEL)
        for axis, name in enumerate(names):
            is_alike = name == "rows" or (
                name == "batch"
                and (not self.is_sharded or ("heads" in names and not rules["heads"]))
            )
            if is_alike and shape[axis] % all_devices == 0:
                spec[axis] = (DATA, MODEL)
        return NamedSharding(self.mesh, PartitionSpec(*spec))

    @property
    def is_sharded(self) -> bool:
        """Whether anything of the network lies on the mesh's axis `model`."""
        return any(axis == MODEL for _, axis in self.rules)

    def constrain(self, x: Array, names: tuple[str | None, ...]) -> Array:
        """For `axes.constrained_by`."""
        return jax.lax.with_sharding_constraint(x, self.sharding(names, x.shape))

    def parameter(self, name: str, shape: tuple[int, ...]) -> NamedSharding:
        """Of a parameter, packed or not; what `Checkpoint.load` takes as `place`."""
        return self.sharding(self.config.axes_of(name, len(shape)), shape)


def layout_of(
    config: ModelConfig, mesh: Mesh | AbstractMesh, sharded: bool = True
) -> Layout:
    """The layout of a network on a mesh.

    What `model` does not divide is replicated: 6 heads on 4 devices
    leave attention replicated, and the feed-forward and the logits sharded.

    Args:
      config: the sizes.
      mesh: the devices.
      sharded: False for a network that every device along `model` holds, and runs
        without a word to the others.

    Raises:
      SettingsError: `model` divides none of the sizes, so it would not help at all.
    """
    rules = dict(REPLICATED)
    if sharded:
        rules |= SHARDED
        if config.logits_via_embedding:  # the lookup is also the logits' kernel
            rules["lookup"] = MODEL
        _leave_whole(rules, config, axis_size(mesh, MODEL))
    return Layout(mesh, config, tuple(rules.items()))


def _leave_whole(rules: dict[str, str | None], config: ModelConfig, parts: int) -> None:
    """Takes back the rules of sizes that cannot be split into so many parts."""
    sizes = {
        ("heads", "joined_kv"): ("num_heads", config.num_heads),
        ("mlp",): ("mlp_dim", config.mlp_dim),
        ("vocab", "lookup"): ("padded_vocab_size", config.padded_vocab_size),
    }
    odd = {axes: named for axes, named in sizes.items() if named[1] % parts}
    words = ", ".join(f"{name} {size}" for name, size in odd.values())
    if len(odd) == len(sizes):
        raise SettingsError(
            f"{parts} devices on the mesh's model axis divide none of {words}: choose "
            "another mesh"
        )
    if odd:
        _warn(f"{parts} devices on the model axis do not divide {words}")
    for axes in odd:
        rules.update(dict.fromkeys(axes))


@functools.cache
def _warn(what: str) -> None:
    """Once a process."""
    logging.warning("%s: it is replicated", what)


@functools.cache
def partitioned(model: LanguageModel, layout: Layout) -> LanguageModel:
    """The same model on a mesh. A row's logits and features are whole on one device.

    Sampling needs whole distributions: one exchange of logits is cheaper than the many
    small sums that a softmax, a draw and a verification over parts would take. Rows are
    spread over all devices, along `model` too, if there are enough of them; else each
    device along `model` samples all of its rows.
    """

    def start(params, inputs, slots):
        with constrained_by(layout.constrain):
            return model.start(params, inputs, slots)

    def extend(params, cache, tokens, lengths, taps=()):
        with constrained_by(layout.constrain):
            logits, features, cache = model.extend(params, cache, tokens, lengths, taps)
            logits = constrain(logits, "rows", None, None)
            if features is not None:
                features = constrain(features, "rows", None, None, None)
            return logits, features, cache

    return dataclasses.replace(model, start=start, extend=extend)
