"""p and q of networks, token by token, and the interval of a mean by sequences."""

import jax.numpy as jnp
import numpy as np
import pytest

import specdec_jax as sd
from specdec_jax.drafters.constant import ConstantDrafter
from specdec_jax.errors import PairError
from specdec_jax.experiments.measure import distributions
from specdec_jax.experiments.measure.distributions import (
    mean_with_interval,
    ratio_of_sums,
)
from specdec_jax.job import prepare
from specdec_jax.sampling import Warp
from tests.experiments.measure.token_by_token import probabilities
from tests.tiny_pairs import SENTENCES, VOCAB_SIZE


def test_p_and_q_are_the_models_own_asked_token_by_token(tiny_pair):
    tokens = [9, 5, 7, 1]
    inputs = prepare(tiny_pair, SENTENCES[:1], sd.DecodeSettings(), 0).inputs
    expected = probabilities(tiny_pair, SENTENCES[0], tokens, 0.5)
    params = tiny_pair.params
    sides = (
        (tiny_pair.target, params.target),
        (distributions.drafter_model(tiny_pair), params.drafter),
    )
    for (model, side), wanted in zip(sides, expected, strict=True):
        found = distributions.score(
            model, side, inputs, jnp.array([tokens], jnp.int32), Warp.from_values([0.5])
        )[0]
        assert (np.asarray(found)[:, VOCAB_SIZE:] == 0).all()
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-6)


def test_a_drafter_without_a_network_is_named(tiny_pair):
    free = ConstantDrafter(tiny_pair.target.vocab_size, 56)
    pair = sd.Pair(
        tiny_pair.target, free, tiny_pair.params, tiny_pair.tokenizer, "free"
    )
    with pytest.raises(PairError, match="'free' has no network"):
        distributions.drafter_model(pair)


def test_the_mean_is_over_positions_and_its_interval_by_sequences():
    values = np.array([1.0, 0.5, 0.0, 0.5])
    sequence = np.array([0, 0, 0, 7])
    # Sums 1.5 and .5 of 3 and 1: a mean of .5, and no sequence off it.
    assert mean_with_interval(values, sequence) == (0.5, (0.5, 0.5))
    mean, (low, high) = mean_with_interval(np.array([0.6, 0.4]), np.array([1, 2]))
    half = 1.959964 * np.sqrt(2 * (0.1**2 + 0.1**2)) / 2
    assert mean == pytest.approx(0.5)
    assert (low, high) == pytest.approx((0.5 - half, 0.5 + half))
    assert mean_with_interval(values, np.zeros(4, int)) == (0.5, (0.0, 1.0))
    assert mean_with_interval(values[:0], sequence[:0]) == (0.0, (0.0, 1.0))
    # A sequence of no positions, as of an output without a guess, is none.
    sums, counts = np.array([0.6, 0.0, 0.4]), np.array([1, 0, 1])
    assert ratio_of_sums(sums, counts) == ratio_of_sums(sums[::2], counts[::2])
    assert ratio_of_sums(sums[1:2], counts[1:2]) == (0.0, (0.0, 1.0))


def test_the_interval_covers_the_truth_where_positions_hang_together():
    """400 samples of 40 sequences of 5 equal positions: 95% by sequences, not by far
    by positions."""
    rng = np.random.default_rng(0)
    sequence = np.repeat(np.arange(40), 5)
    covered = 0
    for _ in range(400):
        values = np.repeat(rng.uniform(size=40), 5)
        low, high = mean_with_interval(values, sequence)[1]
        covered += low <= 0.5 <= high
    assert 0.91 < covered / 400 < 0.98


def test_scoring_compiles_once_for_all_temperatures(tiny_pair):
    job = prepare(tiny_pair, SENTENCES[:1], sd.DecodeSettings(), 0)
    tokens = jnp.array([[5, 6, 7]], jnp.int32)
    before = distributions.score._cache_size()
    for temperature in (0.0, 0.5, 1.0):
        warp = Warp.from_values([temperature])
        distributions.score(
            tiny_pair.target, tiny_pair.params.target, job.inputs, tokens, warp
        )
    assert distributions.score._cache_size() == before + 1
