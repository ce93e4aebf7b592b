"""Alpha of a tiny pair: what its records hold, and that a stopped run goes on."""

import dataclasses
import json

import numpy as np
import pytest

import specdec_jax as sd
from specdec_jax.decoding.settings import DecodeSettings
from specdec_jax.drafters.prompt_lookup import PromptLookupDrafter
from specdec_jax.errors import DataError, SettingsError
from specdec_jax.experiments.kinds import Alpha, AlphaOutput
from specdec_jax.experiments.measure import alpha as alpha_module
from specdec_jax.experiments.measure.alpha import (
    AlphaConfig,
    AlphaRun,
    drafter_name,
    outputs_path,
)
from specdec_jax.experiments.measure.intervals import mean_with_interval
from specdec_jax.experiments.record_file import RecordFile
from specdec_jax.job import encode
from specdec_jax.loading import RULE_BASED
from specdec_jax.sampling import theory
from specdec_jax.training.fit_ngram import fit_ngram
from tests.experiments.measure.token_by_token import probabilities
from tests.tiny_pairs import SENTENCES, VOCAB_SIZE

CONFIG = AlphaConfig(
    tokens=32,
    temperatures=(0.0, 1.0),
    leniences=(1.0, 0.5),
    gammas=(1, 3),
    max_new_tokens=6,
    batch_size=2,
)
TEXTS = SENTENCES[:3]


def run(pair, path, config=CONFIG, texts=TEXTS):
    """Runs to the end; returns the new records."""
    return list(AlphaRun(pair, encode(pair, texts), config, RecordFile(path))())


def lines(path):
    return list(RecordFile(path))


@pytest.fixture(scope="module")
def measured(tiny_pair, tmp_path_factory):
    """The file of records of a whole run."""
    path = tmp_path_factory.mktemp("alpha") / "alpha.jsonl"
    run(tiny_pair, path)
    return path


def test_there_is_a_record_for_each_temperature_and_lenience(measured):
    records = lines(measured)
    settings = [(r.temperature, r.lenience) for r in records]
    assert settings == [(0.0, 1.0), (0.0, 0.5), (1.0, 1.0), (1.0, 0.5)]
    for record in records:
        assert isinstance(record, Alpha)
        low, high = record.alpha_interval
        assert 0 <= low <= record.alpha <= high <= 1
        assert (record.drafter, record.drafted_share) == ("neural", 1.0)
        has_calls = record.tokens_per_target_call is not None
        assert has_calls == (record.lenience == 1)
    outputs = lines(outputs_path(measured))
    assert all(isinstance(line, AlphaOutput) for line in outputs)
    assert records[1].alpha >= records[0].alpha
    assert records[3].alpha > records[2].alpha


def test_outputs_are_the_targets_own_and_enough_of_them(measured, tiny_pair):
    """At temperature 0 each text once; above it texts come again, with new draws."""
    found = lines(outputs_path(measured))
    cold, warm = ([x for x in found if x.temperature == t] for t in (0, 1))
    assert [(x.output_index, x.input_index) for x in cold] == [(0, 0), (1, 1), (2, 2)]
    texts = [x.input_index for x in warm]
    assert texts == [i % 3 for i in range(len(warm))] and len(warm) % 2 == 0
    assert sum(len(x.tokens) for x in warm) >= CONFIG.tokens
    assert sum(len(x.tokens) for x in warm[:-2]) < CONFIG.tokens
    assert warm[0].tokens != warm[3].tokens
    expected = sd.generate(
        tiny_pair,
        [TEXTS[text] for text in texts],
        DecodeSettings(temperature=1.0, max_new_tokens=6),
        seed=0,
        method="autoregressive",
    )
    for row, line in enumerate(warm):
        length = expected.lengths[row]
        assert line.tokens == expected.tokens[row, :length].tolist()


def test_alpha_is_the_mean_overlap_of_what_the_models_say(measured, tiny_pair):
    """By models that are asked token by token, in float64."""
    warm = [x for x in lines(outputs_path(measured)) if x.temperature == 1]
    both = [probabilities(tiny_pair, TEXTS[x.input_index], x.tokens, 1.0) for x in warm]
    text = np.repeat([x.input_index for x in warm], [len(x.tokens) for x in warm])
    for record in lines(measured)[2:]:
        rates = [theory.lenient_alpha(p, q, record.lenience) for p, q in both]
        mean, interval = mean_with_interval(np.concatenate(rates), text)
        assert record.alpha == pytest.approx(mean, abs=1e-3)
        assert record.alpha_interval == pytest.approx(interval, abs=1e-3)
        assert record.tokens == len(text) and record.outputs == len(warm)
        by_position = np.mean([one[0] for one in rates])
        assert record.beta_by_position[0] == pytest.approx(by_position, abs=1e-3)


def test_a_second_run_measures_nothing(measured, tiny_pair, monkeypatch):
    monkeypatch.delattr(alpha_module, "sample_outputs")
    before = measured.read_bytes(), outputs_path(measured).read_bytes()
    assert run(tiny_pair, measured) == []
    assert before == (measured.read_bytes(), outputs_path(measured).read_bytes())


@pytest.mark.parametrize("kept", [0.2, 0.6, 0.97])
def test_a_stopped_run_goes_on_to_the_same_bytes(measured, tiny_pair, tmp_path, kept):
    """In the middle of a line, of a batch, and of a temperature."""
    path = tmp_path / "alpha.jsonl"
    whole = outputs_path(measured).read_bytes()
    outputs_path(path).write_bytes(whole[: int(kept * len(whole))])
    if kept > 0.9:
        path.write_bytes(b"".join(measured.open("rb").readlines()[:1]))
    run(tiny_pair, path)
    assert path.read_bytes() == measured.read_bytes()
    assert outputs_path(path).read_bytes() == whole


def test_other_runs_are_not_mixed(measured, tiny_pair, pair_folder):
    other = dataclasses.replace(CONFIG, seed=1)
    with pytest.raises(DataError, match="alpha.jsonl:1 has config"):
        run(tiny_pair, measured, other)
    with pytest.raises(DataError, match="alpha.jsonl:1 has inputs_sha256"):
        run(tiny_pair, measured, texts=[*TEXTS[:2], SENTENCES[3]])
    with pytest.raises(DataError, match="alpha.jsonl:1 has pair"):
        run(sd.load_pair(pair_folder, drafter="uniform"), measured)


def test_outputs_that_lack_one_are_refused(measured, tiny_pair, tmp_path):
    path = tmp_path / "alpha.jsonl"
    first, second, *others = outputs_path(measured).read_bytes().splitlines(True)
    for kept in ([first, *others], [first, first, second, *others]):
        outputs_path(path).write_bytes(b"".join(kept))
        with pytest.raises(DataError, match="lacks outputs of temperature 0"):
            run(tiny_pair, path)


def test_another_filter_is_another_line_of_the_same_file(tiny_pair, tmp_path):
    path = tmp_path / "alpha.jsonl"
    config = dataclasses.replace(
        CONFIG, tokens=8, temperatures=(1.0,), leniences=(1.0,)
    )
    run(tiny_pair, path, config)
    (record,) = run(tiny_pair, path, dataclasses.replace(config, top_k=1))
    assert record.top_k == 1 and len(lines(path)) == 2
    rates = [x.betas[0] for x in lines(outputs_path(path)) if x.top_k == 1]
    assert np.isin(np.concatenate(rates), [0, 1]).all()  # one token is all that is left


def test_without_a_single_draft_token_alpha_is_0(pair_folder, tiny_pair, tmp_path):
    config = dataclasses.replace(CONFIG, temperatures=(1.0,), tokens=8)
    drafter = PromptLookupDrafter(VOCAB_SIZE, 56, min_match=8)
    pair = dataclasses.replace(tiny_pair, drafter=drafter)
    first, second = run(pair, tmp_path / "alpha.jsonl", config)
    assert (first.alpha, first.drafted_share, first.drafter) == (
        0,
        0,
        "prompt_lookup",
    )
    assert first.alpha_interval == (0.0, 1.0)
    assert first.tokens_per_target_call == [1.0, 1.0]
    assert second.alpha == 0 and json.dumps(first.to_json(), allow_nan=False)


def test_drafters_have_names(tiny_pair):
    names = {
        "uniform": "uniform",
        "repeat_last": "repeat_last",
        "prompt_lookup": "prompt_lookup",
    }
    for made, name in names.items():
        drafter = RULE_BASED[made](VOCAB_SIZE, 56)
        pair = dataclasses.replace(tiny_pair, drafter=drafter)
        assert drafter_name(pair) == name
    drafter = sd.drafters.ngram.NGramDrafter(VOCAB_SIZE, 56)
    for order, name in ((1, "unigram"), (2, "bigram"), (4, "4-gram")):
        params = fit_ngram([[5, 6, 7, 1]], VOCAB_SIZE, order)
        params = tiny_pair.params.replace(drafter=params)
        pair = dataclasses.replace(tiny_pair, drafter=drafter, params=params)
        assert drafter_name(pair) == name


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"tokens": 0}, "tokens must be an integer, at least 1, not 0"),
        ({"batch_size": 0}, "batch_size must be an integer, at least 1, not 0"),
        ({"temperatures": ()}, "temperatures must not be empty"),
        ({"leniences": (1.0, 1.0)}, "leniences has a value twice"),
        ({"temperatures": (-1.0,)}, "temperature must be"),
        ({"leniences": (0.0,)}, "lenience must be"),
        ({"top_p": 0.0}, "top_p must be"),
        ({"gammas": (-1,)}, "gammas must be an integer, at least 0, not -1"),
        ({"gammas": (2.5,)}, "gammas must be an integer, at least 0, not 2.5"),
        ({"tokens": 10.5}, "tokens must be an integer"),
        ({"temperatures": ("hot",)}, "temperatures must be a number, not 'hot'"),
        ({"seed": -1}, "seed must be an integer"),
        ({"seed": 2**32}, "seed must be an integer from 0 to 2\\^32 - 1"),
    ],
)
def test_settings_out_of_range_are_refused(change, words):
    with pytest.raises(SettingsError, match=words):
        AlphaConfig(**change)


def test_rejection_sampling_accepts_less(measured, tiny_pair):
    """sum p min q/p, from models that are asked token by token; only above 0."""
    warm = [x for x in lines(outputs_path(measured)) if x.temperature == 1]
    inputs = [x.input_index for x in warm]
    values, index = [], np.repeat(inputs, [len(x.tokens) for x in warm])
    for one in warm:
        p, q = probabilities(tiny_pair, TEXTS[one.input_index], one.tokens, 1.0)
        p, q = p[:, :VOCAB_SIZE], q[:, :VOCAB_SIZE]
        values.append((q / p).min(axis=1))
    mean, interval = mean_with_interval(np.concatenate(values), index)
    for record in lines(measured):
        if (record.temperature, record.lenience) == (1, 1):
            assert 0 < record.rejection_alpha < record.alpha
            assert record.rejection_alpha == pytest.approx(mean, abs=1e-4)
            assert record.rejection_interval == pytest.approx(interval, abs=1e-4)
        else:
            assert record.rejection_alpha is record.rejection_interval is None


def test_no_inputs_are_refused(tiny_pair, tmp_path):
    records = RecordFile(tmp_path / "alpha.jsonl")
    with pytest.raises(DataError, match="no input"):
        AlphaRun(tiny_pair, [], CONFIG, records)
