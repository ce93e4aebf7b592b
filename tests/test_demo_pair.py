"""The packaged pair: what users try first, held exactly."""

import numpy as np
import pytest

import specdec_jax as sd
from specdec_jax.checkpoints import formats
from specdec_jax.data.text import read_lines
from specdec_jax.loading import ASSETS

SENTENCES = read_lines(ASSETS / "eval_sentences.en.txt")
MAX_NEW_TOKENS = 40


@pytest.fixture(scope="module")
def pair():
    return sd.load_pair("demo_ende")


@pytest.fixture(scope="module")
def baseline(pair):
    settings = sd.DecodeSettings(max_new_tokens=MAX_NEW_TOKENS)
    return sd.generate(pair, SENTENCES[:60], settings, seed=0, method="autoregressive")


def test_the_evaluation_sentences_are_at_least_a_hundred_and_unlike():
    assert len(set(SENTENCES)) == len(SENTENCES) >= 100


def test_greedy_output_is_the_baselines_for_every_gamma_in_one_batch(pair, baseline):
    gammas = [i % 9 for i in range(60)]
    settings = sd.DecodeSettings(gamma=gammas, max_new_tokens=MAX_NEW_TOKENS)
    out = sd.generate(pair, SENTENCES[:60], settings, seed=0)
    np.testing.assert_array_equal(out.tokens, baseline.tokens)
    np.testing.assert_array_equal(out.lengths, baseline.lengths)
    assert (out.stats.target_calls <= out.lengths).all()


@pytest.mark.parametrize("batch", [1, 2, 3, 5])
def test_greedy_output_is_the_baselines_for_every_batch_size(pair, baseline, batch):
    settings = sd.DecodeSettings(gamma=4, max_new_tokens=MAX_NEW_TOKENS)
    for start in range(0, 10, batch):
        out = sd.generate(pair, SENTENCES[start : start + batch], settings, seed=0)
        rows = slice(start, start + len(out.lengths))
        np.testing.assert_array_equal(out.tokens, baseline.tokens[rows])


@pytest.mark.parametrize("format", sorted(formats.WRITERS))
def test_the_pair_in_every_format_decodes_the_same_tokens(baseline, tmp_path, format):
    sides = {
        side: formats.convert(ASSETS / "demo_ende" / side, tmp_path / side, format)
        for side in ("target", "drafter")
    }
    settings = sd.DecodeSettings(gamma=4, max_new_tokens=MAX_NEW_TOKENS)
    out = sd.generate(sd.load_pair(**sides), SENTENCES[:60], settings, seed=0)
    np.testing.assert_array_equal(out.tokens, baseline.tokens)
    np.testing.assert_array_equal(out.lengths, baseline.lengths)


def test_sentences_are_translated_to_their_end(pair, baseline):
    assert (baseline.lengths < MAX_NEW_TOKENS).mean() > 0.95
    assert all(text.strip() for text in baseline.texts)


@pytest.mark.parametrize(("temperature", "least"), [(0.0, 0.75), (1.0, 0.62)])
def test_the_drafter_agrees_with_its_target(pair, temperature, least):
    settings = sd.DecodeSettings(
        gamma=4, temperature=temperature, max_new_tokens=MAX_NEW_TOKENS
    )
    stats = sd.generate(pair, SENTENCES, settings, seed=0).stats.total()
    assert stats.alpha >= least
    assert stats.acceptance_rate == pytest.approx(stats.alpha, abs=0.04)
    assert stats.tokens_per_target_call > 2.0
