"""Training a decoder-only model on plain text, from random weights: a job of `jobs`."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import jax

from specdec_jax.data.batching import TokenPair
from specdec_jax.data.tasks import TextTask
from specdec_jax.data.text import read_lines
from specdec_jax.data.tokenizer import TOKENIZER_FILE, Tokenizer, train_tokenizer
from specdec_jax.errors import SettingsError
from specdec_jax.models.gpt import GPT, GPTConfig
from specdec_jax.models.parameters import random_params
from specdec_jax.training.jobs import Job
from specdec_jax.training.loop import TrainConfig, Trainer
from specdec_jax.training.objectives import References
from specdec_jax.typing import Any


@dataclasses.dataclass(frozen=True)
class PlainText:
    """Two text files of a folder, an example a line, plain or gzip."""

    folder: str
    train: str = "train.txt.gz"
    validation: str = "val.txt.gz"

    def lines(self, split: str) -> list[str]:
        """The lines of "train" or "validation" that are not empty."""
        file = Path(self.folder) / getattr(self, split)
        return [line for line in read_lines(file) if line.strip()]


class WholeSequences(Sequence):
    """Pairs as a decoder-only model learns them: no source, and both parts to predict.

    Millions of pairs stay as they are; one is joined when it is asked for.
    """

    def __init__(self, pairs: Sequence[TokenPair]):
        self._pairs = pairs

    def __len__(self) -> int:
        return len(self._pairs)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(len(self))[index]]
        prompt, rest = self._pairs[index]
        return [], [*prompt, *rest]


def train_language_model(
    folder: str,
    text: PlainText | TextTask,
    model: GPTConfig,
    config: TrainConfig,
    tokenizer: str | None = None,
    validation_rows: int = 1000,
    validation_split: str = "validation",
) -> Job:
    """Trains a GPT on plain text, from random weights.

    Args:
      folder: of the job.
      text: files, or a task, whose prompts are learnt like the rest.
      model: the sizes; `vocab_size` is also the tokenizer's.
      config: how long and how; no boundary may be past `model.max_length`.
      tokenizer: a SentencePiece model: a drafter's is its target's. A task has its
        own; for files one is fitted to the training texts if none is given and
        `folder` has none.
      validation_rows, validation_split: of a task.

    Raises:
      SettingsError: a boundary is past the model's positions, or the tokenizer has
        another number of pieces than the model.
    """
    if max(config.boundaries) > model.max_length:
        raise SettingsError(
            f"boundaries go up to {max(config.boundaries)} and the model knows "
            f"{model.max_length} positions"
        )
    path = Path(folder)
    if isinstance(text, TextTask):
        pieces = Tokenizer(tokenizer or text.vocabulary)
        train = WholeSequences(text.training_pairs("train"))
        validation = WholeSequences(
            text.training_pairs(validation_split, validation_rows)
        )
    else:
        lines = text.lines("train")
        pieces = _tokenizer(path, tokenizer, lines, model.vocab_size)
        train = _encode(pieces, lines)
        validation = _encode(pieces, text.lines("validation"))
    if pieces.vocab_size != model.vocab_size:
        raise SettingsError(
            f"{pieces.path} has {pieces.vocab_size} pieces and the model a vocab_size "
            f"of {model.vocab_size}: make them the same"
        )
    trainer = Trainer(
        path,
        config,
        References(GPT(model), config.label_smoothing),
        lambda: random_params(model, jax.random.key(config.seed)),
        train,
        validation,
        pieces.special_ids,
    )
    return Job(trainer, model, pieces)


def _tokenizer(
    folder: Path, given: str | None, lines: Sequence[str], size: int
) -> Tokenizer:
    file = Path(given) if given else folder / TOKENIZER_FILE
    if not given and not file.exists():
        train_tokenizer(lines, file, size)
    return Tokenizer(file)


def _encode(tokenizer: Tokenizer, lines: Sequence[str]) -> list[TokenPair]:
    return [([], tokenizer.encode(line)) for line in lines]
