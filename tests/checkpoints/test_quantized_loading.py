"""Weights are quantized one by one as they are read, whatever the format and pair."""

import gc

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import traverse_util

import specdec_jax as sd
from specdec_jax.checkpoints import formats, native, reading
from specdec_jax.data.tokenizer import TOKENIZER_FILE, train_tokenizer
from specdec_jax.models.quantization import columns_axis, quantize, scale_name
from tests.tiny_pairs import (
    SENTENCES,
    VOCAB_SIZE,
    make_gpt_pair,
    random_params,
    tiny_config,
)

SETTINGS = sd.DecodeSettings(gamma=[0, 1, 3], max_gamma=3, max_new_tokens=[12, 5, 9])


@pytest.fixture(scope="module", params=["v1.1", "v1.0", "GPT"])
def folder(request, pair_folder, tmp_path_factory):
    """A pair of each family; the target of v1.0 has tied logits."""
    if request.param == "v1.1":
        return pair_folder
    folder = tmp_path_factory.mktemp("pair")
    if request.param == "GPT":
        return make_gpt_pair(folder)
    train_tokenizer(SENTENCES * 4, folder / TOKENIZER_FILE, VOCAB_SIZE)
    for side, width in (("target", 32), ("drafter", 16)):
        config = tiny_config(
            width, 1, mlp_activations=("relu",), logits_via_embedding=True
        )
        native.save(folder / side, config, random_params(config, width), "float32")
    return folder


def flat(params):
    return traverse_util.flatten_dict(params, sep="/")


def expected(checkpoint, dtype, packed):
    """Float32 weights, quantized when all are there."""
    params = {}
    for name, leaf in flat(checkpoint.load("float32", packed=packed)).items():
        columns = columns_axis(checkpoint.config, name)
        if columns is None:
            params[name] = leaf.astype(dtype)
        else:
            params[name], params[scale_name(name)] = quantize(leaf, columns)
    return params


def assert_same(found, wanted):
    assert set(found) == set(wanted)
    for name, leaf in found.items():
        assert leaf.dtype == wanted[name].dtype, name
        np.testing.assert_array_equal(leaf, wanted[name], err_msg=name)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("format", formats.WRITERS)
def test_every_format_gives_what_its_float32_weights_give(
    pair_folder, tmp_path, format, dtype
):
    place = formats.convert(pair_folder / "target", tmp_path / "a", format)
    checkpoint = formats.open_checkpoint(place)
    found = checkpoint.load(dtype, packed=2, quantization="int8")
    assert_same(flat(found), expected(checkpoint, jnp.dtype(dtype), 2))


def test_a_device_holds_one_float_weight_at_a_time(pair_folder, monkeypatch):
    checkpoint = formats.open_checkpoint(pair_folder / "target")
    put, held = reading._Place._put, []
    gc.collect()

    def floats():
        return [x for x in jax.live_arrays() if x.dtype == jnp.float32 and x.ndim == 2]

    before = len(floats())

    def spy(place):
        array = put(place)
        held.append(len(floats()) - before)
        return array

    monkeypatch.setattr(reading._Place, "_put", spy)
    params = checkpoint.load("bfloat16", packed=1, quantization="int8")
    kept = [leaf.dtype for leaf in jax.tree.leaves(params)]
    assert held.count(1) == kept.count(jnp.int8)
    assert max(held) == 1 and len(floats()) == before


def test_outputs_are_those_of_the_quantized_target_alone(folder):
    """Greedy identity, in float32. The float target drafts, and is not quantized."""
    target = folder / "target"
    pair = sd.load_pair(
        folder, drafter=target, dtype="float32", target_quantization="int8"
    )
    assert pair.quantization == "int8"
    drafts = {leaf.dtype for leaf in jax.tree.leaves(pair.params.drafter)}
    assert drafts == {jnp.dtype("float32")}
    base = sd.generate(pair, SENTENCES[:3], SETTINGS, method="autoregressive")
    out = sd.generate(pair, SENTENCES[:3], SETTINGS)
    np.testing.assert_array_equal(out.tokens, base.tokens)
    assert out.stats.accepted.sum() > 0


def test_bfloat16_activations_decode(pair_folder):
    pair = sd.load_pair(pair_folder, dtype="bfloat16", target_quantization="int8")
    assert pair.dtype == "bfloat16"
    out = sd.generate(pair, SENTENCES[:2], gamma=2, max_new_tokens=6)
    assert out.lengths.min() >= 1


def test_a_quantized_pair_says_so(pair_folder):
    pair, whole = (
        sd.load_pair(pair_folder, target_quantization=one) for one in ("int8", None)
    )
    assert pair.name == f"{pair_folder} (int8 target)"
    assert "M int8, NeuralDrafter" in repr(pair) and "int8" not in repr(whole)
    assert (pair.about["quantization"], pair.about["dtype"]) == ("int8", "float32")
    assert pair.about["weights"] != whole.about["weights"]
    other = sd.load_pair(pair_folder, drafter="uniform", target_quantization="int8")
    assert other.name == f"{pair_folder} + uniform (int8 target)"


def test_an_unknown_quantization_is_refused_in_a_line(pair_folder):
    with pytest.raises(sd.SettingsError, match="'int8', or None, not 'int4'") as found:
        sd.load_pair(pair_folder, target_quantization="int4")
    assert "\n" not in str(found.value)
