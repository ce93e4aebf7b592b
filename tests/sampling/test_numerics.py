import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specdec_jax.sampling import numerics

# 1 and sizes at, off and far past the edges of the 128-id tiles of `draw`.
SIZES = (1, 127, 128, 129, 4096)
# 2^-23 is the grid of jax.random.uniform; 1 - 2^-24 is the largest float32 below 1.
EDGES = (0.0, 2.0**-23, 0.25, 0.5, 1 - 2.0**-23, 1 - 2.0**-24)

normalize = jax.jit(numerics.normalize)
masked_softmax = jax.jit(numerics.masked_softmax)
draw = jax.jit(numerics.draw)
draw_many = jax.jit(jax.vmap(numerics.draw, (None, 0)))
smallest_prefix = jax.jit(numerics.smallest_prefix)


def f32(x):
    return jnp.asarray(x, jnp.float32)


def masses(seed, size, density, decades):
    """`size` masses over that many powers of ten, most of them zero at low density."""
    rng = np.random.default_rng(seed)
    mass = 10.0 ** rng.uniform(-decades, 0, size) * (rng.random(size) < density)
    mass[rng.integers(size)] += 1e-3  # some mass, somewhere
    return mass.astype(np.float32)


some_masses = st.builds(
    masses,
    seed=st.integers(0, 2**32 - 1),
    size=st.sampled_from(SIZES),
    density=st.sampled_from((0.0, 0.01, 0.5, 1.0)),
    decades=st.sampled_from((0, 3, 30)),
)
some_uniform = st.sampled_from(EDGES) | st.floats(0, 1, width=32, exclude_max=True)


# --- normalize


def test_normalize_docstring_examples():
    fallback = f32([0.5, 0.25, 0.25])
    np.testing.assert_array_equal(normalize(f32([1, 3, 0]), fallback), [0.25, 0.75, 0])
    np.testing.assert_array_equal(normalize(f32([0, 0, 0]), fallback), fallback)


def test_normalize_does_not_hide_a_nan():
    assert np.isnan(normalize(f32([1, np.nan]), f32([1, 0]))).all()


# --- masked_softmax


@pytest.mark.parametrize(
    ("temperature", "expected"),
    [(1.0, [0.2, 0.4, 0.4, 0]), (0.5, [1 / 9, 4 / 9, 4 / 9, 0]), (0.0, [0, 1, 0, 0])],
)
def test_masked_softmax_docstring_examples(temperature, expected):
    logits = f32([0, np.log(2), np.log(2), 9])
    probs = masked_softmax(
        logits, jnp.array([True, True, True, False]), f32(temperature)
    )
    np.testing.assert_allclose(probs, expected, rtol=1e-6)


@pytest.mark.parametrize("temperature", [0.0, 1e-40, 1e-30, 0.1, 1.0, 1e30, 3e38])
def test_masked_softmax_is_exactly_zero_at_masked_and_at_minus_infinity(temperature):
    logits = f32([np.nan, np.inf, -np.inf, -300, 2, 1e4])
    mask = jnp.array([False, False, True, True, True, True])
    probs = masked_softmax(logits, mask, f32(temperature))
    np.testing.assert_array_equal(probs[:3], 0)
    np.testing.assert_allclose(probs.sum(), 1, rtol=1e-6)


def test_masked_softmax_of_a_huge_temperature_is_uniform():
    """1 / T is 0 for XLA, which may multiply by it, also where a logit is -inf."""
    logits, mask = f32([-np.inf, 5, -3, 2]), jnp.array([True, True, True, False])
    for softmax in (masked_softmax, jax.jit(masked_softmax)):
        probs = softmax(logits, mask, f32(3e38))
        np.testing.assert_allclose(probs, [0, 0.5, 0.5, 0], rtol=1e-6)


def test_masked_softmax_agrees_with_jax_nn_where_all_is_ordinary():
    logits = jax.random.normal(jax.random.key(0), (1000,)) * 5
    probs = masked_softmax(logits, jnp.ones(1000, bool), f32(0.7))
    np.testing.assert_allclose(probs, jax.nn.softmax(logits / 0.7), rtol=2e-5)


@settings(deadline=None)
@given(st.lists(st.integers(-2, 2), min_size=5, max_size=5))
def test_masked_softmax_at_zero_is_the_one_hot_of_jnp_argmax(logits):
    logits = f32(logits)
    probs = masked_softmax(logits, jnp.ones(5, bool), f32(0))
    np.testing.assert_array_equal(probs, jax.nn.one_hot(jnp.argmax(logits), 5))


def test_masked_softmax_of_nothing_is_zero_and_of_nan_is_nan():
    nothing, nan = f32([-np.inf, -np.inf]), f32([np.nan, 1])
    for temperature in (0.0, 1.0):
        mask = jnp.ones(2, bool)
        assert (masked_softmax(nothing, mask, f32(temperature)) == 0).all()
        assert np.isnan(masked_softmax(nan, mask, f32(temperature))).all()


# --- draw


def test_draw_docstring_examples():
    probs = f32([0, 0.25, 0.75, 0])
    tokens = draw_many(probs, f32([0, 0.2, 0.25, 0.9, 1 - 2.0**-24]))
    np.testing.assert_array_equal(tokens, [1, 1, 2, 2, 2])
    assert tokens.dtype == jnp.int32


@settings(max_examples=300, deadline=None)
@given(some_masses, some_uniform)
def test_draw_has_mass_and_stands_where_u_falls(mass, uniform):
    token = int(draw(mass, f32(uniform)))
    assert mass[token] > 0
    cumulative = np.cumsum(mass.astype(np.float64))
    total, tolerance = cumulative[-1], 1e-5 * cumulative[-1]
    assert cumulative[token] >= uniform * total - tolerance
    assert cumulative[token] - mass[token] <= uniform * total + tolerance


@settings(max_examples=100, deadline=None)
@given(some_masses, st.sampled_from(EDGES))
def test_draw_scales_with_its_masses_by_powers_of_two(mass, uniform):
    assert draw(mass, f32(uniform)) == draw(mass * np.float32(2**20), f32(uniform))


@pytest.mark.parametrize("size", [1, 128, 300])
def test_draw_of_every_one_hot_is_exact_for_every_uniform(size):
    tokens = jax.vmap(lambda p: draw_many(p, f32(EDGES)))(jnp.eye(size))
    expected = np.tile(np.arange(size)[:, None], len(EDGES))
    np.testing.assert_array_equal(tokens, expected)


@pytest.mark.parametrize("size", [300, 32128])
def test_draw_at_the_ends_is_the_first_and_the_last_token_with_mass(size):
    mass = np.zeros(size, np.float32)
    mass[[5, size // 2, size - 7]] = 1 / 3
    first, last = draw_many(f32(mass), f32([0, 1 - 2.0**-24]))
    assert (int(first), int(last)) == (5, size - 7)


def test_draw_survives_sums_that_round_differently_in_tiles_and_inside_them():
    # 2^-24 added to 1 rounds away one by one, and does not when added up first.
    mass = np.full(4096, 2.0**-24, np.float32)
    mass[0] = 1
    mass[1::2] = 0
    uniforms = 1 - np.arange(1, 5000, dtype=np.float32) * np.float32(2.0**-24)
    tokens = np.asarray(draw_many(f32(mass), f32(uniforms)))
    assert (mass[tokens] > 0).all()
    assert (np.diff(tokens) <= 0).all()  # uniforms fall, so tokens fall


@pytest.mark.parametrize(
    ("threshold", "expected"), [(-0.1, 1), (0.0, 1), (0.45, 1), (0.55, 3), (1.1, 3)]
)
def test_search_lands_on_mass_when_sums_fall_or_the_threshold_is_outside_them(
    threshold, expected
):
    # Parallel sums may round so that they fall, and tiles may disagree with their sum.
    cumulative, mass = f32([0.01, 0.5, 0.49, 1.0, 1.01]), f32([0, 0.5, 0, 0.5, 0])
    assert numerics._first_past(cumulative, mass, f32(threshold)) == expected


@pytest.mark.parametrize("size", [7, 4096])
def test_draw_follows_the_law_on_a_grid_of_uniforms(size):
    mass = masses(seed=1, size=size, density=0.7, decades=2)
    n = 2**15
    uniforms = (jnp.arange(n, dtype=jnp.float32) + 0.5) / n
    probs = f32(mass)
    tokens = jax.lax.map(lambda u: numerics.draw(probs, u), uniforms, batch_size=512)
    counts = np.bincount(np.asarray(tokens), minlength=size)
    expected = n * mass / mass.sum()
    # One grid point at either end of the token's interval, and the sums' rounding.
    assert np.abs(counts - expected).max() <= 1 + n * 2e-6
    drift = np.abs(np.cumsum(counts) - np.cumsum(expected))
    assert drift.max() <= 1 + n * 2e-6


# --- smallest_prefix


def prefix_by_sorting(probs, measure, goal):
    order = sorted(range(len(probs)), key=lambda i: (-probs[i], i))
    kept, total = np.zeros(len(probs), bool), 0.0
    for i in order:
        if total >= goal:
            break
        kept[i] = True
        total += measure[i]
    return kept


def test_smallest_prefix_docstring_examples():
    probs = f32([0.2, 0.4, 0.2, 0.2])
    by_mass = smallest_prefix(probs, probs, f32(0.5))
    np.testing.assert_array_equal(by_mass, [True, True, False, False])
    by_count = smallest_prefix(probs, jnp.ones(4), f32(3))
    np.testing.assert_array_equal(by_count, [True, True, True, False])


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.integers(0, 4), min_size=9, max_size=9),
    st.booleans(),
    st.integers(1, 40),
)
def test_smallest_prefix_is_the_sorted_prefix_with_ties_by_id(weights, count, goal):
    probs = np.array(weights, np.float32) / 16  # sixteenths add up exactly
    measure = np.ones(9, np.float32) if count else probs
    goal = np.float32(goal if count else goal / 16)
    np.testing.assert_array_equal(
        smallest_prefix(probs, measure, goal), prefix_by_sorting(probs, measure, goal)
    )
