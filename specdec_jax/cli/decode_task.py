"""Decoding a task's split with a pair: a record per row, then the task's scores."""

import contextlib
import dataclasses
import hashlib
import itertools
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from rich.console import Console

from specdec_jax.data.examples import DecodeBatch, Example, decode_batches
from specdec_jax.data.tasks import TextTask
from specdec_jax.data.tokenizer import Tokenizer
from specdec_jax.decoding.settings import DecodeSettings
from specdec_jax.decoding.statistics import DecodeStats
from specdec_jax.errors import DataError, PairError, SettingsError
from specdec_jax.experiments.kinds import DecodedRow, TaskScores
from specdec_jax.experiments.record_file import RecordFile
from specdec_jax.generation import collect
from specdec_jax.job import prepare_tokens
from specdec_jax.pair import Pair
from specdec_jax.runtime.distributed import Processes
from specdec_jax.runtime.progress import progress_bar
from specdec_jax.runtime.records import environment
from specdec_jax.runtime.storage import beside
from specdec_jax.runtime.validation import check_kinds, check_seed
from specdec_jax.typing import Any

# What gin fills in; the rest is the program's.
CONFIGURED = tuple(
    f"TaskRun.{name}"
    for name in ("pair", "task", "settings", "split", "batch_size", "limit")
)
# Of each row; how many tokens it has is seen from its tokens.
COUNTS = tuple(
    field.name for field in dataclasses.fields(DecodeStats) if field.name != "tokens"
)


@dataclasses.dataclass
class TaskRun:
    """Decodes a split in batches of one size, and goes on where it was stopped.

    A row's draws are derived from its place in the split, so that its output depends
    neither on the batch size nor on where a run was stopped.

    Several processes go in rounds: each decodes a batch of its own, with its own
    devices, and process 0 writes what all of them decoded, in order. So the file holds
    the first rows of the split at any time, and a run that goes on may have another
    number of processes.

    Attributes:
      pair, settings, seed, method: as in `generate`; each setting is one for all rows.
      task: what to decode; its vocabulary is the pair's.
      split: of the task.
      batch_size: rows decoded together.
      limit: take the first so many rows only.
      processes: those that work on this run; all have the same of everything else.

    Raises:
      SettingsError: a setting is a sequence, or a number is not what it may be.
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
    processes: Processes = Processes()

    def __post_init__(self):
        check_kinds(self, may_be_0=("seed",))
        check_seed(self.seed)
        for name, value in dataclasses.asdict(self.settings).items():
            if isinstance(value, tuple):
                raise SettingsError(f"{name} must be one number for all rows of a task")
        if not Tokenizer(self.task.vocabulary).same_pieces(self.pair.tokenizer):
            raise PairError(
                f"the task's vocabulary ({self.task.vocabulary}) is not the pair's "
                f"({self.pair.tokenizer.path}): give the task the pair's"
            )

    def __call__(self, records: RecordFile | None) -> TaskScores:
        """Decodes all rows that `records` does not hold yet, and scores all of them.

        Args:
          records: appended to, a line per row, in order; process 0 has it, and the
            others have None.

        Returns:
          What is also written beside the records, to a file that ends in
          `.scores.json`.

        Raises:
          DataError: there is no such split, no such data, or `records` holds something
            else than the first rows of this run, or another run appends to it; or the
            processes have not the same data or settings.
        """
        summary = None
        with contextlib.ExitStack() as stack:
            with self.processes.together():
                examples = self.task.examples(self.split, self.limit)
                done = 0
                if records is not None:
                    stack.enter_context(records.alone())
                    done = self._already_done(examples, records)
            self._require_the_same(examples)
            done = self.processes.gather(done)[0]
            self._decode_from(done, examples, records)
            with self.processes.together():
                if records is not None:
                    summary = self._summary(list(records)).to_json()
                    _write_whole(scores_path(records), summary)
        return TaskScores.from_json(self.processes.gather(summary)[0], "the scores")

    def show(self, summary: TaskScores, records: RecordFile, console: Console) -> None:
        """Prints the scores and the counts of a finished run."""
        for name, score in summary.scores.items():
            console.print(f"{name} {score:.2f}")
        console.print(
            f"{summary.tokens} tokens in {summary.target_calls} target calls: "
            f"{summary.tokens_per_target_call:.2f} tokens per target call"
        )
        console.print(f"also in {scores_path(records)}")

    def _decode_from(
        self, done: int, examples: Sequence[Example], records: RecordFile | None
    ) -> None:
        """Round after round; a batch is the work of one process.

        A model that is sharded over processes needs all of them in each batch: then a
        round is one batch, and each process tells the rows that it holds.
        """
        eos_id = self.pair.tokenizer.eos_id
        batches = list(decode_batches(examples, self.batch_size, eos_id, done))
        first, count = self.processes.index, self.processes.count
        name = f"{self.task.name}, {self.split}"
        with progress_bar(name, shown=self.processes.first) as bar:
            progress = bar.add_task("", total=len(examples), completed=done)
            for start in range(0, len(batches), count):
                mine = batches[start : start + count][first : first + 1]
                rows = [row.to_json() for batch in mine for row in self._decode(batch)]
                for row in itertools.chain(*self.processes.gather(rows)):
                    if records is not None:
                        records.append(DecodedRow.from_json(row, "a row"))
                    bar.update(progress, advance=1)

    def _decode(self, batch: DecodeBatch) -> Iterator[DecodedRow]:
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
            yield DecodedRow(
                index=example.index,
                input=example.source,
                reference=example.target,
                output=out.texts[i],
                tokens=out.tokens[i, : out.lengths[i]].tolist(),
                **{name: getattr(out.stats, name)[i].item() for name in COUNTS},
                **self._identity(),
                **environment(),
            )

    def _identity(self) -> dict[str, Any]:
        """The identity fields of this run's records."""
        return {
            "task": self.task.name,
            "split": self.split,
            "lengths": self.task.lengths,
            "method": self.method,
            **self.pair.about,
            "settings": dataclasses.asdict(self.settings),
            "seed": self.seed,
        }

    def _require_the_same(self, examples: Sequence[Example]) -> None:
        """Raises DataError unless all processes are about to do one run."""
        if self.processes.count == 1:
            return
        rows = json.dumps([(row.inputs, row.source, row.target) for row in examples])
        run = self._identity() | {
            "batch_size": self.batch_size,
            "rows": hashlib.sha256(rows.encode()).hexdigest(),
        }
        runs = self.processes.gather(run)
        for index, other in enumerate(runs):
            for name, value in runs[0].items():
                if other[name] != value:
                    raise DataError(
                        f"process {index} has other {name} than process 0: give all "
                        "the same data and settings"
                    )

    def _already_done(self, examples: Sequence[Example], records: RecordFile) -> int:
        found = records.of_run(DecodedRow, self._identity())
        done = len(found)
        for number, (row, example) in enumerate(zip(found, examples, strict=False), 1):
            wanted = {
                "index": example.index,
                "input": example.source,
                "reference": example.target,
            }
            records.require(number, row, wanted)
        if done > len(examples):
            raise DataError(
                f"{records.path} holds {done} rows and {len(examples)} are wanted: "
                "give the records another name"
            )
        return done

    def _summary(self, done: list[DecodedRow]) -> TaskScores:
        counts = {name: np.sum([getattr(row, name) for row in done]) for name in COUNTS}
        counts["tokens"] = np.sum([len(row.tokens) for row in done])
        return TaskScores(
            scores=self.task.scores(
                [row.reference for row in done], [row.output for row in done]
            ),
            rows=len(done),
            **{name: count.item() for name, count in counts.items()},
            tokens_per_target_call=float(DecodeStats(**counts).tokens_per_target_call),
            **self._identity(),
            **environment(),
        )


def scores_path(records: RecordFile) -> Path:
    """Where a run's scores go: `test.jsonl` has them in `test.scores.json`."""
    return beside(records.path, ".scores.json")


def _write_whole(path: Path, value: dict[str, Any]) -> None:
    """Writes JSON so that a kill leaves the old file or the new one."""
    partial = path.with_name(path.name + ".partial")
    partial.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", "utf-8")
    os.replace(partial, path)
