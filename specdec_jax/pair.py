"""A target and a drafter with the tokenizer that they share."""

import dataclasses
import functools
import hashlib
from collections.abc import Sequence

import jax
import numpy as np

from specdec_jax.data.tokenizer import Tokenizer
from specdec_jax.decoding.contracts import Drafter, LanguageModel
from specdec_jax.decoding.speculative import PairParams
from specdec_jax.drafters.check import check_drafter
from specdec_jax.errors import PairError
from specdec_jax.models.config import ModelConfig
from specdec_jax.models.quantization import QUANTIZATIONS
from specdec_jax.partitioning.loops import Partition
from specdec_jax.typing import Any, Array, Params

# A `Drafter`, or what makes one of (vocab_size, padded_vocab_size).
DrafterLike = Any


@dataclasses.dataclass(frozen=True, repr=False)
class Pair:
    """What generation needs: both models, their parameters, and the tokenizer.

    Attributes:
      target, drafter: the functions that the loops call.
      params: the parameters of both.
      tokenizer: of both.
      name: how the pair was asked for; goes into records.
      partition: the mesh that both are on, if there is one.
      config: of the target: its sizes, and what its family is like.
      drafter_config: of the drafter; None if it has no network, or is one's own.
      checkpoints: what `load_pair` would take as target and drafter to load it again;
        None if it was not loaded.
    """

    target: LanguageModel
    drafter: Drafter
    params: PairParams
    tokenizer: Tokenizer
    config: ModelConfig
    name: str
    partition: Partition | None = None
    checkpoints: tuple[str, str] | None = None
    drafter_config: ModelConfig | None = None

    @property
    def decoder_only(self) -> bool:
        """Whether outputs go on from an input, as a GPT's; else they answer it."""
        return self.config.decoder_only

    @property
    def about(self) -> dict[str, str | None]:
        """What records say of a pair, as fields of `OfPair`."""
        return {
            "pair": self.name,
            "dtype": self.dtype,
            "weights": self.weights_sha256,
            "quantization": self.quantization,
        }

    @property
    def dtype(self) -> str:
        """Of the target's weights that are not quantized, "" if it has none."""
        return next((str(w.dtype) for w in jax.tree.leaves(self.params.target)), "")

    @property
    def quantization(self) -> str | None:
        """Of the target's weights: see `load_pair`'s `target_quantization`."""
        kinds = {str(leaf.dtype) for leaf in jax.tree.leaves(self.params.target)}
        return next((kind for kind in QUANTIZATIONS if kind in kinds), None)

    @functools.cached_property
    def weights_sha256(self) -> str:
        """Tells weights apart that are loaded from one place, as after more training.

        SHA-256, in hex, of the name, the shape and the first row of each tensor.
        """
        tensors = jax.tree.leaves_with_path(self.params)
        rows = _first_rows([tensor for _, tensor in tensors])
        digest = hashlib.sha256()
        for (path, tensor), row in zip(tensors, rows, strict=True):
            digest.update(f"{jax.tree_util.keystr(path)} {tensor.shape} ".encode())
            digest.update(np.asarray(row).tobytes())
        return digest.hexdigest()

    @property
    def vocab_size(self) -> int:
        """Ids that can be drawn: what a drafter of one's own is made with."""
        return self.target.vocab_size

    @property
    def padded_vocab_size(self) -> int:
        """V, the width of the target's logits and of a drafter's distributions."""
        return self.target.padded_vocab_size

    def with_drafter(self, drafter: DrafterLike, drafter_params: Params = ()) -> "Pair":
        """The same target with a drafter of one's own.

        Args:
          drafter: a `Drafter`; or what makes one of (vocab_size, padded_vocab_size), as
            a class derived from `RuleBasedDrafter` does.
          drafter_params: a pytree of arrays that it is handed, if it has any.

        Raises:
          PairError: it does not keep to the contract; the message says in what.
        """
        if self.partition is not None:
            drafter_params = self.partition.replicate(drafter_params)
        made = made_drafter(drafter, self.target)
        pair = dataclasses.replace(
            self,
            drafter=made,
            params=PairParams(self.params.target, drafter_params),
            name=f"{self.name} + {type(made).__name__}",
            checkpoints=None,
            drafter_config=None,
        )
        pair.check_drafter()
        return pair

    def check_drafter(self) -> None:
        """Raises PairError unless the drafter keeps to the contract."""
        inputs, prompt = self.config.batch([[2, 3, 2], [3]], self.tokenizer.special_ids)
        params = self.params
        check_drafter(
            self.drafter, params.drafter, self.target, params.target, inputs, prompt
        )

    def __repr__(self) -> str:
        """One line: the name, both sides with their sizes, the dtype and the mesh."""
        sides = (
            " ".join(
                filter(
                    None,
                    ("target", _millions(self.params.target), self.quantization),
                )
            ),
            f"{type(self.drafter).__name__} {_millions(self.params.drafter)}".rstrip(),
            *([self.dtype] if self.dtype else []),
            *([f"mesh {dict(self.partition.mesh.shape)}"] if self.partition else []),
        )
        return f"Pair({self.name!r}: {', '.join(sides)})"


def made_drafter(given: DrafterLike, target: LanguageModel) -> Any:
    """A drafter itself, or what a class or function makes of the target's sizes.

    Raises:
      PairError: it cannot make one.
    """
    if not isinstance(given, type) and hasattr(given, "propose"):
        return given
    name = getattr(given, "__name__", type(given).__name__)
    if not callable(given):
        raise PairError(
            f"{name} is no drafter: give one, or a class or function that makes one of "
            "(vocab_size, padded_vocab_size)"
        )
    try:
        return given(target.vocab_size, target.padded_vocab_size)
    except Exception as error:  # it is somebody's own code
        raise PairError(
            f"{name} cannot be made of (vocab_size, padded_vocab_size): {error}"
        ) from error


def _millions(params: Params) -> str:
    """How many parameters there are, in words; "" if there are none."""
    count = sum(leaf.size for leaf in jax.tree.leaves(params))
    return f"{count / 1e6:.1f}M" if count else ""


@jax.jit
def _first_rows(tensors: Sequence[Array]) -> list[Array]:
    return [x[(0,) * (x.ndim - 1)] if x.size else x for x in tensors]
