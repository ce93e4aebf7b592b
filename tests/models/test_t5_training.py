"""T5 in training: dropout, gradients, and what it starts from."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from flax import traverse_util

from specdec_jax.models.t5 import T5, T5Config
from tests.models.goldens import TOLERANCE, load


def test_dropout_draws_by_its_key_and_only_in_training():
    golden = load("t5_v1_1")

    def train(key, model):
        args = (golden.encoder_tokens, golden.encoder_mask, golden.decoder_tokens)
        rngs = {"dropout": key}
        return model.apply(golden.variables, *args, False, rngs=rngs)

    dropped = jax.jit(functools.partial(train, model=golden.model))
    first, other = dropped(jax.random.key(1)), dropped(jax.random.key(2))
    np.testing.assert_array_equal(first, dropped(jax.random.key(1)))
    assert np.abs(first - other).max(axis=(1, 2)).min() > 0.1
    assert np.abs(first - golden.logits).max(axis=(1, 2)).min() > 0.1
    undropped = jax.jit(
        functools.partial(train, model=golden.with_config(dropout_rate=0.0).model)
    )
    logits = undropped(jax.random.key(1))
    np.testing.assert_allclose(logits, golden.logits, **TOLERANCE)


def test_dropout_has_one_mask_a_row_but_at_the_output_of_the_encoder():
    model = T5(T5Config(13, 16, 8, 2, 3, 5, 0, 0, dropout_rate=0.5))
    tokens = jnp.full((2, 12), 4, jnp.int32)
    variables = model.init(jax.random.key(0), tokens, tokens > 0, tokens)
    call = functools.partial(
        model.apply,
        variables,
        tokens,
        tokens > 0,
        deterministic=False,
        rngs={"dropout": jax.random.key(1)},
    )
    # The mask of the embeddings drops features of whole rows, that of the output
    # single numbers. Without layers the decoder's logits show its own masks alone.
    dropped = np.asarray(call(method="encode") == 0)
    of_whole_rows = dropped.all(axis=1)
    assert 0 < of_whole_rows.sum() < dropped.any(axis=1).sum()
    assert (of_whole_rows[0] != of_whole_rows[1]).any()
    logits = np.asarray(call(decoder_tokens=tokens))
    np.testing.assert_allclose(logits, logits[:, :1].repeat(12, axis=1), atol=1e-6)
    assert (logits[0] != logits[1]).any()


def test_gradient_reaches_every_parameter(golden):
    def loss(params):
        logits = golden.model.apply(
            {"params": params},
            golden.encoder_tokens,
            golden.encoder_mask,
            golden.decoder_tokens[:, :24],
        )
        labels = golden.decoder_tokens[:, 1:25, None]
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels, axis=-1).mean()

    gradients = jax.jit(jax.grad(loss))(golden.variables["params"])
    flat = traverse_util.flatten_dict(gradients, sep="/")
    assert len(flat) == len(traverse_util.flatten_dict(golden.variables["params"]))
    for name, gradient in flat.items():
        assert jnp.isfinite(gradient).all(), name
        reached = float((gradient != 0).mean())
        # Buckets of distances that did not occur have none.
        assert reached > (0.4 if "rel_embedding" in name else 0.9), name


def test_initial_weights_have_t5x_variances():
    config = T5Config(400, 512, 256, 4, 16, 384, 0, 1)
    tokens = jnp.ones((1, 2), jnp.int32)
    init = jax.jit(T5(config).init)
    params = init(jax.random.key(0), tokens, tokens > 0, tokens)["params"]
    layer = params["decoder"]["layers_0"]
    attention = layer["self_attention"]

    def check(kernel, deviation, cut):
        np.testing.assert_allclose(kernel.std(), deviation, rtol=0.05)
        # A normal of 16,384 and more draws passes 3 deviations, a cut one 2.3 never.
        assert (abs(kernel).max() < 2.3 * deviation) == cut

    check(attention["query"]["kernel"], 256**-0.5 / 16**0.5, cut=False)
    check(attention["key"]["kernel"], 256**-0.5, cut=False)
    check(attention["value"]["kernel"], 256**-0.5, cut=False)
    check(attention["out"]["kernel"], 64**-0.5, cut=False)
    check(layer["mlp"]["wi_0"]["kernel"], 256**-0.5, cut=True)
    check(layer["mlp"]["wo"]["kernel"], 384**-0.5, cut=True)
    check(params["decoder"]["logits_dense"]["kernel"], 256**-0.5, cut=True)
    check(params["token_embedder"]["embedding"], 1.0, cut=False)
    for norm in (layer["pre_mlp_layer_norm"], params["decoder"]["decoder_norm"]):
        np.testing.assert_array_equal(norm["scale"], 1.0)
    # Uniform within sqrt(3 / mean of fans).
    bias = params["decoder"]["relpos_bias"]["rel_embedding"]
    assert 0.9 < abs(bias).max() / (3 / ((4 + 32) / 2)) ** 0.5 <= 1.0
