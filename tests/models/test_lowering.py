"""However a network is computed, it is the same network."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import traverse_util

from specdec_jax.models import attention
from specdec_jax.models.adapters import language_model
from specdec_jax.models.inputs import EncoderInputs
from specdec_jax.models.lowering import CacheWrite, Lowering, lowering_for
from specdec_jax.models.parameters import packed_shapes
from tests.models.goldens import CASES, load, load_gpt
from tests.tiny_pairs import tiny_config

LOWERINGS = {
    "two parts": Lowering(packed=2),
    "parts that do not divide": Lowering(packed=7),
    "padded rows": Lowering(least_rows=16),
    "selected writes": Lowering(cache_write=CacheWrite.SELECT),
    "one-hot bias": Lowering(one_hot_bias=True),
    "row by row": Lowering(row_major=True),
    "tpu": lowering_for("tpu", 2),
    "cpu": lowering_for("cpu"),
}
every_lowering = pytest.mark.parametrize("name", LOWERINGS)


def decoded(golden):
    """Logits of all positions, in blocks of 1, 2 and more, and the cache at the end."""
    tokens, rows = np.asarray(golden.decoder_tokens), len(golden.logits)
    cache, start, logits = golden.start(), 0, []
    for width in (1, 2, 3, 1, tokens.shape[1]):
        block = tokens[:, start : start + width]
        lengths = np.full(rows, start, np.int32)
        out, _, cache = golden.extend(golden.variables, cache, block, lengths)
        logits.append(out)
        start += block.shape[1]
    return np.concatenate(logits, axis=1), cache


@every_lowering
@pytest.mark.parametrize("case", CASES)
def test_a_t5_is_the_same_however_it_is_computed(case, name):
    golden = load(case)
    expected, cache = decoded(golden)
    np.testing.assert_allclose(expected, golden.logits, rtol=2e-4, atol=2e-4)
    logits, other = decoded(golden.with_config(lowering=LOWERINGS[name]))
    np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-5)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5),
        cache,
        other,
    )


@every_lowering
def test_a_gpt_is_the_same_however_it_is_computed(name):
    golden = load_gpt("gpt_untied")
    logits, _ = decoded(golden.with_config(lowering=LOWERINGS[name]))
    np.testing.assert_allclose(logits, golden.logits, rtol=2e-4, atol=2e-4)


def products(lowering, dtype):
    """Of a step of one token of one row: the factors' shapes, and the precision."""
    config = tiny_config(16, 1, dtype=dtype, lowering=lowering)
    model = language_model(config)
    flat = {
        name: jax.ShapeDtypeStruct(shape, dtype)
        for name, shape in packed_shapes(config).items()
    }
    params = traverse_util.unflatten_dict(flat, sep="/")
    token = jnp.zeros((1, 1), jnp.int32)
    inputs = EncoderInputs(token, token == 0)
    cache, _ = jax.eval_shape(lambda p: model.start(p, inputs, 8), params)
    traced = jax.make_jaxpr(
        lambda p, c: model.extend(p, c, token, jnp.zeros(1, jnp.int32))[0]
    )
    return [
        (*(v.aval.shape for v in equation.invars), equation.params["precision"])
        for equation in traced(params, cache).jaxpr.eqns
        if equation.primitive.name == "dot_general"
    ]


def test_a_product_has_the_least_rows_that_a_platform_wants():
    for platform, least in (("tpu", 2), ("cpu", 1), ("gpu", 1)):
        found = products(lowering_for(platform), "bfloat16")
        rows = [x[0] for x, kernel, _ in found if len(x) == len(kernel) == 2]
        # Two of each attention, two of the feed-forward, and the logits.
        assert rows == [least] * 7
        # And two products of each attention's heads.
        heads = [x[2] for x, seen, _ in found if len(x) == len(seen) == 4]
        assert heads == [least] * 4


@pytest.mark.parametrize("platform", ["cpu", "tpu"])
def test_float32_is_multiplied_as_float32_and_bfloat16_as_it_is(platform):
    highest = (jax.lax.Precision.HIGHEST,) * 2
    for dtype, stated in (("float32", highest), ("bfloat16", None)):
        found = products(lowering_for(platform), dtype)
        assert {precision for _, _, precision in found} == {stated}


@pytest.mark.parametrize(("buckets", "furthest"), [(32, 128), (32, 20), (8, 64)])
def test_a_one_hot_bias_is_that_of_each_distance_to_the_bit(buckets, furthest):
    bias = attention.RelativeBias(3, False, buckets, furthest)
    positions = np.array([[0, 1, 2], [250, 251, 252], [17, 18, 19]], np.int32)
    args = (jnp.asarray(positions), 260)
    params = bias.init(jax.random.key(0), np.arange(3), method="by_distance")

    def computed(one_hot):
        bound = bias.bind(params)
        return np.asarray(attention.decoder_bias(bound, *args, one_hot))

    np.testing.assert_array_equal(computed(True), computed(False))
