"""A target and a drafter with the tokenizer that they share."""

import dataclasses
import functools
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from specdec_jax.checkpoints import ngram_file as ngram
from specdec_jax.checkpoints.formats import find_tokenizer, open_checkpoint
from specdec_jax.data.tokenizer import TOKENIZER_FILE, Tokenizer
from specdec_jax.decoding.contracts import Drafter, LanguageModel
from specdec_jax.decoding.speculative import PairParams
from specdec_jax.drafters.neural import NeuralDrafter
from specdec_jax.drafters.ngram import NGramDrafter
from specdec_jax.drafters.prompt_lookup import PromptLookupDrafter
from specdec_jax.drafters.repeat_last import RepeatLastDrafter
from specdec_jax.drafters.uniform import UniformDrafter
from specdec_jax.errors import CheckpointError, PairError, SettingsError
from specdec_jax.models.adapters import language_model, source_tokens, widened
from specdec_jax.models.families import ModelConfig, family
from specdec_jax.models.gpt import GPTConfig
from specdec_jax.partitioning.loops import Partition
from specdec_jax.partitioning.mesh import choose_mesh
from specdec_jax.partitioning.sharding import layout_of, partitioned
from specdec_jax.typing import Array, Params

ASSETS = Path(__file__).parent / "assets"
DTYPES = ("float32", "bfloat16")
NGRAM = "ngram:"  # before the file's path
# Drafters without a network or a file: they need nothing but the vocabulary.
BY_RULE = {
    "prompt_lookup": PromptLookupDrafter,
    "repeat_last": RepeatLastDrafter,
    "uniform": UniformDrafter,
}


@dataclasses.dataclass(frozen=True)
class Pair:
    """What generation needs: both models, their parameters, and the tokenizer.

    Attributes:
      target, drafter: the functions that the loops call.
      params: the parameters of both.
      tokenizer: of both.
      name: how the pair was asked for; goes into records.
      partition: the mesh that both are on, if there is one.
      decoder_only: whether outputs go on from a text, as a GPT's; else they answer it,
        as a T5's.
      checkpoints: what `load_pair` would take as target and drafter to load it again;
        None if it was not loaded.
    """

    target: LanguageModel
    drafter: Drafter
    params: PairParams
    tokenizer: Tokenizer
    name: str
    partition: Partition | None = None
    decoder_only: bool = False
    checkpoints: tuple[str, str] | None = None

    @property
    def about(self) -> dict[str, str]:
        """What records say of a pair: its name, its target's dtype, and its weights."""
        return {"pair": self.name, "dtype": self.dtype, "weights": self.weights_sha256}

    @property
    def dtype(self) -> str:
        """Of the target's weights, "" if it has none."""
        return next((str(w.dtype) for w in jax.tree.leaves(self.params.target)), "")

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


@dataclasses.dataclass(frozen=True)
class Model:
    """One loaded network, ready for decoding."""

    config: ModelConfig
    language_model: LanguageModel
    params: Params
    tokenizer: Tokenizer

    @property
    def decoder_only(self) -> bool:
        """Whether it has no encoder."""
        return isinstance(self.config, GPTConfig)


def load_model(
    path: str | os.PathLike,
    dtype: str | None = None,
    tokenizer: str | os.PathLike | None = None,
    config: ModelConfig | None = None,
    mesh: Mesh | None = None,
    cut: bool = True,
) -> Model:
    """Loads a checkpoint and packs its kernels for decoding.

    Args:
      path: a folder of this project or of Hugging Face, or a step folder of T5X (local
        or gs://).
      dtype: "float32", "bfloat16", or None for what the device is fast at.
      tokenizer: a SentencePiece model (local or gs://), if it is not in the folder, or
        beside it, as `spiece.model`.
      config: the sizes that it must have; what the folder says if not given.
      mesh: the devices to put it on; a process reads only what its devices hold. One
        device if not given.
      cut: whether its weights are cut over the mesh's axis `model`, or whole on each.

    Raises:
      CheckpointError: no known format, a tensor is wrong, or there is no tokenizer that
        fits; the message names it.
      SettingsError: there is no such dtype, or it cannot be cut over this mesh.
    """
    if dtype is None:
        dtype = "float32" if jax.default_backend() == "cpu" else "bfloat16"
    if dtype not in DTYPES:
        why = ": T5 overflows in it" if dtype == "float16" else ""
        raise SettingsError(f"dtype must be one of {DTYPES}, not {dtype!r}{why}")
    checkpoint = open_checkpoint(path, config)
    loaded = find_tokenizer(checkpoint, path, tokenizer)
    sizes = dataclasses.replace(
        checkpoint.config, vocab_size=loaded.vocab_size, dtype=dtype, packed=True
    )
    model = language_model(sizes)
    if mesh is None:
        return Model(sizes, model, checkpoint.load(dtype, packed=True), loaded)
    layout = layout_of(sizes, mesh, cut)
    params = checkpoint.load(dtype, layout.parameter, packed=True)
    return Model(sizes, partitioned(model, layout), params, loaded)


def load_pair(
    name: str | os.PathLike = "demo_ende",
    *,
    target: str | os.PathLike | None = None,
    drafter: str | os.PathLike | None = None,
    tokenizer: str | os.PathLike | None = None,
    target_config: ModelConfig | None = None,
    drafter_config: ModelConfig | None = None,
    dtype: str | None = None,
    mesh: str | tuple[int, int] | None = "auto",
    shard_drafter: bool = False,
) -> Pair:
    """Loads a target and a drafter.

    Args:
      name: a packaged pair ("demo_ende"), or a folder that holds `target/`, `drafter/`
        and `spiece.model`.
      target, drafter: a checkpoint each, in place of the pair's own: a folder of this
        project or of Hugging Face, or a step folder of T5X. Or a drafter without a
        network: "prompt_lookup", "repeat_last", "uniform", or "ngram:FILE" with what
        `scripts/fit_ngram.py` wrote. (A folder of such a name is "./prompt_lookup".)
      tokenizer, target_config, drafter_config, dtype: as in `load_model`. A drafter
        without a network has the target's tokenizer and no configuration.
      mesh: (data, model), how many devices rows are dealt out over, and how many the
        target is cut over; "auto" is worked out from the devices and the target's
        sizes, and None is one device.
      shard_drafter: whether the drafter is cut as the target is. It is small, and whole
        on every device it runs without waiting for the others.

    Raises:
      PairError: no such pair or drafter, or the two have different vocabularies, or
        only one of them is decoder-only.
      CheckpointError: a model cannot be loaded.
      SettingsError: there is no such mesh, or a model cannot be cut over it.
    """
    folder = _find_pair(name, needed=target is None or drafter is None)
    sides = {
        "target": target or folder / "target",
        "drafter": drafter or folder / "drafter",
    }
    name = f"{target or name} + {drafter or name}" if target or drafter else str(name)
    checkpoints = os.fspath(sides["target"]), os.fspath(sides["drafter"])
    devices = choose_mesh(
        mesh, lambda: open_checkpoint(sides["target"], target_config).config
    )
    partition = devices and Partition(devices)
    first = load_model(sides["target"], dtype, tokenizer, target_config, devices)
    without_network = _drafter_without_network(drafter, first)
    if without_network is not None:
        made, params = without_network
        if devices is not None:
            params = jax.device_put(params, NamedSharding(devices, PartitionSpec()))
        return Pair(
            target=first.language_model,
            drafter=made,
            params=PairParams(target=first.params, drafter=params),
            tokenizer=first.tokenizer,
            name=name,
            partition=partition,
            decoder_only=first.decoder_only,
            checkpoints=checkpoints,
        )
    try:
        second = load_model(
            sides["drafter"], dtype, tokenizer, drafter_config, devices, shard_drafter
        )
    except CheckpointError as error:
        if drafter is None or _may_be_a_folder(drafter):
            raise
        raise PairError(
            f"no drafter {str(drafter)!r}: give a checkpoint's folder, {NGRAM}FILE, or "
            f"one of {', '.join(BY_RULE)}"
        ) from error
    if (
        not first.tokenizer.same_pieces(second.tokenizer)
        or first.tokenizer.vocab_size != second.tokenizer.vocab_size
    ):
        raise PairError(
            f"the target ({first.tokenizer.path}, {first.tokenizer.vocab_size} "
            f"ids) and the drafter ({second.tokenizer.path}, "
            f"{second.tokenizer.vocab_size}) have different vocabularies: "
            "speculative decoding needs the same one on both sides"
        )
    if first.decoder_only != second.decoder_only:
        kinds = [f"a {family(side.config)}" for side in (first, second)]
        raise PairError(
            f"the target is {kinds[0]} and the drafter {kinds[1]}: one goes on from a "
            "text and the other answers it, so that they cannot work together"
        )
    padded = max(m.config.padded_vocab_size for m in (first, second))
    return Pair(
        target=widened(first.language_model, padded),
        drafter=NeuralDrafter(widened(second.language_model, padded)),
        params=PairParams(target=first.params, drafter=second.params),
        tokenizer=first.tokenizer,
        name=name,
        partition=partition,
        decoder_only=first.decoder_only,
        checkpoints=checkpoints,
    )


def packaged_pairs() -> list[str]:
    """Names of the pairs that come with the package."""
    return sorted(p.name for p in ASSETS.iterdir() if _is_pair(p))


def is_without_network(drafter: str | os.PathLike) -> bool:
    """Whether `load_pair` takes this drafter for one that is no network."""
    named_file = isinstance(drafter, str) and drafter.startswith(NGRAM)
    return drafter in BY_RULE or named_file


def _drafter_without_network(
    name: str | os.PathLike | None, target: Model
) -> tuple[Drafter, Params] | None:
    """The drafter of that name and its parameters; None if it is none of these."""
    if name is None or not is_without_network(name):
        return None
    model = target.language_model
    sizes = model.vocab_size, model.padded_vocab_size
    if name == "prompt_lookup" and not target.decoder_only:
        return PromptLookupDrafter(*sizes, source=source_tokens), {}
    if name in BY_RULE:
        return BY_RULE[name](*sizes), {}
    params = ngram.load(name.removeprefix(NGRAM), target.tokenizer)
    return NGramDrafter(*sizes), params


@jax.jit
def _first_rows(tensors: Sequence[Array]) -> list[Array]:
    return [x[(0,) * (x.ndim - 1)] if x.size else x for x in tensors]


def _may_be_a_folder(path: str | os.PathLike) -> bool:
    return os.fspath(path).startswith("gs://") or Path(path).is_dir()


def _is_pair(folder: Path) -> bool:
    return all((folder / side).is_dir() for side in ("target", "drafter"))


def _find_pair(name: str | os.PathLike, needed: bool) -> Path:
    is_path = Path(name).name != os.fspath(name)
    for folder in [Path(name)] if is_path else [ASSETS / name, Path(name)]:
        if _is_pair(folder):
            return folder
    if not needed:
        return Path(name)
    raise PairError(
        f"no pair {str(name)!r}: give one of {', '.join(packaged_pairs())}, or a "
        f"folder that holds target/, drafter/ and {TOKENIZER_FILE}"
    )
