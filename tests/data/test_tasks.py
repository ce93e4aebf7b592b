import gzip
import subprocess
import sys

import numpy as np
import pytest

from specdec_jax.data import tasks
from specdec_jax.data.batching import BucketedPairs
from specdec_jax.data.tokenizer import T5_IDS, Tokenizer
from specdec_jax.errors import DataError, SettingsError
from tests.task_data import ARTICLES, TRANSLATIONS, write_tfds, write_tsv


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    return str(write_tfds(tmp_path_factory.mktemp("tfds")))


@pytest.fixture
def vocabulary(tiny_pair):
    return str(tiny_pair.tokenizer.path)


@pytest.mark.parametrize(
    ("make", "prefix", "wanted"),
    [
        (tasks.wmt14_ende, "translate English to German: ", TRANSLATIONS),
        (tasks.cnn_dailymail, "summarize: ", ARTICLES),
    ],
)
def test_a_tfds_split_becomes_ids_that_are_the_tokenizers_own(
    data_dir, vocabulary, make, prefix, wanted
):
    task = make(vocabulary, data_dir=data_dir)
    examples = task.examples("test")
    assert [e.index for e in examples] == list(range(len(wanted)))
    # TFDS has an order of its own, the same every time.
    assert {(e.source, e.target) for e in examples} == {
        (prefix + source, target) for source, target in wanted
    }
    assert task.examples("test") == examples
    assert task.examples("test", limit=2) == examples[:2]
    tokenizer = Tokenizer(vocabulary)
    for example in examples:
        assert example.inputs == tokenizer.encode(example.source)
        assert example.targets == tokenizer.encode(example.target)


def test_long_rows_are_truncated_and_still_end_with_eos(data_dir, vocabulary):
    whole = tasks.wmt14_ende(vocabulary, data_dir=data_dir).examples("test")
    cut = tasks.wmt14_ende(vocabulary, 20, 5, data_dir=data_dir).examples("test")
    for a, b in zip(whole, cut, strict=True):
        assert len(a.inputs) > 20 and len(a.targets) > 5
        assert b.inputs == [*a.inputs[:19], T5_IDS.eos_id]
        assert b.targets == [*a.targets[:4], T5_IDS.eos_id]
        assert (b.source, b.target) == (a.source, a.target)


def test_a_task_is_in_seqios_registry_as_it_was_made_last(data_dir, vocabulary):
    import seqio

    tasks.wmt14_ende(vocabulary, data_dir=data_dir)
    last = tasks.wmt14_ende(vocabulary, 20, data_dir=data_dir)
    assert seqio.TaskRegistry.get("wmt14_ende") is last.task
    assert isinstance(last.task, seqio.Task)


def test_training_pairs_are_flat_and_make_the_batches_that_lists_make(
    data_dir, vocabulary
):
    task = tasks.wmt14_ende(vocabulary, data_dir=data_dir)
    pairs = task.training_pairs("train")
    lists = [(e.inputs, e.targets) for e in task.examples("train")]
    assert lists != [(e.inputs, e.targets) for e in task.examples("test")]
    assert list(pairs) == pairs[:] == lists
    assert pairs[-1] == lists[-1] and pairs[1:3] == lists[1:3]
    with pytest.raises(IndexError):
        pairs[len(lists)]
    assert list(task.training_pairs("train", limit=2)) == lists[:2]
    ours, theirs = (
        BucketedPairs(p, (48, 96), 256, seed=0, special_ids=T5_IDS)
        for p in (pairs, lists)
    )
    assert ours.batches_per_epoch == theirs.batches_per_epoch
    for step in range(2 * ours.batches_per_epoch):
        for a, b in zip(
            vars(ours.batch(step)).values(),
            vars(theirs.batch(step)).values(),
            strict=True,
        ):
            np.testing.assert_array_equal(a, b)


def test_lines_of_a_tsv_file_keep_their_order(vocabulary, tmp_path):
    pairs = [("a dog", "ein Hund"), ("", "nichts"), ("two men", "zwei\u2028Männer")]
    path = tmp_path / "pairs.tsv.gz"
    path.write_bytes(gzip.compress("".join(f"{a}\t{b}\n" for a, b in pairs).encode()))
    task = tasks.tsv_pairs(vocabulary, {"test": str(path)}, "mine", prefix="say: ")
    examples = task.examples("test")
    assert [(e.source, e.target) for e in examples] == [
        ("say: " + a, b) for a, b in pairs
    ]
    assert task.name == "mine"


def test_data_that_cannot_be_used_is_named(vocabulary, tmp_path):
    files = {
        "one": write_tsv(tmp_path / "one.tsv", [("a", "b"), ("c", "d\te")]),
        "empty": write_tsv(tmp_path / "empty.tsv", []),
        "missing": str(tmp_path / "missing.tsv"),
    }
    task = tasks.tsv_pairs(vocabulary, files)
    for split, words in {
        "one": "one.tsv:2 has 2 tabs",
        "empty": "no row in split 'empty'",
        "missing": "missing.tsv",
        "dev": "no split 'dev': give one of empty, missing, one",
    }.items():
        with pytest.raises(DataError, match=words):
            task.examples(split)
        with pytest.raises(DataError, match=words):
            task.training_pairs(split)
    unknown = tasks.wmt14_ende(vocabulary, data_dir=str(tmp_path), data="nothing:1.0.0")
    with pytest.raises(DataError, match="cannot load the data of wmt14_ende"):
        unknown.examples("test")


def test_arguments_that_cannot_be_used_are_named(vocabulary, tmp_path):
    with pytest.raises(DataError, match="nowhere.model"):
        tasks.wmt14_ende(str(tmp_path / "nowhere.model"))
    with pytest.raises(SettingsError, match="targets_length must be at least 2"):
        tasks.cnn_dailymail(vocabulary, targets_length=1)
    with pytest.raises(SettingsError, match="'chrf'"):
        tasks.tsv_pairs(vocabulary, {}, metric="chrf")


@pytest.mark.parametrize("package", ["seqio", "tensorflow"])
def test_a_missing_package_is_one_clear_line(vocabulary, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    for make in (
        lambda: tasks.wmt14_ende(vocabulary),
        lambda: tasks.cnn_dailymail(vocabulary),
        lambda: tasks.tsv_pairs(vocabulary, {}),
    ):
        with pytest.raises(SettingsError) as raised:
            make()
        message = str(raised.value)
        assert f"package {package} " in message and "\n" not in message
        assert "pip install -e '.[seqio]'" in message


def test_reading_the_modules_imports_neither_seqio_nor_tensorflow():
    program = (
        "import sys; from specdec_jax.cli import gin_bindings; "
        "gin_bindings.register(); "
        "print({'seqio', 'tensorflow'} & sys.modules.keys())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=300
    )
    assert done.stdout.strip() == "set()", done.stderr


def test_tensorflow_leaves_the_accelerators_to_jax(vocabulary):
    import tensorflow as tf

    tasks.tsv_pairs(vocabulary, {})
    assert tf.config.get_visible_devices("GPU") == []
    assert tf.config.get_visible_devices("CPU") != []
