"""Decoding a task's split with a pair: a line a row on disk, then the task's scores."""

import dataclasses
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from rich.console import Console

from specdec_jax.data.tasks import DecodeBatch, Example, TextTask, decode_batches
from specdec_jax.data.tokenizer import Tokenizer
from specdec_jax.decoding.settings import DecodeSettings
from specdec_jax.decoding.statistics import DecodeStats
from specdec_jax.errors import DataError, PairError, SettingsError
from specdec_jax.experiments.records import RecordFile, environment
from specdec_jax.generate import collect, prepare_tokens
from specdec_jax.pair import Pair
from specdec_jax.training.translation import progress_bar
from specdec_jax.typing import Any

# Of each row; how many tokens it has is seen from its tokens.
COUNTS = tuple(
    field.name for field in dataclasses.fields(DecodeStats) if field.name != "tokens"
)


@dataclasses.dataclass
class TaskRun:
    """Decodes a split in batches of one size, and goes on where it was stopped.

    A row's draws are derived from its place in the split, so that its output depends
    neither on the batch size nor on where a run was stopped.

    Attributes:
      pair, settings, seed, method: as in `generate`; each setting is one for all rows.
      task: what to decode; its vocabulary is the pair's.
      split: of the task.
      batch_size: rows decoded together.
      limit: take the first so many rows only.

    Raises:
      SettingsError: a setting is a sequence.
      PairError: the task's vocabulary is not the pair's.
    """

    pair: Pair
    task: TextTask
    settings: DecodeSettings = DecodeSettings()
    split: str = "test"
    batch_size: int = 8
    seed: int = 0
    method: str = "speculative"
    limit: int | None = None

    def __post_init__(self):
        for name, value in dataclasses.asdict(self.settings).items():
            if isinstance(value, tuple):
                raise SettingsError(f"{name} must be one number for all rows of a task")
        if not Tokenizer(self.task.vocabulary).same_pieces(self.pair.tokenizer):
            raise PairError(
                f"the task's vocabulary ({self.task.vocabulary}) is not the pair's "
                f"({self.pair.tokenizer.path}): give the task the pair's"
            )

    def __call__(self, records: RecordFile) -> dict[str, Any]:
        """Decodes all rows that `records` does not hold yet, and scores all of them.

        Args:
          records: appended to, a line a row, in order.

        Returns:
          What is also written beside the records, to a file that ends in
          `.scores.json`: "scores" by name, the counts of all rows together, and what
          was run.

        Raises:
          DataError: there is no such split, no such data, or `records` holds something
            else than the first rows of this run.
        """
        examples = self.task.examples(self.split, self.limit)
        done = self._already_done(examples, records)
        with progress_bar(f"{self.task.name}, {self.split}") as bar:
            progress = bar.add_task("", total=len(examples), completed=done)
            for batch in decode_batches(examples, self.batch_size, done):
                for record in self._decode(batch):
                    records.append(record)
                    bar.update(progress, advance=1)
        summary = self._summary(list(records))
        _write_whole(scores_path(records), summary)
        return summary

    def show(
        self, summary: dict[str, Any], records: RecordFile, console: Console
    ) -> None:
        """Prints the scores and the counts of a finished run."""
        for name, score in summary["scores"].items():
            console.print(f"{name} {score:.2f}")
        console.print(
            f"{summary['tokens']} tokens in {summary['target_calls']} target runs: "
            f"{summary['tokens_per_call']:.2f} tokens a run"
        )
        console.print(f"also in {scores_path(records)}")

    def _decode(self, batch: DecodeBatch) -> Iterator[dict[str, Any]]:
        """The records of a batch's rows; padding rows stop at once and give none."""
        settings = dataclasses.replace(
            self.settings,
            max_new_tokens=[
                1 if padding else self.settings.max_new_tokens
                for padding in batch.is_padding
            ],
        )
        job = prepare_tokens(
            self.pair, batch.inputs, settings, self.seed, self.method, batch.row_ids
        )
        out = collect(self.pair, job.decode())
        for i, example in enumerate(batch.examples):
            yield {
                "index": example.index,
                "input": example.source,
                "reference": example.target,
                "output": out.texts[i],
                "tokens": out.tokens[i, : out.lengths[i]].tolist(),
                **{name: getattr(out.stats, name)[i].item() for name in COUNTS},
                **self._identity(),
                **environment(),
            }

    def _identity(self) -> dict[str, Any]:
        """What must be the same for rows to belong into one file."""
        return {
            "task": self.task.name,
            "split": self.split,
            "lengths": self.task.lengths,
            "method": self.method,
            "pair": self.pair.name,
            "settings": dataclasses.asdict(self.settings),
            "seed": self.seed,
        }

    def _already_done(self, examples: Sequence[Example], records: RecordFile) -> int:
        done = 0
        for record in records:
            wanted = self._identity()
            if done < len(examples):
                wanted |= {
                    "index": examples[done].index,
                    "input": examples[done].source,
                    "reference": examples[done].target,
                }
            done += 1
            records.require(done, record, wanted)
        if done > len(examples):
            raise DataError(
                f"{records.path} holds {done} rows and {len(examples)} are wanted: "
                "give the records another name"
            )
        return done

    def _summary(self, done: list[dict[str, Any]]) -> dict[str, Any]:
        counts = {name: np.sum([record[name] for record in done]) for name in COUNTS}
        counts["tokens"] = np.sum([len(record["tokens"]) for record in done])
        return {
            "scores": self.task.scores(
                [record["reference"] for record in done],
                [record["output"] for record in done],
            ),
            "rows": len(done),
            **{name: count.item() for name, count in counts.items()},
            "tokens_per_call": float(DecodeStats(**counts).tokens_per_call),
            **self._identity(),
            **environment(),
        }


def scores_path(records: RecordFile) -> Path:
    """Where a run's scores go: `test.jsonl` has them in `test.scores.json`."""
    return records.path.with_suffix(".scores.json")


def _write_whole(path: Path, value: dict[str, Any]) -> None:
    """Writes JSON so that a kill leaves the old file or the new one."""
    partial = path.with_name(path.name + ".partial")
    partial.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", "utf-8")
    os.replace(partial, path)
