"""One entry for all checkpoint formats; the folder's files tell which one it is."""

import dataclasses
import os
from pathlib import Path

from specdec_jax.checkpoints import huggingface, native, t5x
from specdec_jax.checkpoints.weights import Checkpoint
from specdec_jax.data.tokenizer import TOKENIZER_FILE, Tokenizer
from specdec_jax.errors import CheckpointError
from specdec_jax.models.config import ModelConfig
from specdec_jax.runtime.storage import Folder, read_file

EXTRA_IDS = 100  # sentinels that T5's vocabularies have after the pieces


def open_checkpoint(
    path: str | os.PathLike, config: ModelConfig | None = None
) -> Checkpoint:
    """Opens a folder of this project, of Hugging Face or of T5X (local or gs://).

    Args:
      path: the folder; of T5X, a step's.
      config: the sizes that it must have; what the folder says if not given.

    Raises:
      CheckpointError: there is no such folder, it is of no known format, or its own
        configuration is another.
    """
    path = os.fspath(path)
    if not path.startswith("gs://") and not Path(path).is_dir():
        raise CheckpointError(f"no folder {path}")
    if Folder(path).read(native.CONFIG_FILE) is not None:
        if path.startswith("gs://"):
            raise CheckpointError(f"{path}: only T5X checkpoints are read from gs://")
        fields = native.read_json(Path(path) / native.CONFIG_FILE)
        ours = fields.get("format") in native.FORMATS
        opened = (native if ours else huggingface).open_folder(path)
        _check_sizes(opened, config)
        return opened
    if t5x.is_checkpoint(path):
        if config is not None and config.family != t5x.FAMILY:
            raise CheckpointError(
                f"{path} is of T5X, which holds {t5x.FAMILY}s, and the configuration "
                f"is a {config.family}'s"
            )
        return t5x.open_folder(path, config)
    raise CheckpointError(f"{path} is of no known format: {_hint(path)}")


def find_tokenizer(
    checkpoint: Checkpoint, path: str | os.PathLike, given: str | os.PathLike | None
) -> Tokenizer:
    """The tokenizer of a checkpoint.

    Args:
      checkpoint: opened from `path`.
      path: a folder; its SentencePiece model is in it, or beside it.
      given: the SentencePiece model's file, if it is elsewhere.

    Raises:
      CheckpointError: there is none, or it does not fit the checkpoint's vocabulary,
        or has other special ids than the checkpoint says.
    """
    file = given or _tokenizer_file(os.fspath(path))
    tokenizer = Tokenizer(file)
    config, pieces = checkpoint.config, tokenizer.vocab_size
    if checkpoint.format == "native":
        extra, known = config.vocab_size - pieces, (0, EXTRA_IDS)
    else:
        extra = EXTRA_IDS if pieces + EXTRA_IDS <= config.padded_vocab_size else 0
        known = (extra,) if pieces <= config.padded_vocab_size else ()
    if extra not in known:
        raise CheckpointError(
            f"{file} has {pieces} pieces and {checkpoint.path} has a vocabulary of "
            f"{config.vocab_size}"
        )
    for name, (said, stored_name) in checkpoint.special_ids.items():
        found = getattr(tokenizer, name)
        if said != found:
            raise CheckpointError(
                f"{checkpoint.path} says {stored_name} {said} and {file} has {found}"
            )
    return Tokenizer(file, extra)


def convert(
    source: str | os.PathLike,
    destination: str | os.PathLike,
    format: str,
    dtype: str = "float32",
    tokenizer: str | os.PathLike | None = None,
) -> Path:
    """Writes a checkpoint in another format, with its tokenizer.

    Args:
      source: of any format.
      destination: a folder. T5X's step is made in it, and the tokenizer beside that.
      format: one of `WRITERS`.
      dtype: of the weights on disk, "float32" or "bfloat16".
      tokenizer: as in `find_tokenizer`.

    Returns:
      The folder that holds the checkpoint now.

    Raises:
      CheckpointError: the source cannot be read, the destination cannot be written, or
        the format has no place for what the source's configuration says.
    """
    checkpoint = open_checkpoint(source)
    family = checkpoint.config.family
    if family not in HOLDS[format]:
        raise CheckpointError(f"{source} is of a {family}, which {format} cannot hold")
    pieces = find_tokenizer(checkpoint, source, tokenizer)
    config = dataclasses.replace(checkpoint.config, vocab_size=pieces.vocab_size)
    destination, params = Path(destination), checkpoint.load(dtype)
    ids = pieces.special_ids
    try:
        written = WRITERS[format](destination, config, params, dtype, ids)
        (destination / TOKENIZER_FILE).write_bytes(read_file(pieces.path))
    except OSError as error:
        raise CheckpointError(f"cannot write to {destination}: {error}") from error
    return written or destination


def _save_native(folder, config, params, dtype, special_ids):
    native.save(folder, config, params, dtype)  # the tokenizer tells the special ids


def _save_t5x(folder, config, params, dtype, special_ids):
    """T5X's step has no configuration: names and shapes must tell it when it is read.

    Raises:
      CheckpointError: they would tell another.
    """
    for name, known in t5x.UNTOLD.items():
        value = getattr(config, name)
        if value not in known:
            raise CheckpointError(
                f"a T5 with {name} {value} cannot be written for T5X, whose "
                f"checkpoints do not tell it: only {' or '.join(map(str, known))} can"
            )
    return t5x.save(folder, params, dtype=dtype)


WRITERS = {"native": _save_native, "huggingface": huggingface.save, "t5x": _save_t5x}
HOLDS = {  # the families that a format has a place for
    "native": tuple(family.family for family in native.FORMATS.values()),
    "huggingface": (huggingface.FAMILY,),
    "t5x": (t5x.FAMILY,),
}


def _tokenizer_file(path: str) -> str:
    folders = [path, os.path.dirname(path.rstrip("/"))]
    for folder in folders:
        if Folder(folder).read(TOKENIZER_FILE) is not None:
            return os.path.join(folder, TOKENIZER_FILE)
    raise CheckpointError(
        f"no {TOKENIZER_FILE} in {path} or in the folder above it: give the "
        "SentencePiece model's path as `tokenizer`"
    )


def _check_sizes(opened: Checkpoint, config: ModelConfig | None) -> None:
    if config is None:
        return
    if config.family != opened.config.family:
        raise CheckpointError(
            f"{opened.path} is of a {opened.config.family} and the configuration is "
            f"a {config.family}'s"
        )
    for name in config.sizes:
        asked, found = getattr(config, name), getattr(opened.config, name)
        if asked != found:
            raise CheckpointError(
                f"{opened.path} has {name} {found} and the configuration asks for "
                f"{asked}"
            )


def _hint(path: str) -> str:
    if path.startswith("gs://"):
        return f"it has no {t5x.INDEX_FILE} and no {t5x.ORBAX_FILE}"
    steps = sorted(p.name for p in Path(path).glob("checkpoint_*"))
    if steps:
        return f"name one of its steps, such as {os.path.join(path, steps[-1])}"
    return (
        f"it has no {native.CONFIG_FILE} (this project's and Hugging Face's have one) "
        f"and no {t5x.INDEX_FILE} or {t5x.ORBAX_FILE} (T5X's steps have one)"
    )
