"""Both sides are opened once and compared before the weights of either are read."""

import dataclasses
import shutil

import jax
import numpy as np
import pytest

import specdec_jax as sd
from specdec_jax import loading
from specdec_jax.checkpoints import native, weights
from specdec_jax.data.tokenizer import TOKENIZER_FILE, train_tokenizer
from tests.tiny_pairs import (
    SENTENCES,
    VOCAB_SIZE,
    random_params,
    tiny_config,
    tiny_gpt_config,
)


@pytest.fixture
def folder(pair_folder, tmp_path):
    return shutil.copytree(pair_folder, tmp_path / "pair")


@pytest.fixture
def no_weights(monkeypatch):
    """Reading any part of a tensor fails the test."""

    def poisoned(*args):
        raise AssertionError("weights were read before all was compared")

    monkeypatch.setattr(weights, "read_all", poisoned)


def another_tokenizer(folder):
    words = [" ".join(reversed(text.split())) for text in SENTENCES]
    train_tokenizer(words * 4, folder / "drafter" / TOKENIZER_FILE, VOCAB_SIZE)


def another_size(folder):
    config = tiny_config(16, 1, vocab_size=40)
    params = random_params(config, 1)
    native.save(folder / "drafter", config, params, "float32")
    train_tokenizer(SENTENCES * 4, folder / "drafter" / TOKENIZER_FILE, 40)


def a_gpt(folder):
    config = tiny_gpt_config(16, 1)
    native.save(folder / "drafter", config, random_params(config, 1), "float32")


def a_missing_tensor(folder):
    config = tiny_config(16, 1)
    params = random_params(config, 1)
    del params["decoder"]["logits_dense"]
    native.save(folder / "drafter", config, params, "float32")


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (another_tokenizer, sd.PairError, "have different vocabularies"),
        (another_size, sd.PairError, "have different vocabularies"),
        (a_gpt, sd.PairError, "the target is a T5 and the drafter a GPT"),
        (a_missing_tensor, sd.CheckpointError, "lacks tensor decoder/logits_dense"),
    ],
)
def test_what_can_be_refused_is_refused_before_a_weight_is_read(
    folder, no_weights, change, error, words
):
    change(folder)
    with pytest.raises(error, match=words):
        sd.load_pair(folder)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"name": None}, "name must be a name or a path, not None"),
        ({"target": ""}, "target must be a name or a path, not ''"),
        ({"tokenizer": 5}, "tokenizer must be a name or a path, not 5"),
        ({"target_config": {}}, "target_config must be a configuration"),
        ({"shard_drafter": "no"}, "shard_drafter must be True, False or None"),
        ({"drafter_params": {"a": np.ones(1)}}, "are for a drafter of your own"),
        (
            {"drafter": "uniform", "drafter_config": tiny_config()},
            "drafter_config is for a drafter that is a checkpoint",
        ),
    ],
)
def test_arguments_of_no_use_are_named(unannotated, no_weights, given, words):
    with pytest.raises(sd.SettingsError, match=words):
        sd.load_pair(**given)


def test_a_mesh_that_there_is_not_is_refused_before_a_weight_is_read(
    folder, no_weights
):
    count = len(jax.devices()) + 1
    with pytest.raises(sd.SettingsError, match=f"needs {count} devices"):
        sd.load_pair(folder, mesh=(1, count))


@pytest.mark.parametrize("mesh", ["auto", None, (1, 1)])
def test_each_checkpoint_is_opened_once(folder, monkeypatch, mesh):
    opened, inner = [], loading.open_checkpoint

    def counted(path, config=None):
        opened.append(str(path))
        return inner(path, config)

    monkeypatch.setattr(loading, "open_checkpoint", counted)
    sd.load_pair(folder, mesh=mesh)
    assert opened == [str(folder / "target"), str(folder / "drafter")]


def test_a_path_may_begin_at_home(folder, monkeypatch):
    monkeypatch.setenv("HOME", str(folder.parent))
    pair = sd.load_pair("~/pair")
    assert pair.tokenizer.vocab_size == VOCAB_SIZE
    sides = {side: f"~/pair/{side}" for side in ("target", "drafter")}
    pair = sd.load_pair(**sides, tokenizer=f"~/pair/{TOKENIZER_FILE}")
    assert pair.tokenizer.vocab_size == VOCAB_SIZE


def test_a_pair_shows_itself_in_one_line_without_its_weights(tiny_pair):
    shown = repr(tiny_pair)
    assert "\n" not in shown and len(shown) < 200
    assert tiny_pair.name in shown and "NeuralDrafter" in shown and "float32" in shown
    small = dataclasses.replace(tiny_pair, name="x")
    assert repr(small).startswith("Pair('x': target 0.0M, NeuralDrafter 0.0M")
