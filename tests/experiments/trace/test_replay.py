"""p and q of a decode, had again: the same tokens, and q as the drafter declared it."""

import dataclasses

import numpy as np
import pytest

import specdec_jax as sd
from specdec_jax.drafters.prompt_lookup import PromptLookupDrafter
from specdec_jax.experiments.trace import replay
from specdec_jax.experiments.trace.explain import explain
from specdec_jax.job import prepare
from tests.experiments.measure.token_by_token import probabilities
from tests.tiny_pairs import SENTENCES, VOCAB_SIZE

SETTINGS = sd.DecodeSettings(gamma=3, temperature=1.5, max_new_tokens=10)


def with_drafter(pair, name):
    if name == "neural":
        return pair
    drafter = {
        "uniform": lambda: sd.drafters.uniform.UniformDrafter(VOCAB_SIZE, 56),
        "prompt lookup": lambda: PromptLookupDrafter(VOCAB_SIZE, 56),
    }[name]()
    return dataclasses.replace(pair, drafter=drafter)


@pytest.mark.parametrize("name", ["neural", "uniform", "prompt lookup"])
def test_recording_changes_no_token_and_q_sums_to_1_where_drafted(tiny_pair, name):
    job = prepare(with_drafter(tiny_pair, name), SENTENCES[:2], SETTINGS, 0)
    expected = job.decode()
    found, draft_probs = replay.decode_recorded(job)
    np.testing.assert_array_equal(found.tokens, expected.tokens)
    np.testing.assert_array_equal(found.infos.drafted, expected.infos.drafted)
    gamma = np.asarray(found.infos.gamma)
    for step in range(int(found.num_steps)):
        for row in range(2):
            for i in range(gamma[step, row]):
                q_v = draft_probs[row, step, i]
                assert q_v.sum() == pytest.approx(1, abs=1e-5)
                assert q_v[found.infos.drafted[step, row, i]] > 0


def test_p_is_the_targets_own_asked_token_by_token(tiny_pair):
    job = prepare(tiny_pair, SENTENCES[:1], SETTINGS, 0)
    tokens = np.array([9, 5, 7, 1])
    found = replay.target_probs(job, tokens)[: len(tokens)]
    expected, _ = probabilities(tiny_pair, SENTENCES[0], tokens.tolist(), 1.5)
    assert (found[:, VOCAB_SIZE:] == 0).all()
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-6)


def test_it_compiles_once_for_all_temperatures(tiny_pair):
    before = replay._teacher_forced._cache_size()
    for temperature in (0.0, 0.5, 1.0):
        settings = dataclasses.replace(SETTINGS, temperature=temperature)
        job = prepare(tiny_pair, SENTENCES[:1], settings, 0)
        replay.target_probs(job, np.array([5, 6, 7]))
    assert replay._teacher_forced._cache_size() <= before + 1


@pytest.mark.parametrize("name", ["uniform", "prompt lookup"])
def test_a_drafter_without_a_network_is_explained_too(tiny_pair, name):
    trace = explain(
        with_drafter(tiny_pair, name),
        SENTENCES[0],
        gamma=3,
        temperature=1.5,
        seed=0,
        max_new_tokens=10,
    )
    for line in trace.lines:
        for token in line["tokens"]:
            match token["fate"]:
                case "accepted":
                    assert token["draw"] * token["q"] < token["p"]
                case "rejected":
                    assert token["draw"] * token["q"] >= token["p"]
                case "bonus":
                    assert token["q"] is None


def test_without_a_drafter_there_is_no_q(tiny_pair):
    trace = explain(
        tiny_pair, SENTENCES[0], gamma=0, temperature=0.0, seed=0, max_new_tokens=4
    )
    tokens = [token for line in trace.lines for token in line["tokens"]]
    assert len(tokens) == trace.tokens
    assert {token["q"] for token in tokens} == {None}
