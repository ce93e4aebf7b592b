"""One entry for all formats, and conversions between them."""

import dataclasses

import numpy as np
import pytest

import specdec_jax as sd
from specdec_jax.checkpoints import formats
from specdec_jax.errors import CheckpointError
from tests.tiny_pairs import SENTENCES

SETTINGS = sd.DecodeSettings(gamma=3, max_new_tokens=12)


def test_a_pair_in_every_format_decodes_the_same_tokens(pair_folder, tmp_path):
    expected = sd.generate(sd.load_pair(pair_folder), SENTENCES, SETTINGS, seed=0)
    for target, drafter in (("t5x", "huggingface"), ("huggingface", "t5x")):
        sides = {}
        for side, format in (("target", target), ("drafter", drafter)):
            folder = tmp_path / f"{side}_{format}"
            sides[side] = formats.convert(pair_folder / side, folder, format)
            assert formats.open_checkpoint(sides[side]).format == format
        out = sd.generate(sd.load_pair(**sides), SENTENCES, SETTINGS, seed=0)
        np.testing.assert_array_equal(out.tokens, expected.tokens)
        np.testing.assert_array_equal(
            out.stats.target_calls, expected.stats.target_calls
        )
    back = tmp_path / "back"
    formats.convert(tmp_path / "target_huggingface", back, "native")
    first, second = (formats.open_checkpoint(f) for f in (pair_folder / "target", back))
    assert second.config == first.config


def test_an_unknown_folder_is_named_with_what_to_do(tmp_path):
    with pytest.raises(CheckpointError, match="no folder"):
        formats.open_checkpoint(tmp_path / "nowhere")
    with pytest.raises(CheckpointError, match="no config.json"):
        formats.open_checkpoint(tmp_path)
    (tmp_path / "checkpoint_500").mkdir()
    with pytest.raises(CheckpointError, match="one of its steps, .*checkpoint_500"):
        formats.open_checkpoint(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(CheckpointError, match="model_type 'bert'"):
        formats.open_checkpoint(tmp_path)


def test_sizes_that_are_not_those_asked_for_are_named(pair_folder):
    checkpoint = formats.open_checkpoint(pair_folder / "target")
    config = dataclasses.replace(checkpoint.config, num_heads=3)
    with pytest.raises(CheckpointError, match="num_heads 2 and .* asks for 3"):
        formats.open_checkpoint(pair_folder / "target", config)


def test_a_checkpoint_without_a_tokenizer_is_named(pair_folder, tmp_path):
    step = formats.convert(pair_folder / "target", tmp_path / "a", "t5x")
    (tmp_path / "a" / "spiece.model").unlink()
    with pytest.raises(CheckpointError, match=r"no spiece.model.*`tokenizer`"):
        sd.load_pair(target=step, drafter=step)
    given = pair_folder / "spiece.model"
    pair = sd.load_pair(target=step, drafter=step, tokenizer=given)
    assert pair.tokenizer.vocab_size == 50
