"""The loops under a mesh: the same decoders, their rows sharded over `data`."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AbstractMesh, Mesh, NamedSharding, PartitionSpec

from specdec_jax.axes import constrained_by
from specdec_jax.decoding import loop
from specdec_jax.decoding.autoregressive import Autoregressive
from specdec_jax.decoding.contracts import Prompt
from specdec_jax.decoding.speculative import Speculative
from specdec_jax.decoding.state import LoopState, RowSettings
from specdec_jax.models.cache import KeyValues
from specdec_jax.partitioning.mesh import DATA, axis_size
from specdec_jax.typing import Array, Key, Params, PyTree


@dataclasses.dataclass(frozen=True)
class Partition:
    """Where the rows of a decode go.

    Attributes:
      mesh: of axes `data` and `model`.
    """

    mesh: Mesh | AbstractMesh  # the second for descriptions without devices

    def padded(self, batch: int) -> int:
        """Rows of a batch once it can be sharded: a multiple of the axis `data`."""
        data = axis_size(self.mesh, DATA)
        return -(-batch // data) * data

    def deal(
        self,
        keys: Key[Array, " B"],
        inputs: PyTree,
        prompt: Prompt,
        rows: RowSettings,
    ) -> tuple[Key[Array, " B"], PyTree, Prompt, RowSettings]:
        """What a decode takes of each row, onto the devices.

        Rows that are missing for a multiple of `data` repeat the last one, and end at
        their first token.
        """
        batch = prompt.lengths.shape[0]
        row = np.minimum(np.arange(self.padded(batch)), batch - 1)
        everything = (keys, inputs, prompt, rows)
        if len(row) > batch:
            keys, inputs, prompt, rows = jax.tree.map(lambda x: x[row], everything)
            is_real = np.arange(len(row)) < batch
            caps = jnp.where(is_real, rows.max_new_tokens, 1)
            rows = rows.replace(max_new_tokens=caps)
            everything = (keys, inputs, prompt, rows)
        return jax.device_put(everything, NamedSharding(self.mesh, PartitionSpec(DATA)))

    def replicate(self, tree: PyTree) -> PyTree:
        """The whole of every array on every device."""
        return jax.device_put(tree, NamedSharding(self.mesh, PartitionSpec()))

    def decoder(self, decoder: Autoregressive | Speculative) -> "PartitionedDecoder":
        """The decoder under this mesh. Its models must be `rules.partitioned`."""
        return PartitionedDecoder(decoder, self)

    def constrain(self, state: LoopState) -> LoopState:
        """A loop's state, each row where it belongs.

        Caches of keys and values are sharded by the models that made them. Of the rest,
        arrays whose first axis is the batch are sharded by rows, other ones replicated.
        """
        batch = state.lengths.shape[0]

        def of_rows(x):
            if isinstance(x, KeyValues):
                return x
            return self._cut(x, 0 if x.ndim and x.shape[0] == batch else None)

        infos = jax.tree.map(lambda x: self._cut(x, 1), state.infos)  # steps come first
        state = jax.tree.map(
            of_rows,
            state.replace(infos=None),
            is_leaf=lambda x: isinstance(x, KeyValues),
        )
        return state.replace(infos=infos)

    def constrain_rows(self, x: Array, names: tuple[str | None, ...]) -> Array:
        """For `axes.constrained_by`, in a loop's own arrays."""
        return self._cut(x, names.index("batch"))

    def _cut(self, x: Array, axis: int | None) -> Array:
        names = [DATA if i == axis else None for i in range(x.ndim)]
        return jax.lax.with_sharding_constraint(
            x, NamedSharding(self.mesh, PartitionSpec(*names))
        )


@dataclasses.dataclass(frozen=True)
class PartitionedDecoder:
    """A decoder whose loop state keeps its place on a mesh from step to step.

    `decoding.compiled` jits it like any other. Its arguments come placed: parameters as
    their layout says, and rows by `Partition.deal`.
    """

    decoder: Autoregressive | Speculative
    partition: Partition

    def init(self, params: Params, inputs: PyTree, prompt: Prompt) -> LoopState:
        """Encodes and prefills."""
        batch = prompt.lengths.shape[0]
        if self.partition.padded(batch) != batch:
            raise ValueError(
                f"{batch} rows cannot be sharded over the mesh "
                f"{dict(self.partition.mesh.shape)}: pad them with `Partition.deal`"
            )
        return self.partition.constrain(self.decoder.init(params, inputs, prompt))

    def run(
        self,
        keys: Key[Array, " B"],
        state: LoopState,
        params: Params,
        rows: RowSettings,
    ) -> LoopState:
        """Steps until every row is finished."""

        def step(state):
            with constrained_by(self.partition.constrain_rows):
                state, info = self.decoder.step(keys, state, params, rows)
            return self.partition.constrain(state), info

        return self.partition.constrain(loop.repeat(step, state))
