"""A sweep in one batch gives what its settings give one by one."""

import numpy as np
import pytest

import specdec_jax as sd
from specdec_jax.experiments.measure.sweep import speed_table, sweep, sweep_table
from specdec_jax.sampling import theory
from tests.experiments import found_records
from tests.tiny_pairs import SENTENCES

GAMMAS, TEMPERATURES = (0, 1, 3), (0.0, 1.0)
TEXTS = SENTENCES[:3]


@pytest.fixture(scope="module")
def pair(pair_folder):
    """The drafter is the target, so that guesses stand."""
    target = str(pair_folder / "target")
    return sd.load_pair(pair_folder, target=target, drafter=target)


@pytest.fixture(scope="module")
def records(pair):
    return sweep(
        pair,
        TEXTS,
        gammas=GAMMAS,
        temperatures=TEMPERATURES,
        seed=5,
        max_new_tokens=10,
    )


def test_there_is_a_record_for_each_setting(records):
    settings = [(one.temperature, one.gamma) for one in records]
    assert settings == [(t, g) for t in TEMPERATURES for g in GAMMAS]


@pytest.mark.parametrize("place", range(6))
def test_a_record_is_what_its_settings_give_alone(pair, records, place):
    record = records[place]
    settings = sd.DecodeSettings(
        gamma=record.gamma,
        temperature=record.temperature,
        max_new_tokens=10,
        max_gamma=max(GAMMAS),
    )
    alone = sd.generate(pair, TEXTS, settings, seed=5)
    total = alone.stats.total()
    assert record.outputs == alone.texts
    assert record.tokens == total.tokens == alone.lengths.sum()
    assert record.target_calls == total.target_calls
    assert record.tokens_per_target_call == total.tokens / total.target_calls
    if record.gamma:
        assert record.alpha == pytest.approx(total.alpha)
        runs = [
            theory.expected_target_calls(record.alpha, record.gamma, int(n))
            for n in alone.lengths
        ]
        predicted = total.tokens / np.sum(runs)
        assert record.predicted_tokens_per_target_call == pytest.approx(predicted)


def test_without_guesses_a_run_gives_a_token_and_alpha_is_nothing(records):
    for record in records[0], records[3]:
        assert record.alpha is None
        assert record.tokens_per_target_call == 1
        assert record.predicted_tokens_per_target_call == 1


def test_at_temperature_0_gamma_changes_no_output_but_the_runs(records):
    zero, one, three = records[:3]
    assert zero.outputs == one.outputs == three.outputs
    assert zero.target_calls > one.target_calls >= three.target_calls


def test_tables_have_a_row_for_each_record(records):
    heads, *rows = sweep_table(records).cells()
    assert heads[:3] == ["T", "γ", "α (measured)"]
    assert len(rows) == len(records)
    assert rows[0][:3] == ["0", "0", "–"]
    assert rows[-1][:2] == ["1", "3"]
    measured = found_records.benchmark(
        tokens_per_second=100.4, baseline_tokens_per_second=50.0
    )
    (row,) = speed_table([measured]).cells()[1:]
    assert row == ["0", "2", "0.80", "0.10", "1.20", "1.60", "1.50", "100", "50"]
