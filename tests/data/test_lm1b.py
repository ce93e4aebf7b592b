"""lm1b, from a small folder such as TFDS prepares."""

import numpy as np
import pytest

from specdec_jax import DecodeSettings
from specdec_jax.cli.decode_task import TaskRun
from specdec_jax.data.batching import BucketedPairs
from specdec_jax.data.lm1b import lm1b
from specdec_jax.data.tokenizer import T5_IDS, Tokenizer
from specdec_jax.errors import DataError, SettingsError
from specdec_jax.experiments.record_file import RecordFile
from specdec_jax.generation import generate
from specdec_jax.training.language import WholeSequences
from tests.task_data import write_lm1b
from tests.tiny_pairs import SENTENCES


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    return str(write_lm1b(tmp_path_factory.mktemp("tfds")))


@pytest.fixture
def vocabulary(gpt_pair):
    return str(gpt_pair.tokenizer.path)


def test_rows_are_split_after_their_first_tokens(data_dir, vocabulary):
    task, tokenizer = lm1b(vocabulary, 5, data_dir=data_dir), Tokenizer(vocabulary)
    examples = task.examples("test")
    found = {tuple(e.inputs + e.targets) for e in examples}
    assert found == {tuple(tokenizer.encode(text)) for text in (*SENTENCES, "a")}
    for example in examples:
        assert len(example.inputs) == 5 or example.targets == [T5_IDS.eos_id]
        assert example.source == tokenizer.decode(example.inputs)
        assert example.target == tokenizer.decode(example.targets)
    assert task.examples("test", limit=2) == examples[:2]


def test_without_a_prompt_rows_are_whole_and_long_ones_truncated(data_dir, vocabulary):
    whole = lm1b(vocabulary, 0, data_dir=data_dir).examples("train")
    assert {tuple(e.inputs) for e in whole} == {()}
    assert {e.source for e in whole} == {""}
    assert {e.target for e in whole} == set(SENTENCES)
    cut = lm1b(vocabulary, 0, 7, data_dir=data_dir).examples("train")
    for a, b in zip(whole, cut, strict=True):
        assert b.targets == [*a.targets[:6], T5_IDS.eos_id]


def test_whole_texts_make_batches_that_learn_prompts_too(data_dir, vocabulary):
    pairs = lm1b(vocabulary, 5, data_dir=data_dir).training_pairs("train")
    texts = WholeSequences(pairs)
    expected = [([], source + target) for source, target in pairs]
    assert list(texts) == texts[:] == expected
    assert texts[-1] == expected[-1] and texts[1:3] == expected[1:3]
    batch = BucketedPairs(texts, (64,), 512, 0, T5_IDS).batch(0)
    assert batch.weights.sum() == sum(len(target) for _, target in expected)
    np.testing.assert_array_equal(batch.decoder_inputs[:, 0], 0)
    np.testing.assert_array_equal(
        batch.decoder_inputs[:, 1:], batch.decoder_targets[:, :-1]
    )


def test_a_split_is_continued_and_recorded_without_scores(
    data_dir, gpt_pair, vocabulary, tmp_path
):
    settings = DecodeSettings(gamma=2, temperature=1.0, max_new_tokens=12)
    task = lm1b(vocabulary, 5, data_dir=data_dir)
    records = RecordFile(tmp_path / "out.jsonl")
    run = TaskRun(pair=gpt_pair, task=task, settings=settings, batch_size=4)
    summary = run(records)
    assert summary.scores == {}
    examples, rows = task.examples("test"), list(records)
    assert [row.input for row in rows] == [e.source for e in examples]
    assert len(rows) % 4  # the last batch was filled up
    whole = [
        e
        for e in examples
        if gpt_pair.tokenizer.encode(e.source) == [*e.inputs, T5_IDS.eos_id]
    ]
    for example in whole[:2]:  # cut between words, texts give the same ids again
        texts, ids = [example.source] * 4, [example.index] * 4
        out = generate(gpt_pair, texts, settings, seed=0, row_ids=ids)
        assert rows[example.index].output == out.texts[0]
    assert whole


def test_what_cannot_be_used_is_named(data_dir, vocabulary):
    with pytest.raises(SettingsError, match="prompt_length must be at least 0"):
        lm1b(vocabulary, -1)
    with pytest.raises(SettingsError, match="targets_length must be at least 2"):
        lm1b(vocabulary, 3, 1)
    with pytest.raises(DataError, match="no split 'validation': give one of test, tr"):
        lm1b(vocabulary, data_dir=data_dir).examples("validation")
