"""Datasets as seqio tasks, in T5's text format: examples, batches, and scores.

seqio and TensorFlow come with the extra "seqio" and are imported when a task is made;
reading this file needs neither.
"""

import array
import contextlib
import dataclasses
import importlib
import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from rich import progress
from rich.console import Console

from specdec_jax.data.text import read_lines
from specdec_jax.data.tokenizer import EOS_ID, Tokenizer
from specdec_jax.errors import DataError, SettingsError
from specdec_jax.typing import Any, Callable

Metric = Callable[[Sequence[str], Sequence[str]], dict[str, float]]


@dataclasses.dataclass(frozen=True)
class Example:
    """One row of a split.

    Attributes:
      index: its place in the split.
      inputs, targets: ids, cut to the task's lengths and ended by EOS.
      source, target: the whole texts; the source with the task's prefix.
    """

    index: int
    inputs: list[int]
    targets: list[int]
    source: str
    target: str


@dataclasses.dataclass(frozen=True)
class DecodeBatch:
    """Rows to decode together; as many in every batch, the last one too.

    Attributes:
      examples: the rows that are wanted, in order; they come first.
      inputs: ids of all rows, B lists; a padding row is EOS alone.
      row_ids: B places in the split; 0 for padding rows.
      is_padding: [B] bool.
    """

    examples: list[Example]
    inputs: list[list[int]]
    row_ids: list[int]
    is_padding: np.ndarray


class TokenPairs(Sequence):
    """Ids of (source, target) of many rows, in two flat arrays.

    Millions of pairs as Python lists would take ten times the memory; here a pair
    becomes two lists when it is asked for.
    """

    def __init__(self, pairs: Iterable[tuple[np.ndarray, np.ndarray]]):
        """Copies pairs of int32 arrays, each read once."""
        flat = array.array("i"), array.array("i")
        ends = array.array("q", [0]), array.array("q", [0])
        for pair in pairs:
            for side in (0, 1):
                flat[side].frombytes(np.asarray(pair[side], np.int32).tobytes())
                ends[side].append(len(flat[side]))
        self._flat = tuple(np.frombuffer(tokens, np.int32) for tokens in flat)
        self._ends = tuple(np.frombuffer(offsets, np.int64) for offsets in ends)

    def __len__(self) -> int:
        return len(self._ends[0]) - 1

    def __getitem__(self, index: Any) -> Any:
        """A pair of lists, or for a slice a list of such pairs."""
        rows = range(len(self))[index]  # checks it, and counts from the end if negative
        if isinstance(rows, range):
            return [self[row] for row in rows]
        source, target = (
            tokens[ends[rows] : ends[rows + 1]].tolist()
            for tokens, ends in zip(self._flat, self._ends, strict=True)
        )
        return source, target


@dataclasses.dataclass(frozen=True)
class TextTask:
    """A task in seqio's registry, with the lengths that its ids are cut to.

    Attributes:
      task: the `seqio.Task`.
      vocabulary: the SentencePiece model that its ids are of.
      lengths: the most ids of "inputs" and of "targets", EOS included.
    """

    task: Any
    vocabulary: str
    lengths: dict[str, int]

    @property
    def name(self) -> str:
        return self.task.name

    def examples(self, split: str, limit: int | None = None) -> list[Example]:
        """The rows of a split, in the order of the data; the first `limit` of them.

        Raises:
          DataError: there is no such split, no such data, or no row in it.
        """
        rows = itertools.islice(self._rows(split), limit)
        found = [
            Example(
                index=index,
                inputs=row["inputs"].tolist(),
                targets=row["targets"].tolist(),
                source=row["inputs_pretokenized"].decode(),
                target=row["targets_pretokenized"].decode(),
            )
            for index, row in enumerate(rows)
        ]
        if not found:
            raise DataError(f"there is no row in split {split!r} of {self.name}")
        return found

    def training_pairs(
        self, split: str = "train", limit: int | None = None
    ) -> TokenPairs:
        """Ids of (source, target), for `BucketedPairs` and the trainer.

        Raises:
          DataError: as `examples`.
        """
        rows = progress.track(
            itertools.islice(self._rows(split), limit),
            f"{self.name}, {split}",
            total=limit or self.task.num_input_examples(split),
            console=Console(stderr=True),
            transient=True,
        )
        pairs = TokenPairs((row["inputs"], row["targets"]) for row in rows)
        if not pairs:
            raise DataError(f"there is no row in split {split!r} of {self.name}")
        return pairs

    def scores(
        self, references: Sequence[str], predictions: Sequence[str]
    ) -> dict[str, float]:
        """The task's metrics, each between 0 and 100, by name."""
        found = {}
        for metric in self.task.metric_fns:
            found |= metric(references, predictions)
        return found

    def _rows(self, split: str) -> Iterator[dict[str, Any]]:
        try:
            splits = self.task.splits
            if split not in splits:
                raise DataError(
                    f"{self.name} has no split {split!r}: give one of "
                    f"{', '.join(sorted(splits))}"
                )
            dataset = self.task.get_dataset(
                sequence_length=self.lengths,
                split=split,
                use_cached=False,
                shuffle=False,
            )
            yield from dataset.as_numpy_iterator()
        except DataError:
            raise
        except Exception as error:  # TFDS raises whatever its network or disk raised
            raise DataError(
                f"cannot load the data of {self.name}: {' '.join(str(error).split())}"
            ) from error


def wmt14_ende(
    vocabulary: str,
    inputs_length: int = 512,
    targets_length: int = 512,
    data_dir: str | None = None,
    data: str = "wmt_t2t_translate/de-en:1.0.0",
) -> TextTask:
    """English to German of WMT14, scored by BLEU.

    Args:
      vocabulary: a SentencePiece model, the pair's.
      inputs_length, targets_length: the most ids of each side, EOS included.
      data_dir: where TFDS keeps its data; its own default if not given.
      data: the TFDS name, with the version.

    Raises:
      SettingsError: the extra "seqio" is not installed, or a length is below 2.
      DataError: the vocabulary cannot be loaded.
    """
    source = _seqio()[0].TfdsDataSource(data, tfds_data_dir=data_dir)
    return _add_task(
        "wmt14_ende",
        source,
        ("en", "de"),
        "translate English to German: ",
        [bleu],
        vocabulary,
        {"inputs": inputs_length, "targets": targets_length},
    )


def cnn_dailymail(
    vocabulary: str,
    inputs_length: int = 512,
    targets_length: int = 512,
    data_dir: str | None = None,
    data: str = "cnn_dailymail:3.4.0",
) -> TextTask:
    """Summaries of CNN and Daily Mail articles, scored by ROUGE.

    Arguments and errors are those of `wmt14_ende`.
    """
    source = _seqio()[0].TfdsDataSource(data, tfds_data_dir=data_dir)
    return _add_task(
        "cnn_dailymail",
        source,
        ("article", "highlights"),
        "summarize: ",
        [rouge],
        vocabulary,
        {"inputs": inputs_length, "targets": targets_length},
    )


def tsv_pairs(
    vocabulary: str,
    files: Mapping[str, str],
    name: str = "tsv_pairs",
    prefix: str = "",
    metric: str = "bleu",
    inputs_length: int = 512,
    targets_length: int = 512,
) -> TextTask:
    """Pairs of your own: a line holds a source, a tab, and a target.

    Args:
      vocabulary: a SentencePiece model, the pair's.
      files: a file for each split, plain or gzip: {"test": "pairs.tsv"}.
      name: of the task; goes into records.
      prefix: put before every source.
      metric: "bleu" or "rouge".
      inputs_length, targets_length: the most ids of each side, EOS included.

    Raises:
      SettingsError: no such metric, or as `wmt14_ende`.
      DataError: the vocabulary cannot be loaded. A file is read when its split is
        asked for, which raises if there is none or a line has not one tab.
    """
    metrics = {"bleu": bleu, "rouge": rouge}
    if metric not in metrics:
        raise SettingsError(f"metric must be one of {set(metrics)}, not {metric!r}")
    seqio, tf = _seqio()

    def dataset(split, shuffle_files, seed=None):
        pairs = _read_tsv(files[split])
        sides = {"source": tf.TensorSpec((), tf.string)}
        sides["target"] = sides["source"]
        return tf.data.Dataset.from_generator(
            lambda: ({"source": s, "target": t} for s, t in pairs),
            output_signature=sides,
        )

    return _add_task(
        name,
        seqio.FunctionDataSource(dataset, splits=tuple(files)),
        ("source", "target"),
        prefix,
        [metrics[metric]],
        vocabulary,
        {"inputs": inputs_length, "targets": targets_length},
    )


def decode_batches(
    examples: Sequence[Example], batch_size: int, start: int = 0
) -> Iterator[DecodeBatch]:
    """Examples from place `start` on, in order, in batches of one size.

    Raises:
      SettingsError: the size is below 1.
    """
    if batch_size < 1:
        raise SettingsError(f"batch_size must be at least 1, not {batch_size}")
    for first in range(start, len(examples), batch_size):
        rows = list(examples[first : first + batch_size])
        padding = batch_size - len(rows)
        yield DecodeBatch(
            examples=rows,
            inputs=[row.inputs for row in rows] + [[EOS_ID]] * padding,
            row_ids=[row.index for row in rows] + [0] * padding,
            is_padding=np.arange(batch_size) >= len(rows),
        )


def bleu(targets: Sequence[str], predictions: Sequence[str]) -> dict[str, float]:
    """sacreBLEU of the corpus, cased and detokenized.

    "bleu" is sacreBLEU's own, with 13a tokens; "bleu_intl" is what T5 reports, with
    international tokens.
    """
    score = _package("sacrebleu").corpus_bleu
    return {
        name: score(list(predictions), [list(targets)], tokenize=tokens).score
        for name, tokens in (("bleu", "13a"), ("bleu_intl", "intl"))
    }


def rouge(targets: Sequence[str], predictions: Sequence[str]) -> dict[str, float]:
    """ROUGE-1, -2 and -Lsum: F1, without stemming, the mean over rows, times 100.

    As in T5, Lsum takes each " . " as the end of a sentence: SentencePiece turns line
    ends into spaces, so that no prediction has any.
    """
    names = ["rouge1", "rouge2", "rougeLsum"]
    scorer = _package("rouge_score.rouge_scorer").RougeScorer(names)
    rows = [
        scorer.score(target=_sentence_lines(a), prediction=_sentence_lines(b))
        for a, b in zip(targets, predictions, strict=True)
    ]
    return {
        name: float(100 * np.mean([row[name].fmeasure for row in rows]))
        for name in names
    }


def _sentence_lines(summary: str) -> str:
    return summary.replace(" . ", " .\n")


def _add_task(
    name: str,
    source: Any,
    columns: tuple[str, str],
    prefix: str,
    metrics: list[Metric],
    vocabulary: str,
    lengths: dict[str, int],
) -> TextTask:
    """Registers a task under its name; a later call with that name replaces it."""
    seqio, tf = _seqio()
    for side, length in lengths.items():
        if length < 2:
            raise SettingsError(
                f"{side}_length must be at least 2, a token and EOS, not {length}"
            )
    if not vocabulary.startswith("gs://"):
        vocabulary = str(Path(vocabulary).expanduser())
    Tokenizer(vocabulary)  # seqio would only find out later, in a graph

    @seqio.map_over_dataset
    def text_to_text(row):
        inputs = tf.strings.join([prefix, row[columns[0]]])
        return {"inputs": inputs, "targets": row[columns[1]]}

    feature = seqio.Feature(seqio.SentencePieceVocabulary(vocabulary), add_eos=True)
    if name in seqio.TaskRegistry.names():
        seqio.TaskRegistry.remove(name)
    task = seqio.TaskRegistry.add(
        name,
        source=source,
        preprocessors=[
            text_to_text,
            seqio.preprocessors.tokenize,
            seqio.CacheDatasetPlaceholder(),
            seqio.preprocessors.append_eos_after_trim,
        ],
        output_features={"inputs": feature, "targets": feature},
        metric_fns=metrics,
    )
    return TextTask(task, vocabulary, lengths)


def _read_tsv(path: str | os.PathLike) -> list[list[str]]:
    pairs = [line.split("\t") for line in read_lines(path)]
    for number, pair in enumerate(pairs, 1):
        if len(pair) != 2:
            raise DataError(
                f"{path}:{number} has {len(pair) - 1} tabs: a line must hold a source, "
                "one tab, and a target"
            )
    return pairs


def _seqio() -> tuple[Any, Any]:
    """The modules seqio and tensorflow; the accelerators are left to JAX."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    seqio, tf = _package("seqio"), _package("tensorflow")
    for kind in ("GPU", "TPU"):
        with contextlib.suppress(RuntimeError):  # TensorFlow has begun to use them
            tf.config.set_visible_devices([], kind)
    return seqio, tf


def _package(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise SettingsError(
            f"tasks need the package {name} ({error}): pip install -e '.[seqio]'"
        ) from error
