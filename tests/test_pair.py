import json
import shutil

import numpy as np
import pytest

import specdec_jax as sd
from specdec_jax.checkpoints import native
from specdec_jax.data.tokenizer import TOKENIZER_FILE, train_tokenizer
from tests.tiny_pairs import SENTENCES, VOCAB_SIZE, random_params, tiny_config


@pytest.fixture
def folder(pair_folder, tmp_path):
    return shutil.copytree(pair_folder, tmp_path / "pair")


def test_an_unknown_pair_is_named_with_what_there_is(tmp_path):
    with pytest.raises(sd.PairError, match="'no_such_pair'.*target/, drafter/"):
        sd.load_pair("no_such_pair")
    with pytest.raises(sd.PairError, match="no pair"):
        sd.load_pair(tmp_path)


def test_each_side_can_be_given_on_its_own(folder):
    pair = sd.load_pair(folder, drafter=folder / "target")
    settings = sd.DecodeSettings(gamma=3, max_new_tokens=8)
    out = sd.generate(pair, [SENTENCES[0]], settings, seed=0)
    assert out.stats.rejected.sum() == 0  # the target drafts for itself


def test_different_pieces_are_refused(folder):
    other = folder / "drafter" / TOKENIZER_FILE
    train_tokenizer([s.replace("dog", "cat") for s in SENTENCES * 4], other, VOCAB_SIZE)
    with pytest.raises(sd.PairError, match="different vocabularies"):
        sd.load_pair(folder)


def test_a_vocabulary_size_that_is_not_the_tokenizers_is_refused(folder):
    path = folder / "target" / native.CONFIG_FILE
    fields = json.loads(path.read_text()) | {"vocab_size": VOCAB_SIZE - 1}
    path.write_text(json.dumps(fields))
    with pytest.raises(sd.CheckpointError, match=f"{VOCAB_SIZE} pieces"):
        sd.load_pair(folder)


@pytest.mark.parametrize("padded", [50, 64])
def test_sides_of_one_vocabulary_may_be_padded_differently(folder, padded):
    config = tiny_config(16, 1, padded_vocab_size=padded)
    native.save(folder / "drafter", config, random_params(config, 0))
    pair = sd.load_pair(folder)
    settings = sd.DecodeSettings(gamma=3, max_new_tokens=12)
    out = sd.generate(pair, SENTENCES, settings, seed=0)
    base = sd.generate(pair, SENTENCES, settings, seed=0, method="autoregressive")
    np.testing.assert_array_equal(out.tokens, base.tokens)
    assert out.stats.drafted.sum() > 0


def test_a_folder_without_a_tokenizer_is_named(folder):
    (folder / TOKENIZER_FILE).unlink()
    with pytest.raises(sd.CheckpointError, match=TOKENIZER_FILE):
        sd.load_pair(folder)


def test_float16_is_refused(folder):
    with pytest.raises(ValueError, match="overflows"):
        sd.load_pair(folder, dtype="float16")
