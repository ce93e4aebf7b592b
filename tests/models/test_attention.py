"""Relative buckets and biases against tables written by hand, and masking."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from specdec_jax.models import attention
from specdec_jax.models import cache as kv
from specdec_jax.models.attention import MASKED, relative_buckets

# First distance of each causal bucket of 32, up to distance 128. Distances 0..15 have
# a bucket each; bucket 16 + i begins at the first whole distance >= 16 * 8^(i / 16):
# 16, 18.2, 20.7, 23.6, 26.9, 30.6, 34.9, 39.7, 45.3, 51.5, 58.7, 66.8, 76.1, 86.7,
# 98.7 and 112.4.
CAUSAL = [*range(17), 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113]
# The same for each direction's 16 buckets: 0..7, then 8 * 16^(i / 8), which is 8,
# 11.3, 16, 22.6, 32, 45.3, 64 and 90.5.
BIDIRECTIONAL = [*range(9), 12, 16, 23, 32, 46, 64, 91]


def bucket_by_table(first_distances: list[int], distance: int) -> int:
    return sum(distance >= first for first in first_distances) - 1


def test_causal_buckets_are_those_of_the_table():
    distances = np.arange(-5, 400)
    expected = [bucket_by_table(CAUSAL, max(d, 0)) for d in distances]
    buckets = relative_buckets(distances, False, 32, 128)
    np.testing.assert_array_equal(buckets, expected)
    assert buckets.dtype == np.int32
    assert [buckets[5 + d] for d in (0, 15, 16, 18, 19, 112, 113, 399)] == [
        *(0, 15, 16, 16, 17, 30, 31, 31)
    ]


def test_bidirectional_buckets_are_those_of_the_table():
    distances = np.arange(-400, 401)
    # A key after the query, a negative distance, has buckets 16 and up.
    expected = [
        bucket_by_table(BIDIRECTIONAL, abs(d)) + (16 if d < 0 else 0) for d in distances
    ]
    buckets = relative_buckets(distances, True, 32, 128)
    np.testing.assert_array_equal(buckets, expected)
    assert [buckets[400 + d] for d in (-400, -64, -63, -1, 0, 1, 8, 12, 63, 64)] == [
        *(31, 30, 29, 17, 0, 1, 8, 9, 13, 14)
    ]


@pytest.mark.parametrize(
    ("bidirectional", "distances", "expected"),
    [
        # 2 exact buckets, then 2 * 4^(i / 2): 2, 4; 8 is the last bucket's already.
        (False, [0, 1, 2, 3, 4, 5, 7, 8, 99], [0, 1, 2, 2, 3, 3, 3, 3, 3]),
        # A direction has 1 exact bucket and one for all that is further.
        (True, [-9, -1, 0, 1, 2, 9], [3, 3, 0, 1, 1, 1]),
    ],
)
def test_small_numbers_of_buckets(bidirectional, distances, expected):
    buckets = relative_buckets(np.array(distances), bidirectional, 4, 8)
    np.testing.assert_array_equal(buckets, expected)


def bind_bias(bidirectional: bool):
    """A bias whose value says its head and its bucket: 100 * head + bucket."""
    module = attention.RelativeBias(2, bidirectional, 32, 128)
    table = 100.0 * jnp.arange(2.0)[:, None] + jnp.arange(32.0)[None, :]
    return module.bind({"params": {"rel_embedding": table}})


def test_encoder_bias_of_each_query_and_key():
    bias = attention.encoder_bias(bind_bias(True), 4)
    one_head = [[0, 17, 18, 19], [1, 0, 17, 18], [2, 1, 0, 17], [3, 2, 1, 0]]
    expected = np.array([one_head, 100 + np.array(one_head)], np.float32)
    np.testing.assert_array_equal(bias, expected[None])


def test_decoder_bias_counts_from_each_rows_own_positions_and_hides_later_slots():
    positions = jnp.array([[0, 1], [19, 20], [3, 4]], jnp.int32)
    bias = attention.decoder_bias(bind_bias(False), positions, 24)
    assert bias.shape == (3, 2, 2, 24) and bias.dtype == jnp.float32
    for row in range(3):
        for query, position in enumerate(np.asarray(positions[row])):
            for head in range(2):
                seen = [100 * head + bucket_by_table(CAUSAL, position - s)
                        for s in range(position + 1)]  # fmt: skip
                expected = seen + [MASKED] * (23 - position)
                np.testing.assert_array_equal(bias[row, head, query], expected)


def test_padding_bias_hides_padding_from_all_heads_and_queries():
    mask = jnp.array([[True, True, False], [True, False, False]])
    bias = attention.padding_bias(mask)
    assert bias.shape == (2, 1, 1, 3) and bias.dtype == jnp.float32
    np.testing.assert_array_equal(
        bias[:, 0, 0], [[0.0, 0.0, MASKED], [0.0, MASKED, MASKED]]
    )


def self_attention(**changes) -> attention.SelfAttention:
    sizes = {"width": 4, "num_heads": 2, "head_size": 3, "dropout_rate": 0.0}
    return attention.SelfAttention(**sizes | changes, dtype=jnp.dtype("float32"))


def draw_kernels(rng) -> dict[str, np.ndarray]:
    shapes = {name: (4, 6) for name in ("query", "key", "value")} | {"out": (6, 4)}
    return {name: draw(rng, shape) for name, shape in shapes.items()}


def draw(rng, shape) -> np.ndarray:
    return rng.normal(size=shape).astype(np.float32)


def attend(module, kernels, x, bias, *cache_and_lengths, **options):
    """Output and keys and values of an attention; deterministic without options."""
    params = {name: {"kernel": kernel} for name, kernel in kernels.items()}

    @jax.jit
    def call(params, x, bias, *cache_and_lengths):
        return module.apply(
            {"params": params}, x, bias, not options, *cache_and_lengths, **options
        )

    return jax.tree.map(np.asarray, call(params, x, bias, *cache_and_lengths))


def test_self_attention_equals_a_loop_over_rows_heads_and_queries():
    rng = np.random.default_rng(0)
    kernels, x, bias = draw_kernels(rng), draw(rng, (2, 5, 4)), draw(rng, (2, 2, 5, 5))
    bias[:, :, :, 3] = MASKED
    out, seen = attend(self_attention(), kernels, x, bias)

    expected = np.zeros((2, 5, 4))
    for row in range(2):
        query, key, value = (
            (x[row] @ kernels[name]).reshape(5, 2, 3)
            for name in ("query", "key", "value")
        )
        np.testing.assert_allclose(seen.keys[row], key.swapaxes(0, 1), rtol=1e-5)
        np.testing.assert_allclose(seen.values[row], value.swapaxes(0, 1), rtol=1e-5)
        for at in range(5):
            mixed = []
            for head in range(2):
                # No division by the root of the head size, as in T5.
                logits = key[:, head] @ query[at, head] + bias[row, head, at]
                weights = np.exp(logits - logits.max())
                assert weights[3] == 0
                mixed.append(weights @ value[:, head] / weights.sum())
            expected[row, at] = np.concatenate(mixed) @ kernels["out"]
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-5)


def test_a_query_that_may_see_nothing_gives_finite_numbers():
    rng = np.random.default_rng(1)
    bias = np.full((1, 1, 1, 3), 2 * MASKED, np.float32)
    out, _ = attend(self_attention(), draw_kernels(rng), draw(rng, (1, 3, 4)), bias)
    assert np.isfinite(out).all()


def test_cached_attention_reads_what_was_cached_and_adds_its_own_block():
    rng = np.random.default_rng(2)
    module, kernels, x = self_attention(), draw_kernels(rng), draw(rng, (2, 6, 4))
    positions = jnp.broadcast_to(jnp.arange(6, dtype=jnp.int32), (2, 6))
    bias = np.asarray(attention.decoder_bias(bind_bias(False), positions, 6) / 10)
    whole, seen = attend(module, kernels, x, bias)

    zeros = np.zeros((2, 2, 6, 3), np.float32)
    cache, none = kv.KeyValues(zeros, zeros), np.zeros(2, np.int32)
    _, cache = attend(module, kernels, x[:, :4], bias[:, :, :4], cache, none)
    # The second row has forgotten none of its 4 slots, the first the later 2.
    at = np.array([[2, 3], [4, 5]])
    block = np.take_along_axis(x, at[:, :, None], axis=1)
    own_bias = np.take_along_axis(bias, at[:, None, :, None], axis=2)
    out, cache = attend(module, kernels, block, own_bias, cache, at[:, 0].astype("i4"))
    expected = np.take_along_axis(whole, at[:, :, None], axis=1)
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(cache.keys[1], seen.keys[1], rtol=1e-5, atol=1e-6)


def test_dropout_of_weights_has_one_mask_for_all_queries():
    """As in T5X: what one query drops, every query of that row and head drops."""
    module = self_attention(width=8, num_heads=1, head_size=8, dropout_rate=0.5)
    # Values are the rows of the identity, so the output shows the weights.
    eye = np.eye(8, dtype=np.float32)
    kernels = {"query": 0 * eye, "key": 0 * eye, "value": eye, "out": eye}
    bias = np.zeros((1, 1, 1, 8), np.float32)
    rngs = {"dropout": jax.random.key(0)}
    weights, _ = attend(module, kernels, eye[None], bias, rngs=rngs)
    assert set(np.unique(weights)) == {0.0, 0.25}
    np.testing.assert_array_equal(weights[0], weights[0, :1].repeat(8, axis=0))
