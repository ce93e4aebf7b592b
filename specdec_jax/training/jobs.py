"""Whole training jobs: from random weights, from a checkpoint, from a target.

Each function prepares a `Job`, and `run` trains. A job lives in a folder of its own and
goes on from wherever it was stopped:

  spiece.model        the tokenizer
  sequences.jsonl     (drafter) the target's output for every training input
  checkpoints/        Orbax, the last two
  metrics.jsonl       a line per validation
  model/              the averaged weights, as `load_pair` reads them, when it is done
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import jax

from specdec_jax.checkpoints import native
from specdec_jax.checkpoints.formats import find_tokenizer, open_checkpoint
from specdec_jax.data.batching import TokenPair
from specdec_jax.data.tasks import TextTask
from specdec_jax.data.text import read_pairs
from specdec_jax.data.tokenizer import (
    TOKENIZER_FILE,
    Tokenizer,
    train_tokenizer,
)
from specdec_jax.errors import DataError
from specdec_jax.models.config import ModelConfig
from specdec_jax.models.parameters import random_params
from specdec_jax.models.t5 import T5, T5Config
from specdec_jax.runtime.json_lines import JsonLinesFile
from specdec_jax.runtime.progress import progress_bar
from specdec_jax.runtime.storage import read_file
from specdec_jax.training import translation
from specdec_jax.training.loop import TrainConfig, Trainer
from specdec_jax.training.objectives import Distillation, References
from specdec_jax.typing import Callable, Params


@dataclasses.dataclass(frozen=True)
class ParallelText:
    """Four line-aligned text files of a folder.

    Where there is no `NAME.gz`, a plain `NAME` is read.
    """

    folder: str
    train_source: str = "train.en.gz"
    train_target: str = "train.de.gz"
    validation_source: str = "val.en.gz"
    validation_target: str = "val.de.gz"

    def train(self) -> list[tuple[str, str]]:
        return read_pairs(*map(self._path, (self.train_source, self.train_target)))

    def validation(self) -> list[tuple[str, str]]:
        names = (self.validation_source, self.validation_target)
        return read_pairs(*map(self._path, names))

    def _path(self, name: str) -> Path:
        folder = Path(self.folder).expanduser()
        names = dict.fromkeys((name, name.removesuffix(".gz")))
        for found in names:
            if (folder / found).exists():
                return folder / found
        raise DataError(f"{folder} holds no {' and no '.join(names)}")


@dataclasses.dataclass(frozen=True)
class Job:
    """A training that is prepared, with all that it needs read and checked.

    Attributes:
      trainer: of the weights, in the job's folder.
      model: the sizes, which are exported too.
      tokenizer: of the ids.
    """

    trainer: Trainer
    model: ModelConfig
    tokenizer: Tokenizer

    @property
    def folder(self) -> Path:
        return self.trainer.folder

    @property
    def is_done(self) -> bool:
        """Whether the last step was taken before."""
        return self.trainer.steps_left == 0

    def run(self) -> Path:
        """Trains, and exports the averaged weights with the tokenizer.

        Returns:
          The folder of the model, as `load_pair` reads it.
        """
        state = self.trainer.run()
        exported = self.folder / "model"
        native.save(exported, self.model, state.average)
        (exported / TOKENIZER_FILE).write_bytes(read_file(self.tokenizer.path))
        return exported


def train(job: Callable[[], Job]) -> Job:
    """Prepares the job that a configuration chose."""
    return job()


def train_target(
    folder: str, text: ParallelText, model: T5Config, config: TrainConfig
) -> Job:
    """Trains a T5 on references, from random weights.

    The tokenizer is fitted on the training text unless `folder` already has one.

    Args:
      folder: of the job.
      text: what to learn.
      model: the sizes; `vocab_size` is also the tokenizer's.
      config: how long and how.
    """
    path = Path(folder)
    if not (path / TOKENIZER_FILE).exists():
        lines = [line for pair in text.train() for line in pair]
        train_tokenizer(lines, path / TOKENIZER_FILE, model.vocab_size)
    tokenizer = Tokenizer(path / TOKENIZER_FILE)
    references = text.validation()
    trainer = Trainer(
        path,
        config,
        References(T5(model), config.label_smoothing),
        _random_params(model, config.seed),
        _encode(tokenizer, text.train()),
        _encode(tokenizer, references),
        tokenizer.special_ids,
        _bleu(model, tokenizer, references),
    )
    return Job(trainer, model, tokenizer)


def distill_drafter(
    folder: str,
    text: ParallelText,
    target: str,
    model: T5Config,
    config: TrainConfig,
    temperatures: Sequence[float] = (0.0, 1.0),
    variation_weight: float = 0.5,
) -> Job:
    """Trains a drafter on its target's own outputs.

    Every training input is decoded by the target at every temperature, once, which the
    preparation does; on these sequences the drafter learns the target's distributions.

    Args:
      folder: of the job.
      text: the inputs; the references only serve to validate.
      target: the target's model folder.
      model: the drafter's sizes.
      config: how long and how.
      temperatures: of the target's sequences.
      variation_weight: see `Distillation`.
    """
    path = Path(folder)
    checkpoint = open_checkpoint(target)
    tokenizer = find_tokenizer(checkpoint, target, None)
    target_config = dataclasses.replace(
        checkpoint.config, vocab_size=tokenizer.vocab_size
    )
    target_params = checkpoint.load()
    path.mkdir(parents=True, exist_ok=True)
    (path / TOKENIZER_FILE).write_bytes(read_file(tokenizer.path))
    sources = [source for source, _ in text.train()]
    validation_sources = [source for source, _ in text.validation()]
    pairs = _target_sequences(
        path / "sequences.jsonl",
        target_config,
        target_params,
        tokenizer,
        [(s, t) for t in temperatures for s in (*sources, *validation_sources)],
    )
    # Every temperature's part ends with the validation inputs.
    size = len(sources) + len(validation_sources)
    parts = [pairs[i : i + size] for i in range(0, len(pairs), size)]
    objective = Distillation(
        T5(model), T5(target_config), target_params, variation_weight
    )
    trainer = Trainer(
        path,
        config,
        objective,
        _random_params(model, config.seed),
        [pair for part in parts for pair in part[: len(sources)]],
        [pair for part in parts for pair in part[len(sources) :]],
        tokenizer.special_ids,
        _bleu(model, tokenizer, text.validation()),
    )
    return Job(trainer, model, tokenizer)


def finetune(
    folder: str,
    checkpoint: str,
    task: TextTask,
    config: TrainConfig,
    tokenizer: str | None = None,
    model: T5Config | None = None,
    validation_rows: int = 1000,
    max_new_tokens: int = 128,
) -> Job:
    """Trains a checkpoint further on a task's references.

    Args:
      folder: of the job.
      checkpoint: where it starts: of any format.
      task: what to learn; its validation split is decoded greedily and scored.
      config: how long and how.
      tokenizer: the SentencePiece model, if it is not with the checkpoint.
      model: the sizes that the checkpoint must have, and the dropout; what it says
        itself if not given.
      validation_rows: of the validation split, the first ones.
      max_new_tokens: of each decoded row.
    """
    start = open_checkpoint(checkpoint, model)
    pieces = find_tokenizer(start, checkpoint, tokenizer)
    sizes = dataclasses.replace(model or start.config, vocab_size=pieces.vocab_size)
    rows = task.examples("validation", validation_rows)

    def evaluate(params: Params) -> dict[str, float]:
        outputs = translation.translate(
            sizes,
            params,
            pieces.special_ids,
            [row.inputs for row in rows],
            max_new_tokens=max_new_tokens,
        )
        texts = [pieces.decode(tokens) for tokens in outputs]
        return task.scores([row.target for row in rows], texts)

    trainer = Trainer(
        Path(folder),
        config,
        References(T5(sizes), config.label_smoothing),
        start.load,
        task.training_pairs("train"),
        [(row.inputs, row.targets) for row in rows],
        pieces.special_ids,
        evaluate,
    )
    return Job(trainer, sizes, pieces)


def _random_params(model: T5Config, seed: int) -> Callable[[], Params]:
    return lambda: random_params(model, jax.random.key(seed))


def _bleu(
    model: T5Config, tokenizer: Tokenizer, references: Sequence[tuple[str, str]]
) -> Callable[[Params], dict[str, float]]:
    return lambda params: {
        "bleu": translation.bleu(model, params, tokenizer, references)
    }


def _encode(tokenizer: Tokenizer, pairs: Sequence[tuple[str, str]]) -> list[TokenPair]:
    return [(tokenizer.encode(a), tokenizer.encode(b)) for a, b in pairs]


def _target_sequences(
    path: Path,
    config: T5Config,
    params: Params,
    tokenizer: Tokenizer,
    wanted: Sequence[tuple[str, float]],
) -> list[TokenPair]:
    """The target's output for each (input, temperature), kept on disk in blocks."""
    records = JsonLinesFile(path)
    outputs = [tokens for record in records for tokens in record["outputs"]]
    sources = [tokenizer.encode(text) for text, _ in wanted]
    block = translation.BATCH * 8
    if len(outputs) > len(wanted) or (
        len(outputs) < len(wanted) and len(outputs) % block
    ):
        raise DataError(f"{path} holds sequences of other inputs: remove it")
    with progress_bar("target sequences") as bar:
        task = bar.add_task("", total=len(wanted), completed=len(outputs))
        for start in range(len(outputs), len(wanted), block):
            rows = range(start, min(start + block, len(wanted)))
            new = translation.translate(
                config,
                params,
                tokenizer.special_ids,
                [sources[i] for i in rows],
                temperatures=[wanted[i][1] for i in rows],
                row_ids=list(rows),
            )
            records.append({"start": start, "outputs": new})
            outputs += new
            bar.update(task, completed=len(outputs))
    return list(zip(sources, outputs, strict=True))
