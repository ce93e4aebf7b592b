import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from specdec_jax.sampling import Warp, standardize, standardize_rows

one = jax.jit(standardize, static_argnums=2)
rows = jax.jit(standardize_rows, static_argnums=2)

UNLIKE_WARPS = dict(
    plain=(1.0, 0, 1.0),
    cool=(0.5, 0, 1.0),
    argmax=(0.0, 0, 1.0),
    argmax_filtered=(0.0, 3, 0.5),
    top_k=(1.0, 5, 1.0),
    top_p=(1.3, 0, 0.8),
    both=(0.7, 20, 0.9),
)


def logits_of(*shape, seed=0):
    return 3 * jax.random.normal(jax.random.key(seed), shape)


def batch(*warps):
    temperature, top_k, top_p = zip(*warps, strict=True)
    return Warp.from_values(temperature, top_k, top_p)


def reference(logits, temperature, top_k, top_p, vocab_size):
    """Plain, slow, in float64; and how close the nucleus came to another answer."""
    logits = np.asarray(logits, np.float64)[:vocab_size]
    probs = np.zeros(vocab_size)
    if temperature == 0:
        probs[int(np.argmax(logits))] = 1
        return probs, 1.0
    probs = np.exp((logits - logits.max()) / temperature)
    probs /= probs.sum()
    order = sorted(range(vocab_size), key=lambda i: (-probs[i], i))
    if top_k:
        probs[order[top_k:]] = 0
        probs /= probs.sum()
    margin = 1.0
    if top_p < 1:
        mass = np.cumsum(probs[order])
        margin = np.abs(mass - top_p).min()
        keep = 1 + int(np.sum(mass[:-1] < top_p))
        probs[order[keep:]] = 0
        probs /= probs.sum()
    return probs, margin


@pytest.mark.parametrize(
    ("warp", "expected"),
    [
        ((0, 0, 1), [1, 0, 0, 0]),
        ((1, 3, 1), [5 / 9, 3 / 9, 1 / 9, 0]),
        ((1, 0, 0.75), [5 / 8, 3 / 8, 0, 0]),
        ((1, 3, 0.85), [5 / 8, 3 / 8, 0, 0]),
    ],
)
def test_docstring_examples(warp, expected):
    logits = jnp.log(jnp.array([0.5, 0.3, 0.1, 0.1]))
    np.testing.assert_allclose(
        one(logits, Warp.from_values(*warp), 4), expected, rtol=1e-6
    )


@settings(max_examples=300, deadline=None)
@given(
    weights=st.lists(st.integers(0, 6), min_size=12, max_size=12),
    temperature=st.sampled_from((0.0, 0.3, 1.0, 2.0)),
    top_k=st.integers(0, 14),
    top_p=st.sampled_from((0.01, 0.3, 0.5, 0.77, 0.9, 0.999, 1.0)),
    vocab_size=st.sampled_from((9, 12)),
)
def test_equals_the_slow_reference_with_many_ties(
    weights, temperature, top_k, top_p, vocab_size
):
    logits = np.array(weights, np.float32)  # few values, so many ties
    expected, margin = reference(logits, temperature, top_k, top_p, vocab_size)
    assume(margin > 1e-5)  # float32 may not tell; exact masses are tested below
    probs = np.asarray(
        one(logits, Warp.from_values(temperature, top_k, top_p), vocab_size)
    )
    np.testing.assert_allclose(probs[:vocab_size], expected, rtol=1e-5, atol=1e-7)
    np.testing.assert_array_equal(probs[:vocab_size] > 0, expected > 0)
    np.testing.assert_array_equal(probs[vocab_size:], 0)


@pytest.mark.parametrize("top_p", [0.01, 0.3, 0.9, 0.999])
def test_equals_the_slow_reference_on_a_real_vocabulary(top_p):
    logits = logits_of(4096)
    expected, margin = reference(logits, 0.8, 200, top_p, 4000)
    assert margin > 1e-5
    probs = np.asarray(one(logits, Warp.from_values(0.8, 200, top_p), 4000))
    np.testing.assert_allclose(probs[:4000], expected, rtol=1e-5, atol=1e-9)
    np.testing.assert_array_equal(probs[:4000] > 0, expected > 0)


@pytest.mark.parametrize(
    ("top_p", "kept"), [(1e-9, 1), (0.25, 1), (0.26, 2), (0.5, 2), (0.75, 3), (0.99, 4)]
)
def test_nucleus_of_equals_is_the_lowest_ids_and_no_more_than_reach_top_p(top_p, kept):
    probs = one(jnp.zeros(4), Warp.from_values(top_p=top_p), 4)
    expected = np.where(np.arange(4) < kept, np.float32(1) / np.float32(kept), 0)
    np.testing.assert_allclose(probs, expected, rtol=1e-6)


@pytest.mark.parametrize("warp", UNLIKE_WARPS.values(), ids=UNLIKE_WARPS)
def test_padding_is_exactly_zero_even_where_its_logits_are_the_largest(warp):
    logits = logits_of(3, 2, 50).at[:, :, 43:].set(1e9)
    probs = np.asarray(rows(logits, batch(warp, UNLIKE_WARPS["plain"], warp), 43))
    np.testing.assert_array_equal(probs[:, :, 43:], 0)
    np.testing.assert_allclose(probs.sum(-1), 1, rtol=1e-6)


@pytest.mark.parametrize("warp", UNLIKE_WARPS.values(), ids=UNLIKE_WARPS)
@pytest.mark.parametrize("size", [50, 4096])
def test_a_row_is_the_same_to_the_bit_whatever_its_neighbours(warp, size):
    logits = logits_of(3, 2, size)
    alone = np.asarray(rows(logits, batch(*[warp] * 3), size))[1]
    for neighbour in UNLIKE_WARPS.values():
        others = logits_of(3, 2, size, seed=1).at[1].set(logits[1])
        probs = rows(others, batch(neighbour, warp, neighbour), size)
        np.testing.assert_array_equal(probs[1], alone)


def test_a_batch_of_unlike_rows_is_each_row_by_itself():
    logits = logits_of(3, 2, 50)
    for warps in itertools.combinations(UNLIKE_WARPS.values(), 3):
        probs = np.asarray(rows(logits, batch(*warps), 43))
        for b, warp in enumerate(warps):
            for t in range(2):
                alone = np.asarray(one(logits[b, t], Warp.from_values(*warp), 43))
                np.testing.assert_allclose(probs[b, t], alone, rtol=1e-6)
                np.testing.assert_array_equal(probs[b, t] > 0, alone > 0)


@pytest.mark.parametrize("name", ["argmax", "argmax_filtered"])
def test_temperature_zero_is_an_exact_one_hot_at_the_lowest_tied_id(name):
    logits = jnp.zeros((3, 2, 50)).at[:, :, jnp.array([4, 6])].set(2.0)
    sampled = UNLIKE_WARPS["top_p"]
    probs = rows(logits, batch(sampled, UNLIKE_WARPS[name], sampled), 50)
    np.testing.assert_array_equal(probs[1], np.tile(np.eye(50)[4], (2, 1)))


def test_small_temperatures_tend_to_argmax_without_overflow():
    logits = logits_of(50)
    for temperature in (1e-3, 1e-20, 1e-38, 1e-45):
        probs = one(logits, Warp.from_values(temperature), 50)
        np.testing.assert_allclose(
            probs, one(logits, Warp.from_values(0.0), 50), atol=1e-6
        )


def test_minus_infinity_is_exactly_zero_under_every_warp():
    logits = logits_of(3, 2, 50).at[:, :, ::2].set(-jnp.inf)
    for warp in UNLIKE_WARPS.values():
        probs = np.asarray(rows(logits, batch(*[warp] * 3), 50))
        np.testing.assert_array_equal(probs[:, :, ::2], 0)
        np.testing.assert_allclose(probs.sum(-1), 1, rtol=1e-6)


def test_top_k_past_the_vocabulary_and_top_p_one_change_nothing():
    logits = logits_of(50)
    plain = one(logits, Warp.from_values(), 50)
    np.testing.assert_allclose(
        one(logits, Warp.from_values(top_k=99), 50), plain, rtol=1e-6
    )
    np.testing.assert_array_equal(
        one(logits, Warp.from_values(top_k=0, top_p=1.0), 50), plain
    )


def test_one_compilation_serves_every_warp():
    traces = []

    @jax.jit
    def counted(logits, warp):
        traces.append(None)
        return standardize_rows(logits, warp, 10)

    for warp in UNLIKE_WARPS.values():
        counted(logits_of(2, 1, 10), batch(warp, warp))
    assert len(traces) == 1


def test_warp_of_broadcasts_and_is_a_tree_that_holds_anything():
    warp = Warp.from_values(temperature=[0.0, 1.0], top_k=4)
    assert [x.shape for x in jax.tree.leaves(warp)] == [(2,)] * 3
    assert [x.dtype for x in jax.tree.leaves(warp)] == [
        jnp.float32,
        jnp.int32,
        jnp.float32,
    ]
    jax.eval_shape(lambda w: w, jax.tree.map(lambda x: jax.typeof(x), warp))
    assert jax.tree.map(lambda _: 0, warp) == Warp(0, 0, 0)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", -0.1),
        ("temperature", np.nan),
        ("temperature", np.inf),
        ("temperature", [1.0, -1.0]),
        ("top_k", -1),
        ("top_p", 0.0),
        ("top_p", 1.1),
    ],
)
def test_warp_of_names_what_is_out_of_range(name, value):
    with pytest.raises(ValueError, match=name):
        Warp.from_values(**{name: value})


@pytest.mark.parametrize("vocab_size", [0, 11])
def test_vocab_size_outside_the_array_is_an_error(vocab_size):
    with pytest.raises(ValueError, match="vocab_size"):
        standardize(jnp.zeros(10), Warp.from_values(), vocab_size)
