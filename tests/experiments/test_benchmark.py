import json

import numpy as np
import pytest

from specdec_jax.errors import SettingsError
from specdec_jax.experiments.benchmark import BenchmarkConfig, benchmark
from specdec_jax.sampling import theory
from tests.tiny_pairs import SENTENCES

KEYS = {
    "temperature",
    "gamma",
    "alpha",
    "alpha_counted",
    "c",
    "verify_cost",
    "predicted_speedup",
    "speedup",
    "tokens_per_second",
    "baseline_tokens_per_second",
    "versions",
    "device",
    "config",
}


@pytest.fixture(scope="module")
def records(tiny_pair):
    config = BenchmarkConfig(
        gammas=(1, 3),
        temperatures=(0.0, 1.0),
        repeats=2,
        max_new_tokens=8,
        cost_steps=4,
    )
    return list(benchmark(tiny_pair, SENTENCES[:2], config))


def test_there_is_a_record_for_each_setting_and_it_is_json(records):
    assert [(r["temperature"], r["gamma"]) for r in records] == [
        (0.0, 1),
        (0.0, 3),
        (1.0, 1),
        (1.0, 3),
    ]
    for record in records:
        assert set(record) >= KEYS
        assert json.loads(json.dumps(record)) == json.loads(json.dumps(record))


def test_the_prediction_is_theorem_3_8_of_what_was_measured(records):
    for r in records:
        expected = theory.speedup(r["alpha"], r["gamma"], r["c"], r["verify_cost"])
        assert r["predicted_speedup"] == pytest.approx(expected)
        assert r["measured_over_predicted"] == pytest.approx(r["speedup"] / expected)
        low, high = r["speedup_spread"]
        assert low <= r["speedup"] <= high


def test_settings_on_record_are_not_measured_again(tiny_pair, records):
    skip = frozenset((r["temperature"], r["gamma"]) for r in records)
    config = BenchmarkConfig(gammas=(1, 3), temperatures=(0.0, 1.0))
    assert list(benchmark(tiny_pair, SENTENCES[:2], config, skip)) == []


@pytest.mark.parametrize(
    "change",
    [{"gammas": (0, 1)}, {"gammas": ()}, {"repeats": 0}, {"temperatures": (-1.0,)}],
)
def test_settings_out_of_range_are_refused(change):
    with pytest.raises(SettingsError):
        BenchmarkConfig(**change)


def test_both_estimates_of_alpha_are_rates(records):
    for r in records:
        assert 0 <= r["alpha"] <= 1
        assert 0 <= r["alpha_counted"] <= 1
        assert np.isfinite(r["speedup"])
