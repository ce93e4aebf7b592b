"""A target and a drafter with the tokenizer that they share."""

import dataclasses
import os
from pathlib import Path

import jax

from specdec_jax.checkpoints import native
from specdec_jax.data.tokenizer import Tokenizer
from specdec_jax.decoding.contracts import Drafter, LanguageModel
from specdec_jax.decoding.speculative import PairParams
from specdec_jax.drafters.neural import NeuralDrafter
from specdec_jax.errors import CheckpointError, PairError
from specdec_jax.models.adapters import t5_language_model
from specdec_jax.models.packing import pack
from specdec_jax.models.t5 import T5Config
from specdec_jax.typing import Params

ASSETS = Path(__file__).parent / "assets"


@dataclasses.dataclass(frozen=True)
class Pair:
    """What generation needs: both models, their parameters, and the tokenizer.

    Attributes:
      target, drafter: the functions that the loops call.
      params: the parameters of both.
      tokenizer: of both.
      name: how the pair was asked for; goes into records.
    """

    target: LanguageModel
    drafter: Drafter
    params: PairParams
    tokenizer: Tokenizer
    name: str


@dataclasses.dataclass(frozen=True)
class Model:
    """One loaded T5, ready for decoding."""

    config: T5Config
    language_model: LanguageModel
    params: Params
    tokenizer: Tokenizer


def load_model(folder: str | os.PathLike, dtype: str | None = None) -> Model:
    """Loads a model folder and packs its kernels for decoding.

    Args:
      folder: with `config.json`, `model.safetensors` and, in it or beside it,
        `spiece.model`.
      dtype: "float32", "bfloat16", or None for what the device is fast at.

    Raises:
      CheckpointError: see `checkpoints.native.load_model`; or there is no tokenizer.
    """
    folder = Path(folder)
    if dtype is None:
        dtype = "float32" if jax.default_backend() == "cpu" else "bfloat16"
    config, params = native.load_model(folder, dtype)
    config = dataclasses.replace(config, packed=True)
    tokenizer = native.find_tokenizer(folder)
    if tokenizer.vocab_size != config.vocab_size:
        raise CheckpointError(
            f"{tokenizer.path} has {tokenizer.vocab_size} pieces and "
            f"{folder / native.CONFIG_FILE} says vocab_size {config.vocab_size}"
        )
    return Model(config, t5_language_model(config), pack(params), tokenizer)


def load_pair(
    name: str | os.PathLike = "demo_ende",
    *,
    target: str | os.PathLike | None = None,
    drafter: str | os.PathLike | None = None,
    dtype: str | None = None,
) -> Pair:
    """Loads a target and a drafter.

    Args:
      name: a packaged pair ("demo_ende"), or a folder that holds `target/`, `drafter/`
        and `spiece.model`.
      target, drafter: a model folder each, in place of the pair's own.
      dtype: "float32", "bfloat16", or None for what the device is fast at.

    Raises:
      PairError: no such pair, or the two have different vocabularies.
      CheckpointError: a model cannot be loaded.
    """
    folder = _find_pair(name, needed=target is None or drafter is None)
    sides = {
        "target": Path(target) if target else folder / "target",
        "drafter": Path(drafter) if drafter else folder / "drafter",
    }
    loaded = {side: load_model(path, dtype) for side, path in sides.items()}
    first, second = loaded["target"], loaded["drafter"]
    if not first.tokenizer.same_pieces(second.tokenizer):
        raise PairError(
            f"the target ({first.tokenizer.path}, {first.tokenizer.vocab_size} "
            f"pieces) and the drafter ({second.tokenizer.path}, "
            f"{second.tokenizer.vocab_size} pieces) have different vocabularies: "
            "speculative decoding needs the same one on both sides"
        )
    if first.config.padded_vocab_size != second.config.padded_vocab_size:
        raise PairError(
            f"the target's vocabulary is padded to {first.config.padded_vocab_size} "
            f"and the drafter's to {second.config.padded_vocab_size}"
        )
    return Pair(
        target=first.language_model,
        drafter=NeuralDrafter(second.language_model),
        params=PairParams(target=first.params, drafter=second.params),
        tokenizer=first.tokenizer,
        name=str(name) if not (target and drafter) else f"{target} + {drafter}",
    )


def packaged_pairs() -> list[str]:
    """Names of the pairs that come with the package."""
    return sorted(p.name for p in ASSETS.iterdir() if _is_pair(p))


def _is_pair(folder: Path) -> bool:
    return all((folder / side).is_dir() for side in ("target", "drafter"))


def _find_pair(name: str | os.PathLike, needed: bool) -> Path:
    for folder in (ASSETS / Path(name).name, Path(name)):
        if _is_pair(folder):
            return folder
    if not needed:
        return Path(name)
    raise PairError(
        f"no pair {str(name)!r}: give one of {', '.join(packaged_pairs())}, or a "
        f"folder that holds target/, drafter/ and {native.TOKENIZER_FILE}"
    )
