"""What the configuration of a network tells, of whichever family it is.

All that others must know of a family is here: loading, sharding, packing, batching and
the loops ask a configuration, and never which family it is of.
"""

import re
from collections.abc import Collection, Sequence
from typing import ClassVar

import flax.linen as nn

from specdec_jax.data.tokenizer import SpecialIds
from specdec_jax.decoding.contracts import Prompt
from specdec_jax.models.layers import ACTIVATIONS
from specdec_jax.runtime.validation import check_kinds
from specdec_jax.typing import Any, Array, PyTree

ParameterAxes = tuple[tuple[str, tuple[str, ...]], ...]

# The end of a parameter's name -> its logical axes: what all families have.
COMMON_AXES: ParameterAxes = (
    ("token_embedder/embedding", ("lookup", "embed")),
    ("attention/(query|key|value)/kernel", ("embed", "joined_kv")),
    (r"attention/\w+_and_\w+/kernel", ("embed", "joined_kv")),
    ("attention/out/kernel", ("joined_kv", "embed")),
    ("mlp/(wi|wi_0|wi_1)/kernel", ("embed", "mlp")),
    (r"mlp/\w+_and_\w+/kernel", ("embed", "mlp")),
    ("mlp/wo/kernel", ("mlp", "embed")),
    ("logits_dense/kernel", ("embed", "vocab")),
    ("norm/(scale|bias)", ("embed",)),
    # Of a product's columns: the scales of a quantized kernel, and biases.
    ("token_embedder/scale", ("lookup",)),
    ("attention/(query|key|value)/(scale|bias)", ("joined_kv",)),
    (r"attention/\w+_and_\w+/(scale|bias)", ("joined_kv",)),
    ("mlp/(wi|wi_0|wi_1)/(scale|bias)", ("mlp",)),
    (r"mlp/\w+_and_\w+/(scale|bias)", ("mlp",)),
    ("(attention/out|mlp/wo)/(scale|bias)", ("embed",)),
    ("logits_dense/scale", ("vocab",)),
)


class ModelConfig:
    """Base of the configurations: frozen dataclasses of sizes, one class a family.

    Attributes:
      family: its name in messages.
      format: what a folder of this project says that it is of.
      decoder_only: whether outputs go on from an input; else they answer it.
      sizes: the fields that a checkpoint's configuration must have in common with the
        one that is asked for.
      parameter_axes: the end of a parameter's name, and its logical axes.
      packing_groups: by a layer's name, the kernels that share an input.
      step_kernels: attention kernels, [D, N H], that a decoder layer reads in a step.
      step_sums: sums over the mesh's axis `model` that a decoder layer takes.
      vocab_size, padded_vocab_size, emb_dim, num_heads, head_dim, mlp_dim,
        mlp_activations, logits_via_embedding, dtype, lowering: fields of every family.
    """

    family: ClassVar[str]
    format: ClassVar[str]
    decoder_only: ClassVar[bool]
    sizes: ClassVar[tuple[str, ...]]
    parameter_axes: ClassVar[ParameterAxes]
    packing_groups: ClassVar[tuple[tuple[str, tuple[str, ...]], ...]]
    step_kernels: ClassVar[int]
    step_sums: ClassVar[int]

    @property
    def decoder_layers(self) -> int:
        """L, of the decoder."""
        raise NotImplementedError

    @property
    def positions(self) -> int | None:
        """Positions that the network knows; None if they do not end."""
        return None

    def network(self) -> nn.Module:
        """The Flax module. It has the methods `start_cache` and `extend`."""
        raise NotImplementedError

    def example(self) -> tuple[Array, ...]:
        """What the module is called with to draw its first parameters."""
        raise NotImplementedError

    def batch(
        self, encoded: Sequence[Sequence[int]], ids: SpecialIds
    ) -> tuple[PyTree, Prompt]:
        """Inputs and prompts of rows of ids, padded: what `start` takes, and the loop.

        Args:
          encoded: a row each.
          ids: the tokenizer's start, end and padding.
        """
        raise NotImplementedError

    def axes_of(self, name: str, rank: int) -> tuple[str, ...]:
        """The logical axes of a parameter, by its path joined by "/".

        Raises:
          ValueError: the family has no such parameter.
        """
        for ending, axes in self.parameter_axes:
            if re.search(f"(^|[/_]){ending}$", name) and len(axes) == rank:
                return axes
        raise ValueError(f"no axes are known for the parameter {name} of rank {rank}")


def check_network(config: Any, may_be_0: Collection[str] = ()) -> None:
    """Checks what the configurations of all families have in common.

    Args:
      config: of any family.
      may_be_0: the integer fields that need not be above 0.

    Raises:
      ValueError: a value is of another type, or not one that there is.
    """
    check_kinds(config, may_be_0)
    _check_activations(config.mlp_activations)
    if config.dtype not in ("float32", "bfloat16"):
        raise ValueError(
            f"dtype must be 'float32' or 'bfloat16', not {config.dtype!r}"
            + (": T5 overflows in it" if config.dtype == "float16" else "")
        )
    if config.vocab_size > config.padded_vocab_size:
        raise ValueError(
            f"vocab_size must be in 1..padded_vocab_size "
            f"({config.padded_vocab_size}), not {config.vocab_size}"
        )


def _check_activations(activations: Any) -> None:
    of_strings = isinstance(activations, Sequence) and not isinstance(activations, str)
    if (
        not of_strings
        or len(activations) not in (1, 2)
        or not all(isinstance(a, str) and a in ACTIVATIONS for a in activations)
    ):
        raise ValueError(
            "mlp_activations must be a list of one or two of "
            f"{', '.join(ACTIVATIONS)}, not {activations!r}"
        )
