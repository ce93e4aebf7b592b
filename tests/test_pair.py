import functools
import json
import shutil

import numpy as np
import pytest

import specdec_jax as sd
from specdec_jax.checkpoints import native
from specdec_jax.checkpoints import ngram_file as ngram
from specdec_jax.data.tokenizer import TOKENIZER_FILE, Tokenizer, train_tokenizer
from specdec_jax.training.fit_ngram import fit_ngram
from tests import reference
from tests.tiny_pairs import SENTENCES, VOCAB_SIZE, random_params, tiny_config


def test_a_path_is_never_taken_for_a_packaged_pair(pair_folder, tmp_path):
    shutil.copytree(pair_folder, tmp_path / "demo_ende")
    pair = sd.load_pair(tmp_path / "demo_ende")
    assert pair.tokenizer.vocab_size == VOCAB_SIZE


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


def test_weights_at_one_place_are_told_apart(folder):
    """As after more training."""
    first = sd.load_pair(folder).about
    assert sd.load_pair(folder).about == first
    seen = [first["weights"]]
    for side in ("drafter", "target"):
        config = native.open_folder(folder / side).config
        native.save(folder / side, config, random_params(config, 77), "float32")
        seen.append(sd.load_pair(folder).about["weights"])
    file = folder / "bigram.safetensors"
    for texts in ([[5, 6, 7, 1]], [[5, 6, 7, 8, 1]]):
        ngram.save(
            file, fit_ngram(texts, VOCAB_SIZE, 2), Tokenizer(folder / TOKENIZER_FILE)
        )
        seen.append(sd.load_pair(folder, drafter=f"ngram:{file}").about["weights"])
    assert len(set(seen)) == len(seen)


@pytest.fixture
def drafters(folder, tokenizer):
    """What `load_pair` takes besides checkpoints, an n-gram for each order."""
    given = ["prompt_lookup", "repeat_last", "uniform"]
    for order in (1, 3):
        file = folder / f"{order}.safetensors"
        texts = [tokenizer.encode(text) for text in SENTENCES]
        ngram.save(file, fit_ngram(texts, VOCAB_SIZE, order), tokenizer)
        given.append(f"ngram:{file}")
    return given


@pytest.fixture
def tokenizer(folder):
    return Tokenizer(folder / TOKENIZER_FILE)


def test_drafters_without_a_network_are_named_beside_a_target(folder, drafters):
    pairs = [sd.load_pair(folder, drafter=drafter) for drafter in drafters]
    assert len({pair.name for pair in pairs}) == len(drafters)  # records are not mixed
    for pair in pairs:
        assert pair.drafter.vocab_size == pair.target.vocab_size == VOCAB_SIZE
    assert [pair.params.drafter.order for pair in pairs[3:]] == [1, 3]
    assert_decodes_as_the_target_alone(pairs[-1])


def assert_decodes_as_the_target_alone(pair):
    """Three sentences at once; returns what came out."""
    settings = sd.DecodeSettings(gamma=3, max_new_tokens=12)
    decode = functools.partial(sd.generate, pair, SENTENCES[:3], settings, seed=0)
    out, base = decode(), decode(method="autoregressive")
    np.testing.assert_array_equal(out.tokens, base.tokens)
    assert out.stats.drafted.sum() > 0
    return out


def test_prompt_lookup_reads_the_encoders_input(folder, tokenizer):
    out = assert_decodes_as_the_target_alone(
        sd.load_pair(folder, drafter="prompt_lookup")
    )
    for row, text in enumerate(SENTENCES[:3]):
        source, sequence = tokenizer.encode(text), [0, *out.tokens[row].tolist()]
        at = 1
        for step in np.flatnonzero(out.infos.num_emitted[:, row]):
            expected = reference.copied(source, sequence[:at], min(3, 12 - at))
            assert out.infos.gamma[step, row] == len(expected)
            found = out.infos.drafted[step, row, : len(expected)]
            assert found.tolist() == expected
            at += int(out.infos.num_emitted[step, row])


def test_a_drafter_that_is_not_there_is_named_with_what_there_is(folder, tokenizer):
    with pytest.raises(
        sd.PairError, match="no drafter 'copy': .* ngram:FILE, .*prompt_"
    ):
        sd.load_pair(folder, drafter="copy")
    with pytest.raises(sd.CheckpointError, match="nowhere.safetensors"):
        sd.load_pair(folder, drafter="ngram:nowhere.safetensors")
    file = folder / "small.safetensors"
    ngram.save(file, fit_ngram([[2, 3]], VOCAB_SIZE - 1), tokenizer)
    with pytest.raises(sd.PairError, match=f"{VOCAB_SIZE - 1} ids"):
        sd.load_pair(folder, drafter=f"ngram:{file}")


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
    with pytest.raises(sd.SettingsError, match="overflows"):
        sd.load_pair(folder, dtype="float16")
    with pytest.raises(sd.SettingsError, match="dtype must be one of"):
        sd.load_pair(folder, dtype="int8")
