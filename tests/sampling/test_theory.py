import numpy as np
import pytest

from specdec_jax.sampling import theory

# alpha, gamma, operations, speed: Table 1, c = c_hat = 0.
TABLE_1 = [
    (0.6, 2, 1.53, 1.96),
    (0.7, 3, 1.58, 2.53),
    (0.8, 2, 1.23, 2.44),
    (0.8, 5, 1.63, 3.69),
    (0.9, 2, 1.11, 2.71),
    (0.9, 10, 1.60, 6.86),
]
# gamma, alpha, c, the paper's Exp (Table 4), Theorem 3.8, argmax gamma.
TABLE_4 = [
    (7, 0.75, 0.02, 3.2, 3.16, 9),
    (7, 0.80, 0.04, 3.3, 3.25, 9),
    (7, 0.82, 0.11, 2.5, 2.50, 6),
    (7, 0.62, 0.02, 2.3, 2.26, 6),
    (5, 0.68, 0.04, 2.4, 2.35, 6),
    (3, 0.71, 0.11, 2.0, 1.93, 4),
    (5, 0.65, 0.02, 2.4, 2.40, 7),
    (5, 0.73, 0.04, 2.6, 2.62, 7),
    (3, 0.74, 0.11, 2.0, 2.03, 4),
    (5, 0.53, 0.02, 1.9, 1.89, 5),
    (3, 0.55, 0.04, 1.8, 1.80, 4),
    (3, 0.56, 0.11, 1.6, 1.54, 3),
]
ALPHAS = np.linspace(0, 0.99, 34)


def distributions(count, size, seed):
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.full(size, 0.4), count)


@pytest.mark.parametrize(("alpha", "gamma", "operations", "speed"), TABLE_1)
def test_table_1(alpha, gamma, operations, speed):
    assert theory.operations(alpha, gamma, 0) == pytest.approx(operations, abs=0.006)
    assert theory.speedup(alpha, gamma, 0) == pytest.approx(speed, abs=0.006)


@pytest.mark.parametrize(("gamma", "alpha", "c", "printed", "exact", "best"), TABLE_4)
def test_table_4(gamma, alpha, c, printed, exact, best):
    assert theory.speedup(alpha, gamma, c) == pytest.approx(exact, abs=0.006)
    assert theory.speedup(alpha, gamma, c) == pytest.approx(printed, abs=0.1)
    assert theory.best_gamma(alpha, c, 64) == best


@pytest.mark.parametrize(("c", "best"), [(0.01, 24), (0.02, 19), (0.05, 13), (0.1, 10)])
def test_figure_3_at_alpha_9(c, best):
    assert theory.best_gamma(0.9, c, 64) == best


def test_lenience_at_temperature_zero_by_hand():
    p, q = [0.5, 0.3, 0.2], [0.2, 0.5, 0.3]
    assert [theory.lenient_greedy_alpha(p, q, x) for x in (1, 0.7, 0.5)] == [0, 0, 1]
    # Tied ids: only the lowest is the argmax, and any is within a lenience below 1.
    tied = np.array([[0.4, 0.4, 0.2], [0.4, 0.4, 0.2]])
    guesses = np.array([[0.3, 0.7, 0.0], [0.7, 0.3, 0.0]])
    for lenience, stands in ((1.0, [0, 1]), (0.999, [1, 1])):
        rates = theory.lenient_greedy_alpha(tied, guesses, lenience)
        np.testing.assert_array_equal(rates, stands)
    for lenience in (0.0, 1.5):
        with pytest.raises(ValueError, match="lenience must be in"):
            theory.lenient_greedy_alpha(p, q, lenience)


def test_lenience_at_temperature_zero_speeds_up_as_printed_in_appendix_a5():
    speeds = theory.speedup(np.array([0.75, 0.75, 0.80, 0.87]), 8, 0.015)
    np.testing.assert_allclose(speeds, [3.3, 3.3, 3.9, 4.9], atol=0.06)


def test_docstring_examples():
    assert theory.divergence([0.5, 0.5], [1, 0]) == 0.5
    assert theory.rejection_sampling_acceptance([0.5, 0.5], [0.75, 0.25]) == 0.5
    assert theory.beta([0.5, 0.5], [0.75, 0.25]) == 0.75
    assert theory.expected_tokens(0.8, 5) == pytest.approx(3.69, abs=0.005)
    assert theory.speedup(0.75, 7, 0.02) == pytest.approx(3.16, abs=0.005)
    assert theory.operations(0.8, 5, 0) == pytest.approx(1.63, abs=0.005)
    assert theory.best_gamma(0.9, 0.05, 64) == 13
    assert theory.oracle_speedup(0.8, 0.05) == pytest.approx(4.17, abs=0.005)
    best = theory.best_gamma(0.8, 0.05, 64)
    assert theory.speedup(0.8, best, 0.05) == pytest.approx(3.09, abs=0.005)


def test_expected_tokens_is_the_sum_of_powers_with_both_limits():
    for gamma in (0, 1, 5, 20):
        powers = np.sum(ALPHAS[:, None] ** np.arange(gamma + 1), axis=1)
        np.testing.assert_allclose(theory.expected_tokens(ALPHAS, gamma), powers)
        assert theory.expected_tokens(1.0, gamma) == gamma + 1
        near = theory.expected_tokens(1 - 1e-13, gamma)
        assert near == pytest.approx(gamma + 1, rel=1e-9)
    np.testing.assert_allclose(theory.expected_tokens(ALPHAS, np.inf), 1 / (1 - ALPHAS))
    assert theory.expected_tokens(1.0, np.inf) == np.inf


def test_a_longer_or_surer_block_never_gives_fewer_tokens():
    tokens = theory.expected_tokens(ALPHAS[:, None], np.arange(30))
    assert (np.diff(tokens, axis=0) >= -1e-12).all()
    assert (np.diff(tokens, axis=1) >= -1e-12).all()


def test_verify_cost_divides_beside_the_drafts():
    assert theory.speedup(0.8, 4, 0.1, v=1.6) == pytest.approx(
        theory.expected_tokens(0.8, 4) / 2.0
    )
    assert theory.speedup(0.0, 0, 0.3) == 1.0
    assert theory.speedup(0.5, np.inf, 0.1) == 0
    assert theory.speedup(0.5, np.inf, 0.0) == 2


def test_dearer_verification_never_asks_for_a_shorter_block():
    best = [theory.best_gamma(0.8, 0.05, 64, v) for v in (0.5, 1.0, 2.0, 4.0)]
    assert best == sorted(best) and best[0] < best[-1]


def test_best_gamma_is_capped_and_is_zero_when_drafting_does_not_pay():
    assert theory.best_gamma(0.9, 0.0, 12) == 12
    assert theory.best_gamma(0.9, 0.01, 5) == 5
    assert theory.best_gamma(0.1, 0.5, 12) == 0
    assert theory.best_gamma(0.0, 0.0, 12) == 0  # all equal: the smallest


@pytest.mark.parametrize("c", [0.0, 0.02, 0.11, 0.5, 1.0])
def test_some_gamma_improves_iff_alpha_exceeds_c_and_by_the_bound(c):
    for alpha in ALPHAS:
        speeds = theory.speedup(alpha, np.arange(1, 65), c)
        assert theory.can_improve(alpha, c) == (speeds.max() > 1 + 1e-12)
        bound = theory.guaranteed_speedup(alpha, c)
        assert bound == pytest.approx(theory.speedup(alpha, 1, c))
        assert speeds.max() >= bound - 1e-12
        assert (bound > 1) == (alpha > c)


@pytest.mark.parametrize("c", [0.01, 0.05, 0.2])
def test_the_oracle_is_above_every_fixed_gamma_by_up_to_60_percent(c):
    best = np.array(
        [max(1.0, theory.speedup(a, np.arange(200), c).max()) for a in ALPHAS]
    )
    oracle = theory.oracle_speedup(ALPHAS, c)
    assert (oracle >= best - 1e-12).all()
    assert 1.2 < (oracle / best).max() < 1.7
    np.testing.assert_allclose(theory.oracle_tokens(ALPHAS), 1 / (1 - ALPHAS))


def test_the_oracle_pays_only_for_good_guesses():
    rng = np.random.default_rng(0)
    good = rng.geometric(1 - 0.8, 400_000) - 1  # guesses before the first bad one
    speed = (good + 1).sum() / (0.05 * good + 1).sum()
    assert theory.oracle_speedup(0.8, 0.05) == pytest.approx(speed, rel=0.01)


def test_divergence_is_symmetric_zero_on_equals_one_on_disjoint():
    p, q = distributions(50, 6, 0), distributions(50, 6, 1)
    np.testing.assert_allclose(theory.divergence(p, q), theory.divergence(q, p))
    np.testing.assert_allclose(theory.divergence(p, q), 1 - theory.beta(p, q))
    np.testing.assert_array_equal(theory.divergence(p, p), 0)
    assert theory.divergence([1, 0], [0, 1]) == 1
    assert isinstance(theory.beta(p[0], q[0]), float)


def test_rejection_sampling_never_accepts_more_and_equals_a_simulation():
    p, q = distributions(50, 6, 2), distributions(50, 6, 3)
    acceptance = theory.rejection_sampling_acceptance(p, q)
    assert (acceptance <= theory.beta(p, q) + 1e-12).all()
    expected = [1 / np.max(a / b) for a, b in zip(p, q, strict=True)]
    np.testing.assert_allclose(acceptance, expected)


def test_rejection_sampling_with_zero_mass_on_either_side():
    assert theory.rejection_sampling_acceptance([0.5, 0.5, 0], [0.5, 0, 0.5]) == 0
    assert theory.rejection_sampling_acceptance([1, 0], [0.25, 0.75]) == 0.25
    assert theory.rejection_sampling_acceptance([1, 0], [1, 0]) == 1


def test_lenient_alpha_is_beta_at_one_and_grows_as_lenience_falls():
    p, q = distributions(50, 6, 4), distributions(50, 6, 5)
    np.testing.assert_allclose(theory.lenient_alpha(p, q, 1.0), theory.beta(p, q))
    alphas = [theory.lenient_alpha(p, q, x) for x in (1.0, 0.5, 0.3, 0.1)]
    assert (np.diff(alphas, axis=0) >= 0).all()
    assert theory.lenient_alpha([0.2, 0.8], [0.6, 0.4], 0.5) == pytest.approx(0.8)


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("alpha", lambda: theory.expected_tokens(1.1, 2)),
        ("alpha", lambda: theory.oracle_speedup(np.nan, 0.1)),
        ("gamma", lambda: theory.expected_tokens(0.5, -1)),
        ("gamma", lambda: theory.speedup(0.5, 1.5, 0.1)),
        ("max_gamma", lambda: theory.best_gamma(0.5, 0.1, -1)),
        ("c must", lambda: theory.speedup(0.5, 2, -0.1)),
        ("c_hat", lambda: theory.operations(0.5, 2, np.inf)),
        ("v must", lambda: theory.speedup(0.5, 2, 0.1, v=0)),
        ("lenience", lambda: theory.lenient_alpha([1.0], [1.0], 0.0)),
        ("lenience", lambda: theory.lenient_alpha([1.0], [1.0], 1.5)),
        ("p must", lambda: theory.beta([0.5, 0.6], [0.5, 0.5])),
        ("q must", lambda: theory.divergence([0.5, 0.5], [1.5, -0.5])),
        ("one vocabulary", lambda: theory.beta([1.0], [0.5, 0.5])),
    ],
)
def test_what_is_out_of_domain_is_named(name, call):
    with pytest.raises(ValueError, match=name):
        call()


def test_runs_of_a_finite_output_literal_values():
    assert theory.expected_target_calls(0.8, 3, 16) == pytest.approx(5.82, abs=0.01)
    assert theory.expected_target_calls(0.5, 1, 1) == 1
    # Two tokens at gamma 1: one run if the guess stands, else two.
    assert theory.expected_target_calls(0.5, 1, 2) == pytest.approx(1.5)
    assert theory.expected_target_calls(0.5, 1, 3) == pytest.approx(
        1 + 0.5 * 1 + 0.5 * 1.5
    )
    assert theory.expected_target_calls(0.7, 4, 0) == 0


def test_runs_of_a_finite_output_limits():
    assert theory.expected_target_calls(0.0, 5, 12) == 12  # nothing stands
    assert theory.expected_target_calls(0.9, 0, 12) == 12  # nothing is guessed
    assert theory.expected_target_calls(1.0, 3, 12) == 3  # all stands
    # Long outputs come to equation 1.
    long = 4000 / theory.expected_target_calls(0.8, 4, 4000)
    assert long == pytest.approx(theory.expected_tokens(0.8, 4), rel=1e-3)


def test_runs_along_known_rates_literal_values():
    assert theory.expected_target_calls_along([1, 0, 1], 1) == 2
    assert theory.expected_target_calls_along([0, 1, 0], 1) == 2
    assert theory.expected_target_calls_along([1, 1, 0, 1], 2) == 2
    assert theory.expected_target_calls_along([1, 0, 0, 1], 3) == 3
    # One run if the first guess stands, else two; and so on, three tokens deep.
    assert theory.expected_target_calls_along([0.5, 0.5], 1) == pytest.approx(1.5)
    assert theory.expected_target_calls_along([0.25, 0.5, 0.9], 2) == pytest.approx(
        1 + 0.25 * 0.5 + 0.75 * (1 + 0.5)
    )
    assert theory.expected_target_calls_along([], 3) == 0
    assert theory.expected_target_calls_along([0.3, 0.7], 0) == 2


@pytest.mark.parametrize("gamma", [1, 2, 5])
def test_runs_along_known_rates_equal_a_simulation(gamma):
    rng = np.random.default_rng(gamma)
    rates = rng.uniform(size=9)
    stands = rng.random((20_000, len(rates))) < rates
    runs = []
    for row in stands.tolist():
        place, count = 0, 0
        while place < len(row):
            accepted = (row[place : place + gamma] + [False]).index(False)
            place, count = place + accepted + 1, count + 1
        runs.append(count)
    noise = np.std(runs) / np.sqrt(len(runs))
    expected = theory.expected_target_calls_along(rates, gamma)
    assert np.mean(runs) == pytest.approx(expected, abs=4 * noise)


def test_the_best_gamma_where_wider_runs_cost_more():
    v = 1 + 0.2 * np.arange(65)
    assert theory.best_gamma(0.9, 0.05, 64, v) == 6
    speeds = [theory.speedup(0.9, g, 0.05, v[g]) for g in range(65)]
    assert int(np.argmax(speeds)) == 6
    assert theory.best_gamma(0.9, 0.05, 64, 1 + 2.0 * np.arange(65)) == 0


@pytest.mark.parametrize("rates", [[0.5, 1.1], [-0.1], [np.nan]])
def test_rates_out_of_domain_are_named(rates):
    with pytest.raises(ValueError, match="rates must be in"):
        theory.expected_target_calls_along(rates, 2)
