"""GPT against golden logits of `transformers`: in one pass and from its cache."""

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import traverse_util

from specdec_jax.models.gpt import GPT, GPTConfig
from specdec_jax.models.lowering import Lowering
from tests.models.blocks import PREFIX, decode
from tests.models.goldens import TOLERANCE, load_gpt


def test_teacher_forcing_equals_golden(gpt_golden):
    logits = gpt_golden.teacher_forced()
    assert logits.dtype == jnp.float32
    np.testing.assert_allclose(logits, gpt_golden.logits, **TOLERANCE)


@pytest.mark.parametrize("chunk", [1, 2, 3, 5])
def test_decoding_in_chunks_equals_golden_with_rows_at_unlike_offsets(
    gpt_golden, chunk
):
    starts = np.array([9, 2, 5])[: len(gpt_golden.logits)]
    keep = lambda _: np.full_like(starts, chunk)  # noqa: E731
    logits = decode(gpt_golden, chunk, starts, keep, 1)
    np.testing.assert_allclose(logits, gpt_golden.logits, **TOLERANCE)


@pytest.mark.parametrize("chunk", [2, 5])
def test_rows_that_each_forget_junk_at_every_step_equal_golden(gpt_golden, chunk):
    rows = np.arange(len(gpt_golden.logits))
    keep = lambda step: 1 + (step + 2 * rows) % chunk  # noqa: E731
    logits = decode(gpt_golden, chunk, 1 + rows, keep, 2)
    np.testing.assert_allclose(logits, gpt_golden.logits, **TOLERANCE)


def test_a_cache_after_a_rollback_decodes_as_if_it_had_never_seen_the_junk():
    golden = load_gpt("gpt_untied")
    tokens = np.asarray(golden.decoder_tokens)
    lengths = np.array([3, 8, 6], np.int32)
    call = functools.partial(golden.extend, golden.variables)
    _, _, clean = call(golden.start(), tokens[:, :PREFIX], np.zeros(3, np.int32))
    junked, rng = clean, np.random.default_rng(3)
    for begin in (lengths, lengths + 4, lengths + 1):
        _, _, junked = call(junked, rng.integers(0, 90, (3, 5)).astype(np.int32), begin)
    assert (np.asarray(clean[0].keys) != np.asarray(junked[0].keys)).any()
    fresh = np.stack([tokens[row, n : n + 5] for row, n in enumerate(lengths)])
    for got, expected in zip(
        call(junked, fresh, lengths)[:2], call(clean, fresh, lengths)[:2], strict=True
    ):
        np.testing.assert_array_equal(got, expected)


def test_guesses_past_the_last_position_are_finite_and_change_nothing_before():
    """The spare slots of a row that is near its end are written, and not kept."""
    golden = load_gpt("gpt_tied")
    tokens, last = np.asarray(golden.decoder_tokens), 38
    call = functools.partial(golden.extend, golden.variables)
    _, _, cache = call(golden.start(), tokens[:, :last], np.zeros(2, np.int32))
    block = np.pad(tokens[:, last:], ((0, 0), (0, 4)))
    logits, _, _ = call(cache, block, np.full(2, last, np.int32))
    assert np.isfinite(logits).all()
    np.testing.assert_allclose(logits[:, :2], golden.logits[:, last:], **TOLERANCE)


def test_packed_equals_unpacked_and_has_a_packed_networks_parameters(gpt_golden):
    packed = gpt_golden.with_config(lowering=Lowering(packed=2))
    fresh = jax.eval_shape(packed.model.init, jax.random.key(0), packed.decoder_tokens)
    shapes = jax.tree.map(jnp.shape, packed.variables["params"])
    assert jax.tree.map(jnp.shape, fresh["params"]) == shapes
    attention = shapes["decoder"]["layers_0"]["self_attention"]
    assert set(attention) == {"query_and_key_and_value", "out"}
    logits = packed.teacher_forced()
    np.testing.assert_allclose(logits, gpt_golden.logits, **TOLERANCE)


def test_bfloat16_is_close_and_its_logits_are_float32():
    golden = load_gpt("gpt_untied")
    low = golden.with_config(dtype="bfloat16", lowering=Lowering(packed=1))
    variables = jax.tree.map(lambda x: x.astype(jnp.bfloat16), low.variables)
    low = dataclasses.replace(low, variables=variables)
    rows = np.zeros(len(golden.logits), np.int32)
    logits, features, cache = low.extend(
        variables, low.start(), low.decoder_tokens, rows, (0,)
    )
    assert logits.dtype == jnp.float32
    assert features.dtype == cache[0].keys.dtype == jnp.bfloat16
    error = np.abs(logits - golden.logits)
    assert 0.001 < error.mean() / golden.logits.std() < 0.03
    assert error.max() < 0.25 * golden.logits.std()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"dtype": "float16"}, "dtype must be .* not 'float16'"),
        ({"vocab_size": 97}, "vocab_size must be in 1..padded_vocab_size .96"),
        ({"max_length": 1}, "max_length must be at least 2"),
    ],
)
def test_sizes_that_cannot_be_are_named(changes, words):
    with pytest.raises(ValueError, match=words):
        dataclasses.replace(load_gpt("gpt_tied").model.config, **changes)


def test_a_text_longer_than_the_positions_is_refused():
    golden = load_gpt("gpt_tied")
    tokens = jnp.pad(golden.decoder_tokens, ((0, 0), (0, 1)))
    with pytest.raises(ValueError, match="41 tokens .* max_length is 40"):
        golden.model.apply(golden.variables, tokens)


def shapes_of(config):
    tokens = jax.ShapeDtypeStruct((1, 2), jnp.int32)
    tree = jax.eval_shape(GPT(config).init, jax.random.key(0), tokens)["params"]
    return traverse_util.flatten_dict(jax.tree.map(jnp.shape, tree), sep="/")


@pytest.mark.parametrize("tied", [False, True])
def test_parameters_have_exactly_these_names_and_shapes(tied):
    config = GPTConfig(13, 16, 8, 2, 3, 5, 1, 7, logits_via_embedding=tied)
    layer = "decoder/layers_0"
    expected = {
        "token_embedder/embedding": (16, 8),
        "position_embedder/embedding": (7, 8),
        f"{layer}/pre_self_attention_layer_norm/scale": (8,),
        f"{layer}/pre_self_attention_layer_norm/bias": (8,),
        **{
            f"{layer}/self_attention/{name}/{kind}": (8, 6)[kind == "bias" :]
            for name in ("query", "key", "value")
            for kind in ("kernel", "bias")
        },
        f"{layer}/self_attention/out/kernel": (6, 8),
        f"{layer}/self_attention/out/bias": (8,),
        f"{layer}/pre_mlp_layer_norm/scale": (8,),
        f"{layer}/pre_mlp_layer_norm/bias": (8,),
        f"{layer}/mlp/wi/kernel": (8, 5),
        f"{layer}/mlp/wi/bias": (5,),
        f"{layer}/mlp/wo/kernel": (5, 8),
        f"{layer}/mlp/wo/bias": (8,),
        "decoder/decoder_norm/scale": (8,),
        "decoder/decoder_norm/bias": (8,),
    }
    if not tied:
        expected["decoder/logits_dense/kernel"] = (8, 16)
    assert shapes_of(config) == expected


def test_gradient_reaches_every_parameter_and_dropout_draws_by_its_key(gpt_golden):
    tokens, model = gpt_golden.decoder_tokens, gpt_golden.model
    labels = jnp.roll(tokens, -1, axis=1)[..., None]

    def loss(params, key):
        logits = model.apply({"params": params}, tokens, False, rngs={"dropout": key})
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels, axis=-1).mean()

    run = jax.jit(jax.value_and_grad(loss))
    params = gpt_golden.variables["params"]
    first, gradients = run(params, jax.random.key(0))
    again, _ = run(params, jax.random.key(0))
    other, _ = run(params, jax.random.key(1))
    assert first == again and abs(first - other) > 1e-4
    for name, gradient in traverse_util.flatten_dict(gradients, sep="/").items():
        assert jnp.isfinite(gradient).all(), name
        if name.endswith("key/bias"):  # the same for all keys of a query
            assert math.isclose(float(abs(gradient).max()), 0, abs_tol=1e-6)
            continue
        # Of embeddings, rows of ids and positions that did not occur have none.
        assert (gradient != 0).mean() > (0.5 if "embed" in name else 0.9), name
