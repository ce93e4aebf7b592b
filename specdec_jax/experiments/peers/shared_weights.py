"""The pair's weights for libraries that do not know our formats."""

import dataclasses
import os
from pathlib import Path

from specdec_jax.checkpoints import huggingface
from specdec_jax.checkpoints.formats import find_tokenizer, open_checkpoint
from specdec_jax.data.tokenizer import Tokenizer
from specdec_jax.loading import is_without_network
from specdec_jax.models.t5 import T5Config
from specdec_jax.typing import Params


def unpadded(
    path: str | os.PathLike, tokenizer: str | os.PathLike
) -> tuple[T5Config, Params]:
    """A checkpoint in float32, unpacked, without the padding of its vocabulary.

    Our loops never draw an id that the tokenizer does not have; other libraries know
    of no padding, so it is cut off here. No logit of the other ids changes.

    Args:
      path: of a checkpoint in any format.
      tokenizer: its SentencePiece model.
    """
    checkpoint = open_checkpoint(path)
    size = find_tokenizer(checkpoint, path, tokenizer).vocab_size
    params = checkpoint.load("float32")
    embedder = params["token_embedder"]
    embedder["embedding"] = embedder["embedding"][:size]
    if not checkpoint.config.logits_via_embedding:
        logits = params["decoder"]["logits_dense"]
        logits["kernel"] = logits["kernel"][:, :size]
    config = dataclasses.replace(
        checkpoint.config, vocab_size=size, padded_vocab_size=size, dtype="float32"
    )
    return config, params


def write_huggingface(
    target: str, drafter: str, tokenizer: str, folder: Path
) -> tuple[str, str | None]:
    """Writes both sides as Hugging Face has them, float32.

    Args:
      target, drafter: checkpoints, as `load_pair` takes them.
      tokenizer: of both.
      folder: in which the two folders are made.

    Returns:
      The two folders; the drafter's is None where it is no network.

    Raises:
      CheckpointError: Hugging Face has no place for a tensor.
    """
    special_ids = Tokenizer(tokenizer).special_ids
    written = []
    for side, path in (("target", target), ("drafter", drafter)):
        if is_without_network(path):
            written.append(None)
            continue
        config, params = unpadded(path, tokenizer)
        huggingface.save(folder / side, config, params, special_ids=special_ids)
        written.append(str(folder / side))
    return tuple(written)
