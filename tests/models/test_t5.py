"""T5 against golden logits of PyTorch `transformers`, in one pass; its parameters."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import traverse_util

from specdec_jax.models.lowering import Lowering
from specdec_jax.models.t5 import T5, T5Config
from tests.models.goldens import TOLERANCE, load


def test_teacher_forcing_equals_golden(golden):
    logits = golden.teacher_forced()
    assert logits.dtype == jnp.float32
    np.testing.assert_allclose(logits, golden.logits, **TOLERANCE)


@pytest.mark.parametrize("padding", [1, 90])
def test_encoder_padding_of_any_amount_changes_nothing(golden, padding):
    row = 1
    real = int(golden.encoder_mask[row].sum())
    tokens = np.full((1, real + padding), 17, np.int32)
    tokens[0, :real] = golden.encoder_tokens[row, :real]
    alone = dataclasses.replace(
        golden,
        encoder_tokens=tokens,
        encoder_mask=np.arange(real + padding)[None, :] < real,
        decoder_tokens=golden.decoder_tokens[row : row + 1],
    )
    logits, _, _ = alone.extend(
        alone.variables, alone.start(), alone.decoder_tokens, np.zeros(1, np.int32)
    )
    np.testing.assert_allclose(logits[0], golden.logits[row], **TOLERANCE)


def test_packed_equals_unpacked(golden):
    packed = golden.with_config(lowering=Lowering(packed=2))
    logits, _, _ = packed.extend(
        packed.variables,
        packed.start(),
        packed.decoder_tokens,
        np.zeros(len(golden.logits), np.int32),
    )
    np.testing.assert_allclose(logits, golden.logits, **TOLERANCE)


def test_packed_parameters_are_those_of_a_packed_network(golden):
    packed = golden.with_config(lowering=Lowering(packed=2))
    args = (packed.encoder_tokens, packed.encoder_mask, packed.decoder_tokens)
    fresh = jax.eval_shape(packed.model.init, jax.random.key(0), *args)
    assert jax.tree.map(jnp.shape, fresh["params"]) == jax.tree.map(
        jnp.shape, packed.variables["params"]
    )


@pytest.mark.parametrize(("case", "cast"), [("t5_v1_1", False), ("t5_v1_0", True)])
def test_bfloat16_is_close_and_its_logits_are_float32(case, cast):
    golden = load(case)
    low = golden.with_config(dtype="bfloat16", lowering=Lowering(packed=int(cast)))
    if cast:
        variables = jax.tree.map(lambda x: x.astype(jnp.bfloat16), low.variables)
        low = dataclasses.replace(low, variables=variables)
    rows = np.zeros(len(golden.logits), np.int32)
    logits, features, cache = low.extend(
        low.variables, low.start(), low.decoder_tokens, rows, (0,)
    )
    assert logits.dtype == jnp.float32
    assert features.dtype == jnp.bfloat16
    assert cache.past[0].keys.dtype == cache.encoded[0].keys.dtype == jnp.bfloat16
    # bfloat16 keeps 8 bits: some 0.4% at each of a few dozen roundings.
    error = np.abs(logits - golden.logits)
    assert 0.001 < error.mean() / golden.logits.std() < 0.03
    assert error.max() < 0.25 * golden.logits.std()


def test_float16_is_refused():
    with pytest.raises(ValueError, match="float16.*overflows"):
        dataclasses.replace(load("t5_v1_1").model.config, dtype="float16")


def test_a_vocabulary_larger_than_its_padding_is_refused():
    with pytest.raises(ValueError, match="vocab_size must be in 1..padded.*97"):
        dataclasses.replace(load("t5_v1_1").model.config, vocab_size=97)


def attention_shapes(layer: str) -> dict:
    return {
        f"{layer}/query/kernel": (8, 6),
        f"{layer}/key/kernel": (8, 6),
        f"{layer}/value/kernel": (8, 6),
        f"{layer}/out/kernel": (6, 8),
    }


SHARED_SHAPES = {
    "token_embedder/embedding": (16, 8),
    "encoder/relpos_bias/rel_embedding": (2, 32),
    "encoder/layers_0/pre_attention_layer_norm/scale": (8,),
    **attention_shapes("encoder/layers_0/attention"),
    "encoder/layers_0/pre_mlp_layer_norm/scale": (8,),
    "encoder/layers_0/mlp/wo/kernel": (5, 8),
    "encoder/encoder_norm/scale": (8,),
    "decoder/relpos_bias/rel_embedding": (2, 32),
    "decoder/layers_0/pre_self_attention_layer_norm/scale": (8,),
    **attention_shapes("decoder/layers_0/self_attention"),
    "decoder/layers_0/pre_cross_attention_layer_norm/scale": (8,),
    **attention_shapes("decoder/layers_0/encoder_decoder_attention"),
    "decoder/layers_0/pre_mlp_layer_norm/scale": (8,),
    "decoder/layers_0/mlp/wo/kernel": (5, 8),
    "decoder/layers_1/pre_self_attention_layer_norm/scale": (8,),
    **attention_shapes("decoder/layers_1/self_attention"),
    "decoder/layers_1/pre_cross_attention_layer_norm/scale": (8,),
    **attention_shapes("decoder/layers_1/encoder_decoder_attention"),
    "decoder/layers_1/pre_mlp_layer_norm/scale": (8,),
    "decoder/layers_1/mlp/wo/kernel": (5, 8),
    "decoder/decoder_norm/scale": (8,),
}
V1_1_SHAPES = {
    "encoder/layers_0/mlp/wi_0/kernel": (8, 5),
    "encoder/layers_0/mlp/wi_1/kernel": (8, 5),
    "decoder/layers_0/mlp/wi_0/kernel": (8, 5),
    "decoder/layers_0/mlp/wi_1/kernel": (8, 5),
    "decoder/layers_1/mlp/wi_0/kernel": (8, 5),
    "decoder/layers_1/mlp/wi_1/kernel": (8, 5),
    "decoder/logits_dense/kernel": (8, 16),
}
V1_0_SHAPES = {
    "encoder/layers_0/mlp/wi/kernel": (8, 5),
    "decoder/layers_0/mlp/wi/kernel": (8, 5),
    "decoder/layers_1/mlp/wi/kernel": (8, 5),
}


@pytest.mark.parametrize(
    ("changes", "shapes"),
    [
        ({}, V1_1_SHAPES),
        ({"mlp_activations": ("relu",), "logits_via_embedding": True}, V1_0_SHAPES),
    ],
    ids=["v1_1", "v1_0"],
)
def test_parameters_have_exactly_t5x_names_and_shapes(changes, shapes):
    config = T5Config(13, 16, 8, 2, 3, 5, 1, 2, **changes)
    tokens = jnp.ones((1, 2), jnp.int32)
    variables = jax.eval_shape(
        T5(config).init, jax.random.key(0), tokens, tokens > 0, tokens
    )
    flat = traverse_util.flatten_dict(variables["params"], sep="/")
    assert {name: leaf.shape for name, leaf in flat.items()} == SHARED_SHAPES | shapes
    assert {leaf.dtype for leaf in flat.values()} == {jnp.dtype("float32")}
