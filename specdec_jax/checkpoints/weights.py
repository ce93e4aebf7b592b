"""What every checkpoint format comes down to: a configuration and tensors to read.

A format is one file that opens a folder as a `Checkpoint`. Its tensors have the names
and shapes of this project's parameters, which are those of T5X's `examples/t5`.
Reading, checking, casting and placing them is the same for all formats, and is done
here, one tensor after the other.
"""

import dataclasses
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np
from flax import traverse_util

from specdec_jax.errors import CheckpointError
from specdec_jax.models.config import ModelConfig
from specdec_jax.models.layers import parts_of
from specdec_jax.models.packing import packed_parts, packed_shape
from specdec_jax.models.parameters import parameter_shapes
from specdec_jax.models.t5 import T5Config
from specdec_jax.typing import Callable, Params

BLOCK_BYTES = 64 * 2**20  # of a tensor, read at a time

Index = tuple[slice, ...]
Placing = Callable[[str, tuple[int, ...]], jax.sharding.Sharding]


@dataclasses.dataclass(frozen=True)
class Tensor:
    """A tensor on disk, not read yet.

    Attributes:
      shape, dtype: as it will be read.
      read: the part at an index of slices, one for each axis.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    read: Callable[[Index], np.ndarray]


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
    ) -> Params:
        """Reads all parameters, one after the other.

        Besides the result the host holds the parameter that is being read, as it will
        be, and a block of it, as it is on disk.

        Args:
          dtype: what they are cast to.
          place: the sharding of a parameter by its name and shape; only the parts that
            this process' devices hold are read. One device holds all if not given.
          packed: the m of `models.packing`: kernels that share an input are read into
            one, for so many devices. 0 leaves them apart.

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
        flat = {}
        for name, members in parts.items():
            tensor = _packed([self._named_in_errors(m) for m in members], packed)
            flat[name] = _read(name, tensor, jnp.dtype(dtype), place)
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

    def _named_in_errors(self, name: str) -> Tensor:
        """A tensor that says what it is when it cannot be read."""
        tensor = self.tensors[name]

        def read(index: Index) -> np.ndarray:
            try:
                part = tensor.read(index)
            except CheckpointError:
                raise
            except Exception as error:  # every library has its own
                raise CheckpointError(
                    f"{self._named(name)} cannot be read: {one_line(error)}"
                ) from error
            if not _all_finite(part):
                raise CheckpointError(f"{self._named(name)} holds NaN or infinity")
            return part

        return dataclasses.replace(tensor, read=read)

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


def _all_finite(part: np.ndarray) -> bool:
    # A sum is cheap and shows every NaN and infinity; it may also overflow alone.
    with np.errstate(all="ignore"):
        total = np.sum(part, dtype=np.float32)
    return bool(np.isfinite(total) or np.isfinite(part).all())


def _packed(tensors: list[Tensor], packed: int) -> Tensor:
    """Kernels [D, F] as one [D, G * F], as `models.packing` has them; one as it is."""
    if len(tensors) == 1:
        return tensors[0]
    shape = packed_shape(tensors[0].shape, len(tensors))
    width = tensors[0].shape[-1] // parts_of(tensors[0].shape[-1], packed)

    def read(index: Index) -> np.ndarray:
        *before, columns = index
        start, stop, _ = columns.indices(shape[-1])
        pieces = []
        while start < stop:
            piece, offset = divmod(start, width)
            part, member = divmod(piece, len(tensors))
            end = min(stop, start - offset + width)
            first = part * width + offset
            own = slice(first, first + end - start)
            pieces.append(tensors[member].read((*before, own)))
            start = end
        return np.concatenate(pieces, axis=-1)

    widest = max((tensor.dtype for tensor in tensors), key=lambda d: d.itemsize)
    return Tensor(shape, widest, read)


def _read(name, tensor, dtype, place) -> jax.Array:
    def part(index: Index) -> np.ndarray:
        return _read_in_blocks(tensor, index, dtype)

    if place is None:
        return jnp.asarray(part((slice(None),) * len(tensor.shape)))
    return jax.make_array_from_callback(tensor.shape, place(name, tensor.shape), part)


def _read_in_blocks(tensor: Tensor, index: Index, dtype: np.dtype) -> np.ndarray:
    """A part of a tensor, cast block by block, so that it is never held twice."""
    ranges = [range(*i.indices(n)) for i, n in zip(index, tensor.shape, strict=True)]
    part = np.empty([len(r) for r in ranges], dtype)
    if part.ndim == 0:
        return tensor.read(index).astype(dtype)
    rows = max(1, BLOCK_BYTES // max(1, part[:1].size * tensor.dtype.itemsize))
    for start in range(0, len(part), rows):
        stop = min(start + rows, len(part))
        first = ranges[0].start
        block = slice(first + start, first + stop)
        part[start:stop] = tensor.read((block, *index[1:]))
    return part


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


def one_line(error: BaseException) -> str:
    """An error's message without its line breaks."""
    return " ".join(str(error).split())
