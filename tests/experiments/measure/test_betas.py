import numpy as np
import pytest

from specdec_jax.experiments.measure import betas
from specdec_jax.experiments.measure.betas import (
    autocorrelation,
    describe,
    tokens_per_target_call,
)

OUTPUTS = [np.array([1.0, 0.5, 0.0]), np.array([0.5, 1.0]), np.array([0.05])]


def test_means_by_position_are_of_the_outputs_that_come_so_far():
    told = describe(OUTPUTS)
    assert told["beta_by_position"] == [round(1.55 / 3, 4), 0.75, 0.0]
    assert told["outputs_by_position"] == [3, 2, 1]


def test_the_histogram_is_of_tenths_and_1_is_in_the_last():
    sixth = round(1 / 6, 4)
    expected = [2 * sixth, 0, 0, 0, 0, 2 * sixth, 0, 0, 0, 2 * sixth]
    assert describe(OUTPUTS)["beta_histogram"] == pytest.approx(expected, abs=2e-4)


def test_autocorrelation_by_hand_and_within_outputs():
    """Deviations 1 1 -1 -1 | 1 -1: products 1 -1 1 and -1, of variance 1."""
    outputs = [np.array([1.0, 1, 0, 0]), np.array([1.0, 0])]
    assert autocorrelation(outputs, 1) == 0.0
    assert autocorrelation(outputs, 2) == -1.0
    assert autocorrelation(outputs, 3) == -1.0
    assert autocorrelation(outputs, 4) is None
    for constant in (1.0, 0.1, 0.123457):  # whose variance may round to above 0
        assert autocorrelation([np.full(7, constant)] * 3, 1) is None
    assert len(describe(outputs)["beta_autocorrelation"]) == betas.LAGS


def test_autocorrelation_of_a_known_process():
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(400, 60))
    process = np.zeros((400, 60))
    for t in range(1, 60):
        process[:, t] = 0.6 * process[:, t - 1] + noise[:, t]
    outputs = list(process[:, 20:])
    assert autocorrelation(outputs, 1) == pytest.approx(0.6, abs=0.03)
    assert autocorrelation(outputs, 2) == pytest.approx(0.36, abs=0.04)
    assert autocorrelation(list(noise), 1) == pytest.approx(0, abs=0.03)


def test_tokens_a_run_by_the_sequence_and_as_if_alike():
    outputs = [np.repeat([1.0, 0.0], 6)]
    told = tokens_per_target_call(outputs, outputs, (0, 5))
    assert told["gammas"] == [0, 5]
    assert told["tokens_per_target_call"] == [1.0, round(12 / 7, 4)]
    assert told["tokens_per_target_call_iid"][0] == 1.0
    assert told["tokens_per_target_call_iid"][1] == pytest.approx(1.85, abs=0.03)
    # Rates say how alike they would be, and chances of the tokens how they stood.
    told = tokens_per_target_call(outputs, [np.zeros(12)], (5,))
    assert told["tokens_per_target_call"] == [1.0]
    assert told["tokens_per_target_call_iid"][0] > 1.8
