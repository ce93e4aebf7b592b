"""What every checkpoint format comes down to: a configuration and tensors to read.

A format is one file that opens a folder as a `Checkpoint`. Its tensors have the names
and shapes of this project's parameters, which are those of T5X's `examples/t5`.
Checking them is the same for all formats, and is done here; reading, casting and
placing them is in `reading`.
"""

import dataclasses
from collections.abc import Mapping, Sequence

import jax
import jax.numpy as jnp
from flax import traverse_util

from specdec_jax.checkpoints.reading import Parameter, read_all
from specdec_jax.checkpoints.tensors import Piece, Tensor, interleaved
from specdec_jax.errors import CheckpointError
from specdec_jax.models.config import ModelConfig
from specdec_jax.models.layers import parts_of
from specdec_jax.models.packing import packed_parts, packed_shape
from specdec_jax.models.parameters import parameter_shapes
from specdec_jax.models.quantization import columns_axis, quantize, scale_name
from specdec_jax.models.t5 import T5Config
from specdec_jax.typing import Array, Callable, Params

Placing = Callable[[str, tuple[int, ...]], jax.sharding.Sharding]


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """An opened checkpoint.

    Attributes:
      path: for error messages.
      format: "native", "t5x" or "huggingface".
      config: the sizes. A format that does not tell how many ids its tokenizer has says
        `vocab_size = padded_vocab_size`.
      tensors: by the parameter's path, joined by "/".
      stored_name: how the format itself names a tensor, for error messages.
      special_ids: those that the folder says, with the format's own name for each:
        {"eos_id": (1, "eos_token_id")}. They must be the tokenizer's.
    """

    path: str
    format: str
    config: ModelConfig
    tensors: Mapping[str, Tensor]
    stored_name: Callable[[str], str] = lambda name: name
    special_ids: Mapping[str, tuple[int, str]] = dataclasses.field(default_factory=dict)

    def load(
        self,
        dtype: str = "float32",
        place: Placing | None = None,
        packed: int = 0,
        quantization: str | None = None,
    ) -> Params:
        """Reads all parameters; see `reading.read_all` for what the host holds.

        What is long to read shows its progress on stderr.

        Args:
          dtype: what they are cast to.
          place: the sharding of a parameter by its name and shape; only the parts that
            this process' devices hold are read. One device holds all if not given.
          packed: the m of `models.packing`: kernels that share an input are read into
            one, for so many devices. 0 leaves them apart.
          quantization: of the weights of products, which are read as float32 and
            quantized on their devices one by one; see `models.quantization`.

        Raises:
          CheckpointError: a tensor is missing, misshapen, not one of the
            configuration's, not of finite real numbers, or cannot be read.
        """
        expected = self.check()
        parts = (
            packed_parts(self.config, expected)
            if packed
            else {n: (n,) for n in expected}
        )
        wanted = []
        for name, members in parts.items():
            shape, pieces = self._pieces(members, packed)
            sharding = None if place is None else place(name, shape)
            kind, keep = jnp.dtype(dtype), None
            columns = quantization and columns_axis(self.config, name)
            if columns is not None:
                kind, keep = jnp.dtype("float32"), _quantizing(name, columns, place)
            wanted.append(Parameter(name, shape, kind, sharding, pieces, keep))
        flat = read_all(wanted, f"loading {self._short_path}")
        return traverse_util.unflatten_dict(flat, sep="/")

    def check(self) -> dict[str, tuple[int, ...]]:
        """Checks all that can be without reading a tensor.

        Returns:
          The shapes of the parameters, by name.

        Raises:
          CheckpointError: a tensor is missing, misshapen, of a type that is not one of
            weights, or not one of the configuration's.
        """
        expected = parameter_shapes(self.config)
        self._check_names(set(expected))
        self._check_tensors(expected)
        return expected

    def _check_tensors(self, expected: Mapping[str, tuple[int, ...]]) -> None:
        for name, shape in expected.items():
            tensor = self.tensors[name]
            if tensor.shape != shape:
                raise CheckpointError(
                    f"{self._named(name)} has shape {list(tensor.shape)} and the "
                    f"configuration asks for {list(shape)}"
                )
            if not jnp.issubdtype(tensor.dtype, jnp.floating):
                raise CheckpointError(
                    f"{self._named(name)} has dtype {tensor.dtype}, which is not one "
                    "of weights"
                )

    def _pieces(
        self, members: Sequence[str], packed: int
    ) -> tuple[tuple[int, ...], list[tuple[str, Piece]]]:
        """The shape of packed tensors, and their pieces with their names in errors."""
        tensors = [self.tensors[member] for member in members]
        shape = tensors[0].shape
        pieces = [tensors[0].pieces]
        if len(tensors) > 1:
            pieces = interleaved(tensors, parts_of(shape[-1], packed))
            shape = packed_shape(shape, len(tensors))
        return shape, [
            (self._named(member), piece)
            for member, own in zip(members, pieces, strict=True)
            for piece in own
        ]

    @property
    def _short_path(self) -> str:
        return "/".join(self.path.rstrip("/").split("/")[-2:])

    def _named(self, name: str) -> str:
        return f"{self.path}: tensor {self.stored_name(name)}"

    def _check_names(self, expected: set[str]) -> None:
        found = set(self.tensors)
        for what, names in (
            ("lacks tensor", expected - found),
            (
                "has a tensor that the configuration does not know:",
                found - expected,
            ),
        ):
            if names:
                more = f" and {len(names) - 1} more" if len(names) > 1 else ""
                first = self.stored_name(min(names))
                raise CheckpointError(f"{self.path} {what} {first}{more}")


def _quantizing(
    name: str, columns: int, place: Placing | None
) -> Callable[[Array], dict[str, Array]]:
    """A function of a weight, to be kept as its quantized self and its scales."""

    def keep(weight: Array) -> dict[str, Array]:
        shapes = {name: weight.shape, scale_name(name): (weight.shape[columns],)}
        places = place and tuple(place(*described) for described in shapes.items())
        placed = jax.jit(quantize, static_argnums=1, out_shardings=places)
        kept = jax.block_until_ready(placed(weight, columns))
        return dict(zip(shapes, kept, strict=True))

    return keep


def infer_config(path: str, tensors: Mapping[str, Tensor]) -> T5Config:
    """The sizes of a T5, from the names and shapes of its tensors.

    What they do not tell is as in all published ones: gates are of GELU, feed-forward
    layers without a gate of ReLU, and relative distances end at 128.

    Raises:
      CheckpointError: these are not a T5's.
    """

    def shape(name: str) -> tuple[int, ...]:
        if name not in tensors:
            raise CheckpointError(f"{path} is not of a T5: it lacks tensor {name}")
        return tensors[name].shape

    def layers(stack: str) -> int:
        start = f"{stack}/layers_"
        return len(
            {n[len(start) :].split("/")[0] for n in tensors if n.startswith(start)}
        )

    shared = "encoder/relpos_bias/rel_embedding" in tensors
    bias = shape(f"encoder/{'' if shared else 'layers_0/'}relpos_bias/rel_embedding")
    gated = "encoder/layers_0/mlp/wi_0/kernel" in tensors
    vocabulary, width = shape("token_embedder/embedding")
    return T5Config(
        vocab_size=vocabulary,
        padded_vocab_size=vocabulary,
        emb_dim=width,
        num_heads=bias[0],
        head_dim=shape("encoder/layers_0/attention/query/kernel")[1] // bias[0],
        mlp_dim=shape("encoder/layers_0/mlp/wo/kernel")[0],
        num_encoder_layers=layers("encoder"),
        num_decoder_layers=layers("decoder"),
        mlp_activations=("gelu", "linear") if gated else ("relu",),
        logits_via_embedding="decoder/logits_dense/kernel" not in tensors,
        shared_relative_bias=shared,
        relative_attention_num_buckets=bias[1],
    )
