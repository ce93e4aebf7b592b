"""What peers get: the same logits, without the padding of the vocabulary."""

import jax.numpy as jnp
import numpy as np
import pytest

import specdec_jax as sd
from specdec_jax.checkpoints import native
from specdec_jax.checkpoints.formats import open_checkpoint
from specdec_jax.experiments.peers.shared_weights import unpadded, write_huggingface
from specdec_jax.models.t5 import T5
from tests.tiny_pairs import PADDED_VOCAB_SIZE, VOCAB_SIZE, random_params, tiny_config


def logits_of(config, params):
    source = jnp.array([[5, 9, 40, 1], [7, 1, 0, 0]])
    outputs = jnp.array([[0, 6, 49], [0, 3, 3]])
    return np.asarray(T5(config).apply({"params": params}, source, source > 0, outputs))


@pytest.mark.parametrize("tied", [False, True])
def test_only_the_padding_is_gone(pair_folder, tmp_path, tied):
    original = tiny_config(logits_via_embedding=tied)
    native.save(tmp_path, original, random_params(original, 3), "float32")
    config, params = unpadded(tmp_path, pair_folder / "spiece.model")
    assert (config.vocab_size, config.padded_vocab_size) == (VOCAB_SIZE, VOCAB_SIZE)
    found = logits_of(config, params)
    checkpoint = open_checkpoint(tmp_path)
    expected = logits_of(checkpoint.config, checkpoint.load("float32"))
    assert expected.shape[-1] == PADDED_VOCAB_SIZE
    np.testing.assert_allclose(found, expected[..., :VOCAB_SIZE], rtol=1e-5, atol=1e-5)


def test_a_pair_is_written_as_hugging_face_has_it(pair_folder, tmp_path):
    tokenizer = pair_folder / "spiece.model"
    sides = [str(pair_folder / side) for side in ("target", "drafter")]
    folders = write_huggingface(*sides, str(tokenizer), tmp_path)
    for written, ours in zip(folders, sides, strict=True):
        again = open_checkpoint(written)
        assert again.format == "huggingface"
        assert again.config.padded_vocab_size == VOCAB_SIZE
        expected = unpadded(ours, tokenizer)
        np.testing.assert_array_equal(
            logits_of(again.config, again.load("float32")), logits_of(*expected)
        )


@pytest.mark.parametrize("drafter", ["prompt_lookup", "ngram:FILE"])
def test_a_drafter_that_is_no_network_is_not_written(pair_folder, tmp_path, drafter):
    target, tokenizer = pair_folder / "target", pair_folder / "spiece.model"
    folders = write_huggingface(str(target), drafter, str(tokenizer), tmp_path)
    assert folders == (str(tmp_path / "target"), None)
    assert not (tmp_path / "drafter").exists()


def test_a_pair_says_what_it_was_loaded_from(pair_folder):
    pair = sd.load_pair(pair_folder)
    sides = tuple(str(pair_folder / side) for side in ("target", "drafter"))
    assert pair.checkpoints == sides
    again = sd.load_pair(target=sides[0], drafter="prompt_lookup", tokenizer=None)
    assert again.checkpoints == (sides[0], "prompt_lookup")
