"""One entry for all formats, and conversions between them."""

import dataclasses
import json

import jax.numpy as jnp
import numpy as np
import pytest

import specdec_jax as sd
from specdec_jax.checkpoints import formats, native, reading
from specdec_jax.data.tokenizer import TOKENIZER_FILE, train_tokenizer
from specdec_jax.errors import CheckpointError
from specdec_jax.runtime import storage
from tests.special_ids import write_pieces
from tests.tiny_pairs import SENTENCES, VOCAB_SIZE, random_params, tiny_config

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


@pytest.mark.parametrize(
    ("format", "changes"),
    [
        ("t5x", {"relative_attention_max_distance": 64}),
        ("t5x", {"mlp_activations": ("relu", "linear")}),
        ("t5x", {"mlp_activations": ("gelu",)}),
        ("huggingface", {"mlp_activations": ("relu", "linear")}),
    ],
)
def test_what_a_format_does_not_tell_is_refused(tmp_path, format, changes):
    config = tiny_config(16, 1, **changes)
    native.save(tmp_path / "a", config, random_params(config, 0))
    train_tokenizer(SENTENCES * 4, tmp_path / TOKENIZER_FILE, VOCAB_SIZE)
    with pytest.raises(CheckpointError, match=f"a T5 with {next(iter(changes))}"):
        formats.convert(tmp_path / "a", tmp_path / "b", format)
    assert not (tmp_path / "b").exists()


def test_a_distance_that_hugging_face_tells_is_kept(tmp_path):
    config = tiny_config(16, 1, relative_attention_max_distance=64)
    native.save(tmp_path / "a", config, random_params(config, 0))
    train_tokenizer(SENTENCES * 4, tmp_path / TOKENIZER_FILE, VOCAB_SIZE)
    formats.convert(tmp_path / "a", tmp_path / "b", "huggingface")
    found = formats.open_checkpoint(tmp_path / "b").config
    assert found.relative_attention_max_distance == 64


@pytest.mark.parametrize("format", formats.WRITERS)
def test_a_destination_that_is_a_file_is_named_and_left_alone(tmp_path, format):
    config = tiny_config(16, 1)
    native.save(tmp_path / "a", config, random_params(config, 0))
    train_tokenizer(SENTENCES * 4, tmp_path / TOKENIZER_FILE, VOCAB_SIZE)
    file = tmp_path / "b"
    file.write_text("mine")
    with pytest.raises(CheckpointError, match="cannot write to .*b: "):
        formats.convert(tmp_path / "a", file, format)
    assert file.read_text() == "mine"


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("packed", [0, 1, 2])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_weight_that_is_not_finite_is_named(
    tmp_path, monkeypatch, bad, packed, dtype
):
    monkeypatch.setattr(reading, "BLOCK_BYTES", 256)
    config = tiny_config(16, 1)
    params = random_params(config, 0)
    wi = params["decoder"]["layers_0"]["mlp"]["wi_1"]
    wi["kernel"] = wi["kernel"].at[9, 3].set(bad)
    native.save(tmp_path, config, params, dtype)
    words = "decoder/layers_0/mlp/wi_1/kernel holds NaN or infinity"
    with pytest.raises(CheckpointError, match=words):
        native.open_folder(tmp_path).load(packed=packed)


def test_weights_whose_sum_is_not_finite_are_weights(tmp_path):
    config = tiny_config(16, 1)
    params = random_params(config, 0)
    wi = params["decoder"]["layers_0"]["mlp"]["wi_1"]
    wi["kernel"] = jnp.full_like(wi["kernel"], 3e38)
    native.save(tmp_path, config, params, "float32")
    loaded = native.open_folder(tmp_path).load()
    kernel = loaded["decoder"]["layers_0"]["mlp"]["wi_1"]["kernel"]
    np.testing.assert_array_equal(kernel, wi["kernel"])


def test_cloud_storage_that_does_not_answer_is_given_up(monkeypatch):
    """Its address is of this machine, where nobody listens."""
    monkeypatch.setattr(storage, "TIMEOUT_SECONDS", 0.5)
    monkeypatch.setenv("TENSORSTORE_GCS_HTTP_URL", "http://127.0.0.1:9")
    with pytest.raises(sd.DataError, match=r"gs://bucket-a/b: no answer in 0.5 s"):
        formats.open_checkpoint("gs://bucket-a/b")


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


@pytest.mark.parametrize(
    ("field", "said"),
    [("decoder_start_token_id", 2), ("eos_token_id", 2), ("pad_token_id", -1)],
)
def test_special_ids_that_are_not_the_tokenizers_are_named(
    pair_folder, tmp_path, field, said
):
    folder = formats.convert(pair_folder / "target", tmp_path, "huggingface")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {field: said}))
    words = rf"says {field} {said} and .*spiece\.model has {config[field]}$"
    with pytest.raises(CheckpointError, match=words):
        sd.load_pair(target=folder, drafter="uniform")


def test_an_end_of_sequence_alone_in_a_list_is_that_one(pair_folder, tmp_path):
    folder = formats.convert(pair_folder / "target", tmp_path, "huggingface")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"eos_token_id": [1]}))
    assert sd.load_pair(target=folder, drafter="uniform").tokenizer.eos_id == 1


def test_special_ids_of_another_tokenizer_are_written_for_hugging_face(tmp_path):
    config = tiny_config(16, 1)
    native.save(tmp_path / "a", config, random_params(config, 0))
    write_pieces(tmp_path / TOKENIZER_FILE, unk_id=0, eos_id=2, pad_id=3)
    folder = formats.convert(tmp_path / "a", tmp_path / "b", "huggingface")
    written = json.loads((folder / "config.json").read_text())
    assert written["eos_token_id"] == 2
    assert written["pad_token_id"] == written["decoder_start_token_id"] == 3
    assert sd.load_pair(target=folder, drafter="uniform").tokenizer.eos_id == 2


def test_a_checkpoint_without_a_tokenizer_is_named(pair_folder, tmp_path):
    step = formats.convert(pair_folder / "target", tmp_path / "a", "t5x")
    (tmp_path / "a" / "spiece.model").unlink()
    with pytest.raises(CheckpointError, match=r"no spiece.model.*`tokenizer`"):
        sd.load_pair(target=step, drafter=step)
    given = pair_folder / "spiece.model"
    pair = sd.load_pair(target=step, drafter=step, tokenizer=given)
    assert pair.tokenizer.vocab_size == 50
