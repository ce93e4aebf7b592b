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
from specdec_jax.models.adapters import language_model
from specdec_jax.models.inputs import EncoderInputs
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
    model = language_model(checkpoint.config)
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


def test_a_bias_of_each_layer_is_refused(tmp_path):
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


def change_config(folder, change, without=()):
    path = folder / "config.json"
    fields = json.loads(path.read_text()) | change
    path.write_text(json.dumps({n: v for n, v in fields.items() if n not in without}))


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
        ({"layer_norm_epsilon": 1e-5}, "layer_norm_epsilon 1e-05; only 1e-06"),
        ({"eos_token_id": [1, 2]}, r"eos_token_id \[1, 2\]; it must be one id"),
        ({"pad_token_id": "0"}, "pad_token_id '0'; it must be one id"),
        ({"pad_token_id": False}, "pad_token_id False; it must be one id"),
        (
            {"relative_attention_max_distance": 0},
            "relative_attention_max_distance must be an integer, at least 1, not 0",
        ),
        ({"d_kv": "6"}, "head_dim must be an integer, at least 1, not '6'"),
        ({"d_model": 16.0}, "emb_dim must be an integer, at least 1, not 16.0"),
        ({"num_heads": None}, "num_heads must be an integer, at least 1, not None"),
        (
            {"num_decoder_layers": True},
            "num_decoder_layers must be an integer, at least 0, not True",
        ),
        ({"vocab_size": "64"}, "vocab_size must be an integer, at least 1, not '64'"),
        ({"feed_forward_proj": ["gated-gelu"]}, r"feed_forward_proj \['gated-gelu'\]"),
        ({"dropout_rate": "0.1"}, "dropout_rate must be a number, not '0.1'"),
        ({"scale_decoder_outputs": "no"}, "must be true or false, not 'no'"),
    ],
)
def test_a_wrong_configuration_is_named(folder, change, words):
    change_config(folder, change)
    with pytest.raises(CheckpointError, match=words):
        huggingface.open_folder(folder).load()


def test_fields_that_are_null_are_as_if_they_were_not_there(folder):
    fields = ("num_decoder_layers", "decoder_start_token_id", "pad_token_id")
    change_config(folder, {**dict.fromkeys(fields), "num_layers": 1})
    assert huggingface.open_folder(folder).config.num_decoder_layers == 1


@pytest.mark.parametrize("places", [["a"], {"shared.weight": 1}, None])
def test_an_index_that_is_none_is_named(tmp_path, places):
    folder = shutil.copytree(GOLDEN / "v1_0", tmp_path / "v1_0")
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": places}))
    with pytest.raises(CheckpointError, match="index.json has no weight_map"):
        huggingface.open_folder(folder)


SCALE = "scale_decoder_outputs"


@pytest.mark.parametrize("kind", ["mt5", "t5"])
def test_logits_of_their_own_are_used_whatever_the_names_are_said_to_be(
    golden, folder, kind
):
    """As current transformers save an mT5 again."""
    change_config(folder, {"model_type": kind, "tie_word_embeddings": True}, [SCALE])
    checkpoint = huggingface.open_folder(folder)
    assert not checkpoint.config.logits_via_embedding
    inputs = [
        jnp.asarray(golden[side])
        for side in ("encoder_tokens", "encoder_mask", "decoder_tokens")
    ]
    logits = T5(checkpoint.config).apply({"params": checkpoint.load()}, *inputs)
    np.testing.assert_allclose(logits, golden["v1_1/logits"], rtol=1e-4, atol=1e-4)


def one_file(folder, path, change):
    """The folder with its shards in one file, changed."""
    tensors = {}
    shutil.copytree(folder, path)
    for file in path.glob("*.safetensors"):
        tensors |= safetensors.numpy.load_file(file)
        file.unlink()
    (path / "model.safetensors.index.json").unlink()
    change(tensors)
    safetensors.numpy.save_file(tensors, path / "model.safetensors")
    return path


@pytest.mark.parametrize("block", [2**26, 2 * 64])
@pytest.mark.parametrize("row", [0, 63])
def test_tied_logits_with_other_weights_are_refused(tmp_path, monkeypatch, block, row):
    monkeypatch.setattr(huggingface, "BLOCK_BYTES", block)

    def add(tensors):
        tensors["lm_head.weight"] = tensors["shared.weight"].copy()
        tensors["lm_head.weight"][row, 3] += 1.0

    folder = one_file(GOLDEN / "v1_0", tmp_path / "v1_0", add)
    with pytest.raises(CheckpointError, match=r"tied .* have another lm_head.weight"):
        huggingface.open_folder(folder)
    change_config(folder, {}, [SCALE])
    with pytest.raises(CheckpointError, match=r"tied .* have another lm_head.weight"):
        huggingface.open_folder(folder)
    change_config(folder, {SCALE: False})
    assert not huggingface.open_folder(folder).config.logits_via_embedding


def test_an_mt5_with_tied_logits_says_whether_they_are_scaled(folder):
    change_tensors(folder, lambda t: t.pop("lm_head.weight"))
    change_config(folder, {"model_type": "mt5"}, [SCALE])
    with pytest.raises(CheckpointError, match="set scale_decoder_outputs"):
        huggingface.open_folder(folder)
    change_config(folder, {SCALE: True})
    assert huggingface.open_folder(folder).config.logits_via_embedding


def test_activations_without_a_name_are_refused(tmp_path):
    checkpoint = huggingface.open_folder(GOLDEN / "v1_1")
    config = dataclasses.replace(checkpoint.config, mlp_activations=("relu", "linear"))
    with pytest.raises(CheckpointError, match="relu.*no Hugging Face format"):
        huggingface.save(tmp_path / "new", config, checkpoint.load())
    assert not (tmp_path / "new").exists()


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
    name = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"

    def add(tensors):
        for copy in ("encoder.embed_tokens", "decoder.embed_tokens", "lm_head"):
            tensors[f"{copy}.weight"] = tensors["shared.weight"].copy()
        tensors[name] = np.zeros((32, 2), np.float32)

    folder = one_file(GOLDEN / "v1_0", tmp_path / "v1_0", add)
    first = huggingface.open_folder(GOLDEN / "v1_0").load()
    second = huggingface.open_folder(folder).load()
    for a, b in zip(
        traverse_util.flatten_dict(first).values(),
        traverse_util.flatten_dict(second).values(),
        strict=True,
    ):
        np.testing.assert_array_equal(a, b)
