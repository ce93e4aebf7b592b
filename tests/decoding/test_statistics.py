"""Counts and rates, by hand and against the exact alpha."""

import jax.numpy as jnp
import numpy as np
import pytest

from specdec_jax.decoding.settings import DecodeSettings
from specdec_jax.decoding.speculative import PairParams, Speculative
from specdec_jax.decoding.state import DecodeResult, StepInfo
from specdec_jax.decoding.statistics import statistics
from specdec_jax.drafters.neural import NeuralDrafter
from tests import reference
from tests import toy_models as toys

# A row's steps: (gamma, accepted, emitted, betas). Two guesses a block, in three rows.
LEFTOVER = (2, 2, 9, (0.9, 0.9))  # past `num_steps`: what an unfilled place may hold
ROWS = [
    # All stand, none stands, one of two stands.
    [(2, 2, 3, (0.5, 0.25)), (2, 0, 1, (0.125, 0.9)), (2, 1, 2, (1.0, 0.5)), LEFTOVER],
    # The second guess is an EOS that stands: the bonus after it is not emitted. Then
    # the row is finished, whatever its steps say.
    [(2, 2, 2, (0.75, 0.25)), (0, 0, 0, (0.9, 0.9)), (0, 0, 0, (0.9, 0.9)), LEFTOVER],
    # An EOS among the guesses hides a later one that stood; before it gamma was 0 and
    # 1, as near a cap.
    [(0, 0, 1, (0.9, 0.9)), (1, 1, 2, (0.5, 0.9)), (2, 2, 1, (0.25, 0.9)), LEFTOVER],
]


def by_hand() -> DecodeResult:
    """The rows above, three steps each."""
    steps = list(zip(*ROWS, strict=True))
    gamma, accepted, emitted = (
        jnp.asarray([[row[i] for row in step] for step in steps], jnp.int32)
        for i in range(3)
    )
    betas = jnp.asarray([[row[3] for row in step] for step in steps], jnp.float32)
    return DecodeResult(
        tokens=jnp.zeros((3, 4), jnp.int32),
        lengths=jnp.asarray([6, 2, 4], jnp.int32),
        num_steps=jnp.asarray(3, jnp.int32),
        infos=StepInfo(
            drafted=jnp.zeros((4, 3, 2), jnp.int32),
            gamma=gamma,
            num_accepted=accepted,
            next_token=jnp.zeros((4, 3), jnp.int32),
            num_emitted=emitted,
            betas=betas,
        ),
    )


@pytest.mark.parametrize(
    "field, expected",
    [
        ("tokens", [6, 2, 4]),
        ("target_calls", [3, 1, 3]),
        ("drafted", [6, 2, 3]),
        ("accepted", [3, 2, 2]),
        ("rejected", [2, 0, 0]),
        ("beta_sum", [0.5 + 0.25 + 0.125 + 1.0 + 0.5, 0.75 + 0.25, 0.5 + 0.25]),
        ("beta_count", [5, 2, 2]),
        ("tokens_per_target_call", [2.0, 2.0, 4 / 3]),
        ("acceptance_rate", [3 / 5, 1.0, 1.0]),
        ("alpha", [2.375 / 5, 0.5, 0.375]),
    ],
)
def test_counts_by_hand(field, expected):
    assert getattr(statistics(by_hand()), field).tolist() == pytest.approx(expected)


def test_totals_are_sums_and_their_rates_are_of_the_sums():
    total = statistics(by_hand()).total()
    assert (total.tokens, total.target_calls, total.drafted) == (12, 7, 11)
    assert (total.accepted, total.rejected, total.beta_count) == (7, 2, 9)
    assert total.acceptance_rate == pytest.approx(7 / 9)
    assert total.alpha == pytest.approx((2.375 + 1.0 + 0.75) / 9)
    assert total.tokens_per_target_call == pytest.approx(12 / 7)


def test_rates_without_any_guess_are_nan_and_not_an_error():
    result = by_hand()
    infos = result.infos.replace(
        gamma=jnp.zeros_like(result.infos.gamma),
        num_accepted=jnp.zeros_like(result.infos.gamma),
        num_emitted=jnp.ones_like(result.infos.gamma),
    )
    stats = statistics(result.replace(infos=infos))
    assert np.isnan(stats.acceptance_rate).all() and np.isnan(stats.alpha).all()
    np.testing.assert_array_equal(stats.tokens_per_target_call, 1.0)


def test_both_alphas_are_the_exact_one_of_independent_draws():
    """p and q without memory: alpha is sum_x min(p, q), and every row estimates it."""
    vocab, batch, cap = 6, 3000, 12
    p_logits, q_logits = np.random.default_rng(0).normal(size=(2, vocab))
    everywhere = np.zeros((vocab, vocab, vocab))
    model = toys.table_model(vocab)
    decoder = Speculative(model, NeuralDrafter(model), 3, cap, toys.NO_EOS)
    temperatures = np.array([1.0, 0.5, 2.0])
    result = toys.decode(
        decoder,
        PairParams(
            toys.table_params(everywhere + p_logits),
            toys.table_params(everywhere + q_logits),
        ),
        toys.no_inputs(batch, vocab),
        DecodeSettings(
            gamma=[3, 1] * (batch // 2),
            temperature=np.repeat(temperatures, batch // 3),
            max_gamma=3,
            max_new_tokens=cap,
        ).rows(batch),
    )
    stats = statistics(result)
    assert (stats.target_calls <= stats.tokens).all()
    np.testing.assert_array_equal(stats.tokens, cap)
    by_temperature = np.arange(batch).reshape(3, -1)
    for temperature, rows in zip(temperatures, by_temperature, strict=True):
        p, q = (reference.warped(x, temperature) for x in (p_logits, q_logits))
        alpha = np.minimum(p, q).sum()
        tested = stats.beta_count[rows].sum()
        assert tested > 5000
        counted = stats.accepted[rows].sum() / tested
        noise = np.sqrt(alpha * (1 - alpha) / tested)
        assert counted == pytest.approx(alpha, abs=4 * noise)
        assert stats.beta_sum[rows].sum() / tested == pytest.approx(alpha, rel=1e-5)
        # The rate that is biased low, against which the docstring warns.
        naive = stats.accepted[rows].sum() / stats.drafted[rows].sum()
        assert naive < alpha - 4 * noise
