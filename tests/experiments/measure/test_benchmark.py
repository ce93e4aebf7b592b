import dataclasses
import json

import numpy as np
import pytest

import specdec_jax as sd
from specdec_jax.drafters.prompt_lookup import PromptLookupDrafter
from specdec_jax.errors import DataError, SettingsError
from specdec_jax.experiments.kinds import Benchmark
from specdec_jax.experiments.measure.benchmark import BenchmarkConfig, benchmark
from specdec_jax.experiments.measure.cost import predict_speedup
from specdec_jax.experiments.record_file import RecordFile
from specdec_jax.job import encode
from specdec_jax.sampling import theory
from tests.tiny_pairs import SENTENCES

BY_BETA = ("beta_predicted_speedup", "beta_tokens_per_target_call", "best_gamma")

CONFIG = BenchmarkConfig(
    gammas=(1, 3),
    temperatures=(0.0, 1.0),
    repeats=2,
    max_new_tokens=8,
    cost_rounds=3,
)


def is_whole(record):
    """As JSON it is read again, and lacks int8 and what needs betas or a network."""
    values = json.loads(json.dumps(record.to_json(), allow_nan=False))
    names = {field.name for field in dataclasses.fields(Benchmark)}
    lacking = names - set(values) - {*BY_BETA, "c_alone", "command", "path"}
    return (
        lacking == {"quantization"}
        and Benchmark.from_json(values, "here").to_json() == values
    )


def has_betas(record):
    return all(getattr(record, name) is not None for name in BY_BETA)


@pytest.fixture(scope="module")
def records(tiny_pair):
    return list(benchmark(tiny_pair, encode(tiny_pair, SENTENCES[:2]), CONFIG))


def test_there_is_a_record_for_each_setting_and_it_is_json(records):
    assert [(r.temperature, r.gamma) for r in records] == [
        (0.0, 1),
        (0.0, 3),
        (1.0, 1),
        (1.0, 3),
    ]
    for record in records:
        assert is_whole(record) and has_betas(record)


def test_the_prediction_is_made_of_what_was_measured(records):
    for r in records:
        costs = (r.alpha, r.gamma, r.c, r.v)
        assert r.theorem_3_8 == pytest.approx(theory.speedup(*costs))
        # No sentence of this pair ends by itself, so all have the cap's length.
        expected = predict_speedup(*costs, [8], r.fixed_costs)
        assert r.predicted_speedup == pytest.approx(expected)
        quotient = r.speedup / r.predicted_speedup
        assert r.measured_over_predicted == pytest.approx(quotient)
        low, high = r.speedup_spread
        assert low <= r.speedup <= high


def test_betas_predict_tokens_per_target_call_exactly_at_temperature_0(records):
    """Above it they are of other draws than the loop's."""
    for r in records:
        if r.temperature == 0:
            measured = pytest.approx(r.tokens_per_target_call)
            assert r.beta_tokens_per_target_call == measured
        assert 1 <= r.beta_tokens_per_target_call <= r.gamma + 1
        baseline, ours = r.fixed_costs
        tokens = 8.0  # of every output
        calls = tokens / r.beta_tokens_per_target_call
        step = r.gamma * r.c + r.v
        expected = (baseline + tokens) / (ours + calls * step)
        assert r.beta_predicted_speedup == pytest.approx(expected)
        assert 0 <= r.best_gamma <= 3


def test_settings_on_record_are_not_measured_again(tiny_pair, records, tmp_path):
    file = RecordFile(tmp_path / "records.jsonl")
    for record in records:
        file.append(record)
    assert (
        list(benchmark(tiny_pair, encode(tiny_pair, SENTENCES[:2]), CONFIG, file)) == []
    )
    assert len(list(file)) == len(records)
    other = dataclasses.replace(CONFIG, repeats=7)
    with pytest.raises(DataError, match="records.jsonl:1 has config"):
        list(benchmark(tiny_pair, encode(tiny_pair, SENTENCES[:2]), other, file))
    swapped = encode(tiny_pair, SENTENCES[1::-1])
    with pytest.raises(DataError, match="records.jsonl:1 has inputs_sha256"):
        list(benchmark(tiny_pair, swapped, CONFIG, file))
    with file.alone(), pytest.raises(DataError, match="another run appends"):
        list(benchmark(tiny_pair, swapped, CONFIG, file))
    with pytest.raises(DataError, match="records.jsonl:1 has inputs 2"):
        list(benchmark(tiny_pair, encode(tiny_pair, SENTENCES[:3]), CONFIG, file))


@pytest.mark.parametrize(
    "change",
    [
        {"gammas": (0, 1)},
        {"gammas": ()},
        {"leniences": ()},
        {"leniences": (0.0,)},
        {"repeats": 0},
        {"cost_rounds": 0},
        {"temperatures": (-1.0,)},
    ],
)
def test_settings_out_of_range_are_refused(change):
    with pytest.raises(SettingsError):
        BenchmarkConfig(**change)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"gammas": 5}, "gammas must be a list, not 5"),
        ({"temperatures": 1.0}, "temperatures must be a list, not 1.0"),
        ({"leniences": 1}, "leniences must be a list, not 1"),
        ({"gammas": (2.5,)}, "gammas must be an integer, at least 1, not 2.5"),
        ({"gammas": "58"}, "gammas must be a list, not '58'"),
        ({"repeats": 2.0}, "repeats must be an integer, at least 1, not 2.0"),
        ({"max_new_tokens": True}, "max_new_tokens must be an integer"),
        ({"seed": -1}, "seed must be an integer, at least 0, not -1"),
    ],
)
def test_values_that_gin_lets_through_are_named(change, words):
    with pytest.raises(SettingsError, match=words):
        BenchmarkConfig(**change)


def test_both_estimates_of_alpha_are_rates(records):
    for r in records:
        assert 0 <= r.alpha <= 1
        assert 0 <= r.acceptance_rate <= 1
        low, high = r.alpha_interval
        assert 0 <= low <= r.alpha <= high <= 1
        assert np.isfinite(r.speedup)


def test_leniences_are_measured_on_one_baseline_and_more_is_accepted(
    tiny_pair, tmp_path
):
    config = dataclasses.replace(
        CONFIG, gammas=(1,), temperatures=(1.0,), leniences=(1.0, 0.1), repeats=1
    )
    inputs = encode(tiny_pair, SENTENCES[:2])
    file = RecordFile(tmp_path / "records.jsonl")
    exact, lenient = benchmark(tiny_pair, inputs, config, file)
    assert (exact.lenience, lenient.lenience) == config.leniences
    assert lenient.alpha > exact.alpha
    assert has_betas(exact)
    assert all(getattr(lenient, name) is None for name in BY_BETA)
    both = [r.baseline_tokens_per_second for r in (exact, lenient)]
    assert both[0] == both[1]
    more = dataclasses.replace(config, leniences=(1.0, 0.1, 0.5))
    (added,) = benchmark(tiny_pair, inputs, more, file)
    assert added.lenience == 0.5


def test_a_drafter_without_a_network_is_measured_too(pair_folder):
    """Prompt lookup that finds nothing has no alpha, and its record is still whole."""
    found = sd.load_pair(pair_folder, drafter="repeat_last")
    nothing = PromptLookupDrafter(50, 56, min_match=8)
    pairs = [found, dataclasses.replace(found, drafter=nothing)]
    config = dataclasses.replace(CONFIG, gammas=(2,), temperatures=(0.0,), repeats=1)
    for pair in pairs:
        (record,) = benchmark(pair, encode(pair, SENTENCES[:1]), config)
        assert is_whole(record) and has_betas(record)
        assert 0 <= record.c < record.v
        assert (record.drafted_per_target_call > 0) == (pair is found)
