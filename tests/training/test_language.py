"""Small GPTs learn a text that the test makes, and are a pair then."""

import dataclasses
import json

import numpy as np
import pytest

import specdec_jax as sd
from specdec_jax.data.tokenizer import Tokenizer
from specdec_jax.errors import SettingsError
from specdec_jax.training.language import PlainText, train_language_model
from specdec_jax.training.loop import TrainConfig
from specdec_jax.training.optimizers import OptimizerConfig
from tests.tiny_pairs import SENTENCES, VOCAB_SIZE, tiny_gpt_config

CONFIG = TrainConfig(
    total_steps=60,
    tokens_per_batch=512,
    boundaries=(64,),
    optimizer=OptimizerConfig(learning_rate=3e-2, warmup_steps=5, cooldown_steps=20),
    label_smoothing=0.0,
    average_decay=0.8,
    validate_every=20,
    checkpoint_every=60,
)
TARGET = tiny_gpt_config(32, 2, dropout_rate=0.0)
DRAFTER = tiny_gpt_config(16, 1, dropout_rate=0.0)


def write(folder, name, lines):
    (folder / name).write_text("".join(line + "\n" for line in lines), "utf-8")


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    folder = tmp_path_factory.mktemp("text")
    write(folder, "train", [*SENTENCES, ""] * 8)
    write(folder, "val", SENTENCES)
    return PlainText(str(folder), "train", "val")


@pytest.fixture(scope="module")
def trained(text, tmp_path_factory):
    """A target, and a drafter with its tokenizer."""
    folder = tmp_path_factory.mktemp("trained")
    train_language_model(str(folder / "target"), text, TARGET, CONFIG).run()
    tokenizer = str(folder / "target" / "spiece.model")
    train_language_model(
        str(folder / "drafter"), text, DRAFTER, CONFIG, tokenizer
    ).run()
    return folder


def losses(folder):
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line)["validation_nll"] for line in lines]


def test_the_loss_falls_below_what_single_tokens_would_give(trained, text):
    tokenizer = Tokenizer(trained / "target" / "spiece.model")
    assert tokenizer.vocab_size == VOCAB_SIZE
    ids = np.concatenate([tokenizer.encode(line) for line in text.lines("train")])
    share = np.bincount(ids) / len(ids)
    entropy = -np.sum(share * np.log(np.maximum(share, 1e-9)))
    for side in ("target", "drafter"):
        found = losses(trained / side)
        assert found == sorted(found, reverse=True) and len(found) == 3
        assert found[-1] < 0.8 * entropy


def test_the_exported_models_are_a_pair_that_goes_on_from_texts(trained):
    pair = sd.load_pair(
        target=trained / "target/model", drafter=trained / "drafter/model"
    )
    texts = [" ".join(line.split()[:3]) for line in SENTENCES] + [""]
    settings = sd.DecodeSettings(gamma=3, max_new_tokens=40)
    out = sd.generate(pair, texts, settings, seed=0)
    base = sd.generate(pair, texts, settings, seed=0, method="autoregressive")
    np.testing.assert_array_equal(out.tokens, base.tokens)
    assert out.stats.total().accepted > 20
    assert (out.stats.target_calls <= out.lengths).all()


def test_what_does_not_fit_together_is_named(text, trained, tmp_path):
    folder = str(tmp_path)
    long = dataclasses.replace(CONFIG, boundaries=(32, 128))
    with pytest.raises(SettingsError, match="up to 128 and the model knows 96"):
        train_language_model(folder, text, TARGET, long)
    other = tiny_gpt_config(vocab_size=VOCAB_SIZE - 1)
    with pytest.raises(SettingsError, match=f"has {VOCAB_SIZE} pieces and the model"):
        train_language_model(
            folder, text, other, CONFIG, str(trained / "target" / "spiece.model")
        )
