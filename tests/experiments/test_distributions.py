"""Real p and q: against a model asked token by token, and the rates that follow."""

import jax.numpy as jnp
import numpy as np
import pytest

import specdec_jax as sd
from specdec_jax.drafters.constant import ConstantDrafter
from specdec_jax.errors import PairError
from specdec_jax.experiments import distributions
from specdec_jax.experiments.distributions import (
    acceptance_rates,
    collect_distributions,
    mean_with_interval,
)
from specdec_jax.generate import prepare
from specdec_jax.sampling import Warp
from tests.experiments.token_by_token import probabilities
from tests.tiny_pairs import SENTENCES, VOCAB_SIZE

MAX_NEW_TOKENS = 9
# A letter each for p and q: near, apart, and one-hot.
P = np.array([[0.5, 0.3, 0.2], [0.1, 0.6, 0.3], [1.0, 0.0, 0.0]])
Q = np.array([[0.2, 0.5, 0.3], [0.7, 0.1, 0.2], [0.25, 0.25, 0.5]])


@pytest.fixture(scope="module")
def collected(tiny_pair):
    """At temperature .5, in batches of two and of one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(distributions, "BATCH", 2)
        return list(
            collect_distributions(
                tiny_pair,
                SENTENCES[:3],
                temperature=0.5,
                seed=3,
                max_new_tokens=MAX_NEW_TOKENS,
            )
        )


@pytest.fixture(scope="module")
def generated(tiny_pair):
    settings = sd.DecodeSettings(temperature=0.5, max_new_tokens=MAX_NEW_TOKENS)
    return sd.generate(
        tiny_pair, SENTENCES[:3], settings, seed=3, method="autoregressive"
    )


def test_there_is_a_position_for_each_token_of_the_target(collected, generated):
    sequence = np.concatenate([batch.sequence for batch in collected])
    np.testing.assert_array_equal(np.bincount(sequence), generated.lengths)
    assert [set(batch.sequence) for batch in collected] == [{0, 1}, {2}]


def test_p_and_q_are_the_models_own_asked_token_by_token(
    tiny_pair, collected, generated
):
    p = np.concatenate([batch.p for batch in collected])
    q = np.concatenate([batch.q for batch in collected])
    assert np.all(p[:, VOCAB_SIZE:] == 0) and np.all(q[:, VOCAB_SIZE:] == 0)
    start = 0
    for row, length in enumerate(generated.lengths):
        expected = probabilities(
            tiny_pair, SENTENCES[row], generated.tokens[row, :length], 0.5
        )
        for found, wanted in zip((p, q), expected, strict=True):
            np.testing.assert_allclose(
                found[start : start + length], wanted, rtol=1e-3, atol=1e-6
            )
        start += length


def test_at_temperature_0_p_and_q_are_not_one_hot(tiny_pair):
    (batch,) = collect_distributions(
        tiny_pair, SENTENCES[:1], temperature=0.0, seed=0, max_new_tokens=4
    )
    assert np.all(batch.p.max(axis=1) < 1)
    job = prepare(
        tiny_pair,
        SENTENCES[:1],
        sd.DecodeSettings(max_new_tokens=4),
        0,
        "autoregressive",
    )
    tokens = np.asarray(job.decode().tokens)[0, : len(batch.p)]
    np.testing.assert_array_equal(batch.p.argmax(axis=1), tokens)


def test_a_drafter_without_a_network_is_named(tiny_pair):
    free = ConstantDrafter(tiny_pair.target.vocab_size, 56)
    pair = sd.Pair(
        tiny_pair.target, free, tiny_pair.params, tiny_pair.tokenizer, "free"
    )
    with pytest.raises(PairError, match="'free' has no network"):
        next(collect_distributions(pair, SENTENCES, temperature=1.0, seed=0))


@pytest.mark.parametrize(
    ("lenience", "expected"),
    [(1.0, [0.7, 0.4, 0.25]), (0.5, [1.0, 0.5, 0.25]), (0.1, [1.0, 1.0, 0.25])],
)
def test_lenience_divides_p(lenience, expected):
    rates = acceptance_rates(P, Q, 1.0, lenience)
    np.testing.assert_allclose(rates, expected)


@pytest.mark.parametrize(
    ("lenience", "expected"),
    [(1.0, [0, 0, 0]), (0.7, [0, 0, 0]), (0.55, [1, 0, 0]), (0.1, [1, 1, 0])],
)
def test_at_temperature_0_lenience_lets_near_ties_stand(lenience, expected):
    """argmax q is 1, 0, 2; there p is .3 of .5, .1 of .6 and 0."""
    np.testing.assert_array_equal(acceptance_rates(P, Q, 0.0, lenience), expected)


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
        warp = Warp.of([temperature])
        distributions.score(
            tiny_pair.target, tiny_pair.params.target, job.inputs, tokens, warp
        )
    assert distributions.score._cache_size() == before + 1
