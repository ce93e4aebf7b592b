"""Loads pairs: opens both sides, compares them, and only then reads their weights."""

import dataclasses
import os
from pathlib import Path

import jax
from jax.sharding import Mesh

from specdec_jax.checkpoints import ngram_file
from specdec_jax.checkpoints.formats import find_tokenizer, open_checkpoint
from specdec_jax.checkpoints.weights import Checkpoint
from specdec_jax.data.tokenizer import TOKENIZER_FILE, Tokenizer
from specdec_jax.decoding.contracts import Drafter, LanguageModel
from specdec_jax.decoding.speculative import PairParams
from specdec_jax.drafters.neural import NeuralDrafter
from specdec_jax.drafters.ngram import NGramDrafter
from specdec_jax.drafters.prompt_lookup import PromptLookupDrafter
from specdec_jax.drafters.repeat_last import RepeatLastDrafter
from specdec_jax.drafters.uniform import UniformDrafter
from specdec_jax.errors import CheckpointError, PairError, SettingsError
from specdec_jax.models.adapters import language_model, widened
from specdec_jax.models.config import ModelConfig
from specdec_jax.models.inputs import source_tokens
from specdec_jax.models.quantization import check_quantization
from specdec_jax.pair import DrafterLike, Pair, made_drafter
from specdec_jax.partitioning.loops import Partition
from specdec_jax.partitioning.mesh import choose_mesh, is_drafter_sharded, lowering_on
from specdec_jax.partitioning.sharding import layout_of, partitioned
from specdec_jax.typing import Params

ASSETS = Path(__file__).parent / "assets"
DTYPES = ("float32", "bfloat16")
NGRAM = "ngram:"  # before the file's path
# Drafters without a network or a file: they need nothing but the vocabulary.
RULE_BASED = {
    "prompt_lookup": PromptLookupDrafter,
    "repeat_last": RepeatLastDrafter,
    "uniform": UniformDrafter,
}


@dataclasses.dataclass(frozen=True)
class Model:
    """One loaded network, ready for decoding."""

    config: ModelConfig
    language_model: LanguageModel
    params: Params
    tokenizer: Tokenizer


@dataclasses.dataclass(frozen=True)
class OpenModel:
    """A checkpoint that is open and found good, of which no weight is read yet.

    Attributes:
      checkpoint: its tensors.
      tokenizer: that fits it.
      config: its sizes, as it will be run.
      quantization: of its weights, as in `open_model`.
    """

    checkpoint: Checkpoint
    tokenizer: Tokenizer
    config: ModelConfig
    quantization: str | None = None

    def read(self, mesh: Mesh | None = None, sharded: bool = True) -> Model:
        """Reads the weights, each device its own part, and packs the kernels.

        Args:
          mesh: the devices to put them on; one device if not given.
          sharded: over the mesh's axis `model`; else replicated.
        """
        lowering = lowering_on(mesh, sharded)
        config = dataclasses.replace(self.config, lowering=lowering)
        model, place = language_model(config), None
        if mesh is not None:
            layout = layout_of(config, mesh, sharded)
            model, place = partitioned(model, layout), layout.parameter
        params = self.checkpoint.load(
            config.dtype, place, lowering.packed, self.quantization
        )
        return Model(config, model, params, self.tokenizer)


def open_model(
    path: str | os.PathLike,
    dtype: str | None = None,
    tokenizer: str | os.PathLike | None = None,
    config: ModelConfig | None = None,
    quantization: str | None = None,
) -> OpenModel:
    """Opens a checkpoint, and checks all that can be without its weights.

    Args:
      path: a folder of this project or of Hugging Face, or a step folder of T5X (local
        or gs://).
      dtype: "float32", "bfloat16", or None for what the device is fast at.
      tokenizer: a SentencePiece model (local or gs://), if it is not in the folder, or
        beside it, as `spiece.model`.
      config: the sizes that it must have; what the folder says if not given.
      quantization: "int8" keeps the weights of products as `models.quantization` has
        it, a byte each; None keeps them as `dtype` says.

    Raises:
      CheckpointError: no known format, a tensor is missing or misshapen, or there is no
        tokenizer that fits; the message names it.
      SettingsError: there is no such dtype, or no such quantization.
    """
    check_quantization(quantization)
    if dtype is None:
        dtype = "float32" if jax.default_backend() == "cpu" else "bfloat16"
    if dtype not in DTYPES:
        why = ": T5 overflows in it" if dtype == "float16" else ""
        raise SettingsError(f"dtype must be one of {DTYPES}, not {dtype!r}{why}")
    path = os.path.expanduser(path)
    checkpoint = open_checkpoint(path, config)
    found = find_tokenizer(
        checkpoint, path, tokenizer and os.path.expanduser(tokenizer)
    )
    checkpoint.check()
    sizes = dataclasses.replace(
        checkpoint.config, vocab_size=found.vocab_size, dtype=dtype
    )
    return OpenModel(checkpoint, found, sizes, quantization)


def load_pair(
    name: str | os.PathLike = "demo_ende",
    *,
    target: str | os.PathLike | None = None,
    drafter: str | os.PathLike | DrafterLike | None = None,
    drafter_params: Params = (),
    tokenizer: str | os.PathLike | None = None,
    target_config: ModelConfig | None = None,
    drafter_config: ModelConfig | None = None,
    dtype: str | None = None,
    target_quantization: str | None = None,
    mesh: str | tuple[int, int] | None = "auto",
    shard_drafter: bool | None = None,
) -> Pair:
    """Loads a target and a drafter.

    Args:
      name: a packaged pair ("demo_ende"), or a folder that holds `target/`, `drafter/`
        and `spiece.model`.
      target, drafter: a checkpoint each, in place of the pair's own: a folder of this
        project or of Hugging Face, or a step folder of T5X. The drafter may also be one
        without a network, "prompt_lookup", "repeat_last", "uniform", or "ngram:FILE"
        with what `scripts/fit_ngram.py` wrote (a folder of such a name is
        "./prompt_lookup"); or one of your own, as `Pair.with_drafter` takes it.
      drafter_params: of a drafter of your own.
      tokenizer, target_config, drafter_config, dtype: as in `open_model`. A drafter
        without a network has the target's tokenizer and no configuration.
      target_quantization: "int8" for a target of half of bfloat16's bytes, as in
        `open_model`. Outputs then follow the distribution of the quantized target.
      mesh: (data, model): the batch is sharded over so many devices, and the target
        over so many; "auto" is worked out from the devices and the target's sizes, and
        None is one device.
      shard_drafter: whether the drafter is sharded as the target is, or replicated, so
        that it runs without waiting for other devices. None takes what is faster at
        batch 1 by `partitioning.mesh.default_shard_drafter`: of the paper's drafters
        on eight devices, "small" is replicated, "base" and "large" are sharded.

    Raises:
      PairError: no such pair or drafter, the two have different vocabularies, only one
        of them is decoder-only, or a drafter of your own does not keep to the contract.
      CheckpointError: a model cannot be loaded.
      SettingsError: an argument is of another type, or of no use for such a drafter;
        there is no such quantization or mesh, or a model cannot be sharded over it.
    """
    is_own = drafter is not None and not isinstance(drafter, str | os.PathLike)
    _check_given(
        {"name": name, "target": target, "drafter": None if is_own else drafter},
        {"target_config": target_config, "drafter_config": drafter_config},
        tokenizer,
        shard_drafter,
    )
    without_network = is_own or is_without_network(drafter)
    if not is_own and jax.tree.leaves(drafter_params):
        raise SettingsError("drafter_params are for a drafter of your own")
    if without_network and drafter_config is not None:
        raise SettingsError("drafter_config is for a drafter that is a checkpoint")
    folder = _find_pair(name, needed=target is None or drafter is None)
    sides = (target or folder / "target", drafter or folder / "drafter")
    open_target = open_model(
        sides[0], dtype, tokenizer, target_config, target_quantization
    )
    open_drafter = None
    if not without_network:
        given = (sides[1], dtype, tokenizer, drafter_config)
        open_drafter = _open_drafter(drafter, *given)
        _check_match(open_target, open_drafter)
    devices = choose_mesh(mesh, lambda: open_target.config)
    sharded = False
    if open_drafter is not None:
        sharded = is_drafter_sharded(shard_drafter, open_drafter.config, devices)
        if devices is not None:
            layout_of(open_drafter.config, devices, sharded)  # refuses, if it must
    loaded = open_target.read(devices)
    model, partition = loaded.language_model, devices and Partition(devices)
    if open_drafter is not None:
        drafts = open_drafter.read(devices, sharded)
        padded = [one.language_model.padded_vocab_size for one in (loaded, drafts)]
        model = widened(model, max(padded))
        made = NeuralDrafter(widened(drafts.language_model, max(padded)))
        params = drafts.params
    elif is_own:
        made, params = made_drafter(drafter, model), drafter_params
    else:
        made, params = _drafter_without_network(drafter, loaded)
    if partition is not None and open_drafter is None:
        params = partition.replicate(params)
    label = type(made).__name__ if is_own else drafter
    label = f"{target or name} + {label or name}" if target or drafter else str(name)
    if target_quantization is not None:  # never to be taken for the float target
        label += f" ({target_quantization} target)"
    pair = Pair(
        target=model,
        drafter=made,
        params=PairParams(target=loaded.params, drafter=params),
        tokenizer=loaded.tokenizer,
        config=loaded.config,
        name=label,
        partition=partition,
        checkpoints=None if is_own else tuple(map(os.fspath, sides)),
        drafter_config=open_drafter and open_drafter.config,
    )
    if is_own:
        pair.check_drafter()
    return pair


def _check_given(paths, configs, tokenizer, shard_drafter) -> None:
    """Raises SettingsError unless these are of the types that they must be."""
    for name, path in {**paths, "tokenizer": tokenizer}.items():
        if path is None and name != "name":
            continue
        if not isinstance(path, str | os.PathLike) or not os.fspath(path):
            raise SettingsError(f"{name} must be a name or a path, not {path!r}")
    for name, config in configs.items():
        if config is not None and not isinstance(config, ModelConfig):
            raise SettingsError(
                f"{name} must be a configuration, as T5Config, not {config!r}"
            )
    if not isinstance(shard_drafter, bool | None):
        raise SettingsError(
            f"shard_drafter must be True, False or None, not {shard_drafter!r}"
        )


def packaged_pairs() -> list[str]:
    """Names of the pairs that come with the package."""
    return sorted(p.name for p in ASSETS.iterdir() if _is_pair(p))


def is_without_network(drafter: str | os.PathLike | None) -> bool:
    """Whether `load_pair` takes this name for a drafter that is no network."""
    named_file = isinstance(drafter, str) and drafter.startswith(NGRAM)
    return drafter in RULE_BASED or named_file


def _open_drafter(drafter, side, dtype, tokenizer, config) -> OpenModel:
    try:
        return open_model(side, dtype, tokenizer, config)
    except CheckpointError as error:
        if drafter is None or _may_be_a_folder(drafter):
            raise
        raise PairError(
            f"no drafter {str(drafter)!r}: give a checkpoint's folder, {NGRAM}FILE, or "
            f"one of {', '.join(RULE_BASED)}"
        ) from error


def _check_match(target: OpenModel, drafter: OpenModel) -> None:
    """Raises PairError unless the two can work together."""
    sides = (target, drafter)
    if (
        not target.tokenizer.same_pieces(drafter.tokenizer)
        or target.tokenizer.vocab_size != drafter.tokenizer.vocab_size
    ):
        words = [
            f"{one.tokenizer.path}, {one.tokenizer.vocab_size} ids" for one in sides
        ]
        raise PairError(
            f"the target ({words[0]}) and the drafter ({words[1]}) have different "
            "vocabularies: speculative decoding needs the same one on both sides"
        )
    if target.config.decoder_only != drafter.config.decoder_only:
        kinds = [f"a {one.config.family}" for one in sides]
        raise PairError(
            f"the target is {kinds[0]} and the drafter {kinds[1]}: one goes on from "
            "its input and the other answers it, so that they cannot work together"
        )


def _drafter_without_network(name: str, target: Model) -> tuple[Drafter, Params]:
    """The drafter of that name and its parameters."""
    model = target.language_model
    sizes = model.vocab_size, model.padded_vocab_size
    if name == "prompt_lookup" and not target.config.decoder_only:
        return PromptLookupDrafter(*sizes, source=source_tokens), {}
    if name in RULE_BASED:
        return RULE_BASED[name](*sizes), {}
    file = os.path.expanduser(name.removeprefix(NGRAM))
    return NGramDrafter(*sizes), ngram_file.load(file, target.tokenizer)


def _may_be_a_folder(path: str | os.PathLike) -> bool:
    return os.fspath(path).startswith("gs://") or Path(path).expanduser().is_dir()


def _is_pair(folder: Path) -> bool:
    return all((folder / side).is_dir() for side in ("target", "drafter"))


def _find_pair(name: str | os.PathLike, needed: bool) -> Path:
    path = Path(name).expanduser()
    is_path = path.name != os.fspath(name)
    for folder in [path] if is_path else [ASSETS / path, path]:
        if _is_pair(folder):
            return folder
    if not needed:
        return path
    raise PairError(
        f"no pair {str(name)!r}: give one of {', '.join(packaged_pairs())}, or a "
        f"folder that holds target/, drafter/ and {TOKENIZER_FILE}"
    )
