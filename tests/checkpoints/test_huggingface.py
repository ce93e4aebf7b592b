"""Hugging Face's folders, written by `transformers` (golden/), and bad ones."""

import dataclasses
import json
import pathlib
import shutil

import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy
from flax import traverse_util

from specdec_jax.checkpoints import huggingface
from specdec_jax.decoding.autoregressive import Autoregressive
from specdec_jax.decoding.settings import DecodeSettings
from specdec_jax.errors import CheckpointError
from specdec_jax.models.adapters import EncoderInputs, t5_language_model
from specdec_jax.models.t5 import T5
from tests import toy_models as toys

GOLDEN = pathlib.Path(__file__).parent / "golden"
CASES = ["v1_1", "v1_0"]
EOS = 1


@pytest.fixture(scope="module")
def golden():
    with np.load(GOLDEN / "huggingface.npz") as file:
        return dict(file)


@pytest.mark.parametrize("case", CASES)
def test_logits_and_greedy_tokens_are_those_of_transformers(golden, case):
    checkpoint = huggingface.open_folder(GOLDEN / case)
    params = checkpoint.load()
    inputs = [
        jnp.asarray(golden[f"{side}"])
        for side in ("encoder_tokens", "encoder_mask", "decoder_tokens")
    ]
    logits = T5(checkpoint.config).apply({"params": params}, *inputs)
    np.testing.assert_allclose(logits, golden[f"{case}/logits"], rtol=1e-4, atol=1e-4)

    expected = golden[f"{case}/generated"]
    batch, length = expected.shape
    model = t5_language_model(checkpoint.config)
    out = toys.decode(
        Autoregressive(model, length, EOS),
        params,
        EncoderInputs(*inputs[:2]),
        DecodeSettings(max_new_tokens=length).rows(batch),
    )
    np.testing.assert_array_equal(out.tokens, expected)


def test_one_golden_folder_is_in_one_file_and_one_in_shards():
    assert (GOLDEN / "v1_1" / "model.safetensors").exists()
    assert len(list((GOLDEN / "v1_0").glob("model-*-of-*.safetensors"))) > 2


@pytest.mark.parametrize("case", CASES)
def test_what_is_written_here_is_what_transformers_wrote(case, tmp_path):
    checkpoint = huggingface.open_folder(GOLDEN / case)
    params = checkpoint.load()
    huggingface.save(tmp_path, checkpoint.config, params)
    again = huggingface.open_folder(tmp_path)
    assert again.config == checkpoint.config
    first, second = (
        traverse_util.flatten_dict(p, sep="/") for p in (params, again.load())
    )
    assert set(first) == set(second)
    for name, array in first.items():
        np.testing.assert_array_equal(second[name], array)
    theirs = {}
    for file in (GOLDEN / case).glob("*.safetensors"):
        theirs |= safetensors.numpy.load_file(file)
    for name, array in safetensors.numpy.load_file(
        tmp_path / "model.safetensors"
    ).items():
        np.testing.assert_array_equal(array, theirs[name])
    ours, given = (
        json.loads((folder / "config.json").read_text())
        for folder in (tmp_path, GOLDEN / case)
    )
    for name in ("d_model", "d_kv", "d_ff", "num_heads", "num_layers", "vocab_size"):
        assert ours[name] == given[name]


def test_a_bias_of_each_layer_has_no_place(tmp_path):
    checkpoint = huggingface.open_folder(GOLDEN / "v1_1")
    config = dataclasses.replace(checkpoint.config, shared_relative_bias=False)
    with pytest.raises(CheckpointError, match="bias of each layer"):
        huggingface.save(tmp_path, config, checkpoint.load())


@pytest.fixture
def folder(tmp_path):
    return shutil.copytree(GOLDEN / "v1_1", tmp_path / "v1_1")


def change_tensors(folder, change):
    path = folder / "model.safetensors"
    tensors = safetensors.numpy.load_file(path)
    change(tensors)
    safetensors.numpy.save_file(tensors, path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: t.pop("lm_head.weight"), "lacks tensor lm_head.weight"),
        (
            lambda t: t.pop("decoder.block.0.layer.1.EncDecAttention.k.weight"),
            r"lacks tensor decoder.block.0.layer.1.EncDecAttention.k.weight$",
        ),
        (
            lambda t: t.update({"odd.weight": np.zeros(2, np.float32)}),
            "does not know: odd.weight",
        ),
        (
            lambda t: t.update({"shared.weight": np.zeros((4, 4), np.float32)}),
            r"shared.weight has shape \[4, 4\].*asks for \[64, 16\]",
        ),
        (
            lambda t: t.update({"shared.weight": np.zeros((64, 16), np.int8)}),
            "shared.weight has dtype int8",
        ),
    ],
)
def test_a_wrong_tensor_is_named(folder, change, words):
    change_tensors(folder, change)
    with pytest.raises(CheckpointError, match=words):
        huggingface.open_folder(folder).load()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model_type": "bert"}, "model_type 'bert'; known are t5, mt5"),
        ({"feed_forward_proj": "gated-silu"}, "feed_forward_proj 'gated-silu'"),
        ({"d_ff": 99}, r"has shape \[16, 24\] and the configuration asks for \[16, 99"),
    ],
)
def test_a_wrong_configuration_is_named(folder, change, words):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(CheckpointError, match=words):
        huggingface.open_folder(folder).load()


def test_files_that_are_not_there_are_named(folder, tmp_path):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(
        CheckpointError, match="only pytorch_model.bin.*save_pretrained"
    ):
        huggingface.open_folder(folder)
    sharded = shutil.copytree(GOLDEN / "v1_0", tmp_path / "v1_0")
    shard = sorted(sharded.glob("model-*-of-*.safetensors"))[1]
    shard.unlink()
    with pytest.raises(CheckpointError, match=shard.name):
        huggingface.open_folder(sharded)


def test_a_checkpoint_without_a_gate_has_copies_that_are_ignored(tmp_path):
    """As early v1.0 checkpoints have them."""
    folder = shutil.copytree(GOLDEN / "v1_0", tmp_path / "v1_0")
    tensors = {}
    for file in folder.glob("*.safetensors"):
        tensors |= safetensors.numpy.load_file(file)
        file.unlink()
    (folder / "model.safetensors.index.json").unlink()
    shared = tensors["shared.weight"]
    for stack in ("encoder", "decoder"):
        tensors[f"{stack}.embed_tokens.weight"] = shared.copy()
    tensors["lm_head.weight"] = shared.copy()
    name = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"
    tensors[name] = np.zeros((32, 2), np.float32)
    safetensors.numpy.save_file(tensors, folder / "model.safetensors")
    first = huggingface.open_folder(GOLDEN / "v1_0").load()
    second = huggingface.open_folder(folder).load()
    for a, b in zip(
        traverse_util.flatten_dict(first).values(),
        traverse_util.flatten_dict(second).values(),
        strict=True,
    ):
        np.testing.assert_array_equal(a, b)
