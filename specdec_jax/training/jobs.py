"""Whole training jobs: a target from references, a drafter from its target.

A job lives in a folder of its own and goes on from wherever it was stopped:

  spiece.model        the tokenizer
  sequences.jsonl     (drafter) what the target says to every training input
  checkpoints/        Orbax, the last two
  metrics.jsonl       a line a validation
  model/              the averaged weights, as `load_pair` reads them, when it is done
"""

import dataclasses
import shutil
from collections.abc import Sequence
from pathlib import Path

import jax
import jax.numpy as jnp

from specdec_jax.checkpoints import native
from specdec_jax.data.batching import Pair
from specdec_jax.data.text import read_pairs
from specdec_jax.data.tokenizer import Tokenizer, train_tokenizer
from specdec_jax.errors import DataError
from specdec_jax.experiments.records import RecordFile
from specdec_jax.models.t5 import T5, T5Config
from specdec_jax.training import translation
from specdec_jax.training.loop import TrainConfig, Trainer
from specdec_jax.training.objectives import Distillation, Objective, References
from specdec_jax.typing import Params


@dataclasses.dataclass(frozen=True)
class ParallelText:
    """Four line-aligned text files of a folder, plain or gzip."""

    folder: str
    train_source: str = "train.en.gz"
    train_target: str = "train.de.gz"
    validation_source: str = "val.en.gz"
    validation_target: str = "val.de.gz"

    def train(self) -> list[tuple[str, str]]:
        folder = Path(self.folder)
        return read_pairs(folder / self.train_source, folder / self.train_target)

    def validation(self) -> list[tuple[str, str]]:
        folder = Path(self.folder)
        return read_pairs(
            folder / self.validation_source, folder / self.validation_target
        )


def train_target(
    folder: str, text: ParallelText, model: T5Config, config: TrainConfig
) -> None:
    """Trains a T5 on references, from random weights.

    The tokenizer is fitted on the training text unless `folder` already has one.

    Args:
      folder: of the job.
      text: what to learn.
      model: the sizes; `vocab_size` is also the tokenizer's.
      config: how long and how.
    """
    path = Path(folder)
    if not (path / native.TOKENIZER_FILE).exists():
        lines = [line for pair in text.train() for line in pair]
        train_tokenizer(lines, path / native.TOKENIZER_FILE, model.vocab_size)
    tokenizer = Tokenizer(path / native.TOKENIZER_FILE)
    objective = References(T5(model), config.label_smoothing)
    _train(path, text, model, config, objective, tokenizer, text.train())


def distill_drafter(
    folder: str,
    text: ParallelText,
    target: str,
    model: T5Config,
    config: TrainConfig,
    temperatures: Sequence[float] = (0.0, 1.0),
    variation_weight: float = 0.5,
) -> None:
    """Trains a drafter to guess what its target says.

    Every training input is decoded by the target at every temperature, once; on these
    sequences the drafter learns the target's token distributions.

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
    target_config, target_params = native.load_model(target)
    tokenizer = native.find_tokenizer(Path(target))
    path.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(tokenizer.path, path / native.TOKENIZER_FILE)
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
    _train(
        path,
        text,
        model,
        config,
        objective,
        tokenizer,
        [pair for part in parts for pair in part[: len(sources)]],
        [pair for part in parts for pair in part[len(sources) :]],
    )


def _train(
    folder: Path,
    text: ParallelText,
    model: T5Config,
    config: TrainConfig,
    objective: Objective,
    tokenizer: Tokenizer,
    train: Sequence,
    validation: Sequence | None = None,
) -> None:
    references = text.validation()
    if validation is None:
        train = _encode(tokenizer, train)
        validation = _encode(tokenizer, references)

    def init_params() -> Params:
        token = jnp.zeros((1, 1), jnp.int32)
        key = jax.random.key(config.seed)
        return T5(model).init(key, token, token == 0, token)["params"]

    def evaluate(params: Params) -> dict[str, float]:
        return {"bleu": translation.bleu(model, params, tokenizer, references)}

    trainer = Trainer(
        folder, config, objective, init_params, train, validation, evaluate
    )
    state = trainer.run()
    native.save_model(folder / "model", model, state.average)
    shutil.copyfile(tokenizer.path, folder / "model" / native.TOKENIZER_FILE)


def _encode(tokenizer: Tokenizer, pairs: Sequence[tuple[str, str]]) -> list[Pair]:
    return [(tokenizer.encode(a), tokenizer.encode(b)) for a, b in pairs]


def _target_sequences(
    path: Path,
    config: T5Config,
    params: Params,
    tokenizer: Tokenizer,
    wanted: Sequence[tuple[str, float]],
) -> list[Pair]:
    """What the target says to (text, temperature), kept on disk in blocks of rows."""
    records = RecordFile(path)
    outputs = [tokens for record in records for tokens in record["outputs"]]
    sources = [tokenizer.encode(text) for text, _ in wanted]
    block = translation.BATCH * 8
    if len(outputs) > len(wanted) or (
        len(outputs) < len(wanted) and len(outputs) % block
    ):
        raise DataError(f"{path} holds sequences of other inputs: remove it")
    with translation.progress_bar("target sequences") as bar:
        task = bar.add_task("", total=len(wanted), completed=len(outputs))
        for start in range(len(outputs), len(wanted), block):
            rows = range(start, min(start + block, len(wanted)))
            new = translation.translate(
                config,
                params,
                [sources[i] for i in rows],
                temperatures=[wanted[i][1] for i in rows],
                row_ids=list(rows),
            )
            records.append({"start": start, "outputs": new})
            outputs += new
            bar.update(task, completed=len(outputs))
    return list(zip(sources, outputs, strict=True))
