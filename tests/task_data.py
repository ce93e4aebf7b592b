"""Small data of tasks: TFDS folders with the public names, TSV files, and lists."""

import dataclasses
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from specdec_jax.data.tasks import TextTask
from specdec_jax.data.tokenizer import Tokenizer
from tests.tiny_pairs import SENTENCES

# With a prefix every source has 49 to 64 ids in the tiny pair's vocabulary, so that all
# batches of one size share their programs.
PREFIX = "translate English to German: "
TRANSLATIONS = tuple(
    (f"{a} today", b) for a, b in zip(SENTENCES, reversed(SENTENCES), strict=True)
)
ARTICLES = tuple(
    (f"{a} . {b} . ", f"{b} .\nthe end of {a} .")
    for a, b in zip(SENTENCES[:3], SENTENCES[1:4], strict=True)
)


def write_tfds(folder: Path) -> Path:
    """Prepares both public datasets, of a few rows, as TFDS keeps them."""
    import tensorflow_datasets as tfds

    text = tfds.features.Text()
    tfds.dataset_builders.store_as_tfds_dataset(
        name="wmt_t2t_translate",
        version="1.0.0",
        config="de-en",
        data_dir=folder,
        features=tfds.features.Translation(languages=("de", "en")),
        split_datasets={
            "train": _keyed({"en": e, "de": d} for d, e in TRANSLATIONS),
            "test": _keyed({"en": e, "de": d} for e, d in TRANSLATIONS),
        },
    )
    tfds.dataset_builders.store_as_tfds_dataset(
        name="cnn_dailymail",
        version="3.4.0",
        data_dir=folder,
        features=tfds.features.FeaturesDict(
            {"article": text, "highlights": text, "id": text, "publisher": text}
        ),
        split_datasets={
            "test": _keyed(
                {"article": a, "highlights": h, "id": h, "publisher": "none"}
                for a, h in ARTICLES
            ),
        },
    )
    return folder


def write_lm1b(folder: Path) -> Path:
    """Prepares lm1b, of a few rows, one of them of a single word."""
    import tensorflow_datasets as tfds

    splits = {"train": SENTENCES, "test": (*SENTENCES, "a")}
    tfds.dataset_builders.store_as_tfds_dataset(
        name="lm1b",
        version="1.1.0",
        data_dir=folder,
        features=tfds.features.FeaturesDict({"text": tfds.features.Text()}),
        split_datasets={
            split: _keyed({"text": text} for text in texts)
            for split, texts in splits.items()
        },
    )
    return folder


def _keyed(rows) -> list:
    return list(enumerate(rows))


def write_tsv(path: Path, pairs) -> str:
    """Pairs, one a line."""
    path.write_text("".join(f"{a}\t{b}\n" for a, b in pairs), "utf-8")
    return str(path)


@dataclasses.dataclass(frozen=True)
class ListTask:
    """What a `TextTask` needs of a seqio task, for pairs in memory, without seqio."""

    tokenizer: Tokenizer
    pairs: tuple
    name: str = "list"
    splits: tuple = ("test",)

    def get_dataset(self, **_):
        def rows():
            for pair in self.pairs:
                row = {}
                for side, text in zip(("inputs", "targets"), pair, strict=True):
                    row[side] = np.asarray(self.tokenizer.encode(text), np.int32)
                    row[f"{side}_pretokenized"] = text.encode()
                yield row

        return SimpleNamespace(as_numpy_iterator=rows)

    @property
    def metric_fns(self):
        return [lambda references, outputs: {"letters": float(len("".join(outputs)))}]


def list_task(tokenizer: Tokenizer, pairs=TRANSLATIONS) -> TextTask:
    """A task of pairs in memory; its sources have one length bucket, as with PREFIX."""
    pairs = tuple((PREFIX + a, b) for a, b in pairs)
    lengths = {"inputs": 512, "targets": 512}
    return TextTask(ListTask(tokenizer, pairs), str(tokenizer.path), lengths)
