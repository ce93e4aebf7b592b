"""Datasets as seqio tasks, in T5's text format.

seqio and TensorFlow come with the extra "seqio" and are imported when a task is made;
reading this file needs neither.
"""

import contextlib
import dataclasses
import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rich import progress
from rich.console import Console

from specdec_jax.data.examples import Example, TokenPairs
from specdec_jax.data.extras import package
from specdec_jax.data.metrics import Metric, bleu, rouge
from specdec_jax.data.text import read_lines
from specdec_jax.data.tokenizer import Tokenizer
from specdec_jax.errors import DataError, SettingsError
from specdec_jax.typing import Any, Callable


@dataclasses.dataclass(frozen=True)
class TextTask:
    """A task in seqio's registry, with the lengths that its ids are truncated to.

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
    source = seqio_and_tensorflow()[0].TfdsDataSource(data, tfds_data_dir=data_dir)
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
    source = seqio_and_tensorflow()[0].TfdsDataSource(data, tfds_data_dir=data_dir)
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
    seqio, tf = seqio_and_tensorflow()

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


def _add_task(
    name: str,
    source: Any,
    columns: tuple[str, str],
    prefix: str,
    metrics: list[Metric],
    vocabulary: str,
    lengths: dict[str, int],
) -> TextTask:
    """A task of two columns, one the source and one the target."""
    seqio, tf = seqio_and_tensorflow()

    @seqio.map_over_dataset
    def text_to_text(row):
        inputs = tf.strings.join([prefix, row[columns[0]]])
        return {"inputs": inputs, "targets": row[columns[1]]}

    return register_task(
        name,
        source,
        lambda _: [text_to_text, seqio.preprocessors.tokenize],
        metrics,
        vocabulary,
        lengths,
    )


def register_task(
    name: str,
    source: Any,
    preprocessors: Callable[[Any], list[Any]],
    metrics: list[Metric],
    vocabulary: str,
    lengths: dict[str, int],
    answers: bool = True,
) -> TextTask:
    """Registers a task under its name; a later call with that name replaces it.

    Args:
      name: of the task.
      source: seqio's, of the data.
      preprocessors: given seqio's vocabulary, what makes rows of ids, "inputs" and
        "targets", and of texts, "inputs_pretokenized" and "targets_pretokenized".
      metrics: of the task.
      vocabulary: a SentencePiece model.
      lengths: the most ids of either side.
      answers: whether targets answer inputs, which then end with EOS too, or
        continue them.

    Raises:
      SettingsError: a length is below what a side must hold.
      DataError: the vocabulary cannot be loaded.
    """
    seqio, _ = seqio_and_tensorflow()
    for side, length in lengths.items():
        if length < 2 and (answers or side == "targets"):
            raise SettingsError(
                f"{side}_length must be at least 2, a token and EOS, not {length}"
            )
    if not vocabulary.startswith("gs://"):
        vocabulary = str(Path(vocabulary).expanduser())
    Tokenizer(vocabulary)  # seqio would only find out later, in a graph
    pieces = seqio.SentencePieceVocabulary(vocabulary)
    if name in seqio.TaskRegistry.names():
        seqio.TaskRegistry.remove(name)
    task = seqio.TaskRegistry.add(
        name,
        source=source,
        preprocessors=[
            *preprocessors(pieces),
            seqio.CacheDatasetPlaceholder(),
            seqio.preprocessors.append_eos_after_trim,
        ],
        output_features={
            "inputs": seqio.Feature(pieces, add_eos=answers),
            "targets": seqio.Feature(pieces, add_eos=True),
        },
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


def seqio_and_tensorflow() -> tuple[Any, Any]:
    """The modules seqio and tensorflow; the accelerators are left to JAX."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    seqio, tf = package("seqio"), package("tensorflow")
    for kind in ("GPU", "TPU"):
        with contextlib.suppress(RuntimeError):  # TensorFlow has begun to use them
            tf.config.set_visible_devices([], kind)
    return seqio, tf
