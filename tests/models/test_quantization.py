"""Quantized weights: how near they are, and that every layout of them is the same."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import traverse_util

from specdec_jax.errors import SettingsError
from specdec_jax.models import packing
from specdec_jax.models.layers import product
from specdec_jax.models.lowering import Lowering, lowering_for
from specdec_jax.models.parameters import loaded_parameters, random_params
from specdec_jax.models.quantization import (
    check_quantization,
    columns_axis,
    quantize,
    scale_name,
)
from tests.models.goldens import CASES, GPT_CASES, load, load_gpt
from tests.tiny_pairs import tiny_config, tiny_gpt_config

CONFIGS = {
    "v1.1": tiny_config(16, 1),
    "v1.0": tiny_config(16, 1, mlp_activations=("relu",), logits_via_embedding=True),
    "GPT": tiny_gpt_config(16, 1),
}
every_config = pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)


def weight(shape=(33, 20), seed=0):
    """Columns of unlike sizes, one of them zeros."""
    random = np.random.default_rng(seed)
    sizes = np.float32(10.0) ** random.integers(-4, 4, shape[1]).astype(np.float32)
    drawn = random.normal(size=shape).astype(np.float32) * sizes[None]
    drawn[:, 3] = 0
    return drawn


def quantized(config, params):
    """As loading does it."""
    flat = traverse_util.flatten_dict(params, sep="/")
    for name in list(flat):
        columns = columns_axis(config, name)
        if columns is not None:
            flat[name], flat[scale_name(name)] = quantize(flat[name], columns)
    return traverse_util.unflatten_dict(flat, sep="/")


def dequantized(config, params):
    """The weights that a quantized network stands for."""
    flat = traverse_util.flatten_dict(params, sep="/")
    for name in list(flat):
        columns = columns_axis(config, name)
        if columns is not None:
            scale = jnp.expand_dims(flat.pop(scale_name(name)), 1 - columns)
            flat[name] = flat[name].astype(jnp.float32) * scale
    return traverse_util.unflatten_dict(flat, sep="/")


@pytest.mark.parametrize("columns", [0, 1])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_weight_is_within_half_a_scale_of_its_column(columns, dtype):
    w = jnp.asarray(weight() if columns else weight().T).astype(dtype)
    q, s = quantize(w, columns)
    assert (q.dtype, s.dtype, s.shape) == (jnp.int8, jnp.float32, (20,))
    w, q = (np.asarray(x, np.float64) for x in (w, q))
    s = np.expand_dims(np.asarray(s, np.float64), 1 - columns)
    assert np.all(np.abs(w - s * q) <= s / 2 * (1 + 1e-6))
    largest = np.abs(q).max(axis=1 - columns)
    np.testing.assert_array_equal(largest, [127, 127, 127, 0] + [127] * 16)


def test_a_column_of_zeros_gives_zeros():
    q, s = quantize(jnp.asarray(weight()), 1)
    assert s[3] == 0 and not np.any(q[:, 3])
    y = product(
        jnp.ones((2, 33)), q.astype("float32"), jnp.dtype(jnp.float32), Lowering(), s
    )
    assert np.all(np.isfinite(y)) and not np.any(y[:, 3])


@pytest.mark.parametrize("lowering", [lowering_for("cpu"), lowering_for("tpu")])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_product_is_that_of_the_weights_that_it_stands_for(lowering, dtype):
    """To the rounding of the result: sums and scales are float32."""
    q, s = quantize(jnp.asarray(weight()), 1)
    x = np.random.default_rng(1).normal(size=(2, 1, 33)).astype(np.float32)
    x = jnp.asarray(x).astype(dtype)
    y = product(x, q.astype(dtype), jnp.dtype(dtype), lowering, s)
    assert y.dtype == dtype
    w = np.asarray(q, np.float64) * np.asarray(s, np.float64)[None]
    expected = np.asarray(x, np.float64) @ w
    bound = np.abs(np.asarray(x, np.float64)) @ np.abs(w)
    error = 2.0**-8 if dtype == "bfloat16" else 1e-6
    assert np.all(
        np.abs(np.asarray(y, np.float64) - expected)
        <= error * np.abs(expected) + 1e-6 * bound
    )


@pytest.mark.parametrize("case", [*CASES, *GPT_CASES])
def test_a_network_is_that_of_the_weights_that_it_stands_for(case):
    """Lookups of a tied embedding among them."""
    golden = load(case) if case in CASES else load_gpt(case)
    config, params = golden.model.config, golden.variables["params"]
    kept = quantized(config, params)

    def logits(params):
        given = dataclasses.replace(golden, variables={"params": params})
        return np.asarray(given.teacher_forced())

    found = logits(kept)
    expected = logits(dequantized(config, kept))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    assert np.abs(found - golden.logits).max() > 1e-3  # these are other weights


@every_config
@pytest.mark.parametrize("parts", [1, 2, 7])
def test_packing_and_quantizing_come_to_the_same_in_any_order(config, parts):
    config = dataclasses.replace(config, lowering=Lowering(packed=parts))
    params = random_params(
        dataclasses.replace(config, lowering=Lowering()), jax.random.key(0)
    )
    before = packing.pack(config, quantized(config, params))
    after = quantized(config, packing.pack(config, params))
    jax.tree.map(np.testing.assert_array_equal, before, after)
    described = loaded_parameters(config, "int8")
    flat = traverse_util.flatten_dict(after, sep="/")
    assert {n: (x.shape, x.dtype) for n, x in flat.items()} == {
        n: (x.shape, x.dtype) for n, x in described.items()
    }


@every_config
def test_weights_of_products_are_int8_and_nothing_else(config):
    for name, leaf in loaded_parameters(config, "int8").items():
        is_product = name.endswith("/kernel") or (
            config.logits_via_embedding and name == "token_embedder/embedding"
        )
        assert (leaf.dtype == jnp.int8) == is_product
        assert len(config.axes_of(name, len(leaf.shape))) == len(leaf.shape)


def test_an_unknown_quantization_is_named():
    for given in ("int4", 8, ""):
        with pytest.raises(SettingsError, match=f"'int8', or None, not {given!r}"):
            check_quantization(given)
    check_quantization("int8")
    check_quantization(None)
