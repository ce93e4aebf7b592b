"""Betas along known outputs: against numpy, token by token, for every drafter."""

import functools

import jax.numpy as jnp
import numpy as np
import pytest

from specdec_jax.decoding.autoregressive import Autoregressive
from specdec_jax.decoding.settings import DecodeSettings
from specdec_jax.decoding.speculative import PairParams, Speculative
from specdec_jax.decoding.statistics import statistics
from specdec_jax.experiments.measure import acceptance
from specdec_jax.experiments.measure.acceptance import along_outputs, score
from specdec_jax.experiments.measure.intervals import mean_with_interval
from specdec_jax.job import encode
from specdec_jax.sampling import Warp, theory
from tests import reference
from tests import toy_models as toys
from tests.drafters.test_contract import (
    DRAFTERS,
    MODEL,
    PADDED,
    SIMILAR,
    TABLE,
    TARGET,
    TEXTS,
    V,
)
from tests.experiments.measure.token_by_token import probabilities
from tests.tiny_pairs import SENTENCES

T = 7
PROMPTS = [[0], [3, 2], [5, 4, 6], [2, 2]]
WARPS = [
    {"temperature": 1.0},
    {"temperature": 0.5, "top_k": 4},
    {"temperature": 0.0},
    {"temperature": 1.3, "top_p": 0.7},
]
B = len(PROMPTS)
INPUTS = toys.random_inputs(4, B, PADDED)
TOKENS = np.random.default_rng(5).integers(1, V, (B, T))
LENIENCES = [1.0, 0.6, 0.2]
CAP, REPEATS = 8, 400
SIMILAR_TABLE = np.asarray(SIMILAR["table"], np.float64)[:, :, :V]


def scored(drafter, params, prompts=PROMPTS, tokens=TOKENS):
    keys = ("temperature", "top_k", "top_p")
    neutral = {"top_k": 0, "top_p": 1.0}
    warp = Warp.from_values(
        *([(neutral | warp)[key] for warp in WARPS] for key in keys)
    )
    scores = score(
        MODEL,
        drafter,
        PairParams(TARGET, params),
        INPUTS,
        toys.prompt_of(*prompts),
        jnp.asarray(tokens, jnp.int32),
        warp,
        jnp.asarray(LENIENCES),
    )
    return [
        np.asarray(x)
        for x in (
            scores.betas,
            scores.accept_probs,
            scores.rejection_probs,
            scores.drafted,
        )
    ]


def q_of(name, row, prefix):
    """A drafter's q after a prefix, from what it is and not from its code."""
    add, warp = np.asarray(INPUTS)[row, :V], WARPS[row]
    if name == "neural":
        return reference.table_law(SIMILAR_TABLE, add, **warp)(prefix)
    if name == "uniform":
        return reference.warped(np.zeros(V), **warp)
    if name == "repeat last":
        return np.eye(V)[prefix[-1]]
    if name == "trigram":
        q = reference.ngram_law(TEXTS, V, 3)(prefix)
        return reference.warped(np.log(q), **warp)
    source = np.asarray(toys.source_of(INPUTS))[row].tolist()
    copied = reference.copied(source, list(prefix), 1)
    return np.eye(PADDED)[copied[0]][:V] if copied and copied[0] < V else None


@pytest.mark.parametrize(
    "name", ["neural", "uniform", "repeat last", "trigram", "prompt lookup"]
)
def test_betas_are_the_overlaps_after_each_prefix(name):
    """Rows of unlike prompts, inputs and warps; leniences at every temperature."""
    betas, accept_probs, rejection, drafted = scored(*DRAFTERS[name])
    for row, (prompt, warp) in enumerate(zip(PROMPTS, WARPS, strict=True)):
        add = np.asarray(INPUTS)[row, :V]
        for t in range(T):
            prefix = (*prompt, *TOKENS[row, :t].tolist())
            token = TOKENS[row, t]
            p = reference.table_law(TABLE, add, **warp)(prefix)
            q = q_of(name, row, prefix)
            assert drafted[row, t] == (q is not None)
            if q is None:
                assert accept_probs[row, t] == rejection[row, t] == 0
                assert not betas[row, t].any()
                continue
            passed = min(q[x] / p[x] for x in np.flatnonzero(p))
            assert rejection[row, t] == pytest.approx(passed, abs=1e-5)
            came = min(1, q[token] / p[token]) if p[token] > 0 else 0
            assert accept_probs[row, t] == pytest.approx(came, abs=1e-5)
            for k, lenience in enumerate(LENIENCES):
                expected = np.minimum(p / lenience, q).sum()
                if warp["temperature"] == 0:
                    raw = reference.table_law(TABLE, add)(prefix)
                    near = raw[np.argmax(q)] >= lenience * raw.max()
                    expected = max(expected, float(near))
                assert betas[row, t, k] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("name", DRAFTERS)
def test_going_along_an_output_is_beginning_after_each_of_its_prefixes(name):
    """No drafter's state is led astray by the commits that it is told of."""
    whole = scored(*DRAFTERS[name])
    for t in (1, 4):
        prompts = [
            prompt + row[:t].tolist()
            for prompt, row in zip(PROMPTS, TOKENS, strict=True)
        ]
        rest = scored(*DRAFTERS[name], prompts, TOKENS[:, t:])
        for got, want in zip(rest, whole, strict=True):
            np.testing.assert_allclose(got, want[:, t:], atol=1e-5)


def test_a_network_gives_what_it_gives_asked_token_by_token(tiny_pair):
    """A T5 pair, with outputs of unlike lengths in one batch."""
    outputs = [[7, 9, 5, 3, 1], [4, 4, 1]]
    inputs = encode(tiny_pair, SENTENCES[:2])
    settings = DecodeSettings(temperature=0.5)
    found = along_outputs(tiny_pair, inputs, outputs, settings, (1.0, 0.5))
    for text, output, one in zip(SENTENCES, outputs, list(found), strict=False):
        p, q = probabilities(tiny_pair, text, output, 0.5)
        assert one.betas.shape == (len(output), 2) and one.drafted.all()
        np.testing.assert_allclose(one.betas[:, 0], theory.beta(p, q), atol=1e-4)
        np.testing.assert_allclose(
            one.betas[:, 1], theory.lenient_alpha(p, q, 0.5), atol=1e-4
        )
        places = np.arange(len(output))
        ratio = np.minimum(1, q[places, output] / p[places, output])
        np.testing.assert_allclose(one.accept_probs, ratio, atol=1e-4)


# Rows of the loops: one of each group after the other.
GROUPS = [(gamma, temperature) for gamma in (2, CAP) for temperature in (0.0, 0.5, 1.0)]
EVERY_GROUP = pytest.mark.parametrize("group", GROUPS)
EVERY_DRAFTER = pytest.mark.parametrize(
    "name", ["neural", "uniform", "repeat last", "trigram", "prompt lookup", "hesitant"]
)


@functools.cache
def looped(name):
    """A drafter's loop, and scores of its own outputs and of the target's alone.

    Returns:
      The loop's result and statistics; and for either kind of outputs its lengths,
      betas, accept_probs and drafted, [B] and [B, T].
    """
    drafter, params = DRAFTERS[name]
    pair = PairParams(TARGET, params)
    rows = REPEATS * len(GROUPS)
    inputs = toys.random_inputs(9, rows, PADDED)
    gammas, temperatures = np.tile(GROUPS, (REPEATS, 1)).T
    settings = DecodeSettings(
        gamma=gammas.astype(int), temperature=temperatures, max_new_tokens=CAP
    ).rows(rows)
    loop = toys.decode(
        Speculative(MODEL, drafter, CAP, CAP, toys.EOS), pair, inputs, settings, seed=2
    )
    baseline = Autoregressive(MODEL, CAP, toys.EOS)
    own = toys.decode(baseline, TARGET, inputs, settings, seed=1)
    found = []
    for result in (loop, own):
        scores = score(
            MODEL,
            drafter,
            pair,
            inputs,
            toys.start_prompt(rows),
            result.tokens,
            settings.warp,
            jnp.ones(1),
        )
        parts = (
            result.lengths,
            scores.betas[..., 0],
            scores.accept_probs,
            scores.drafted,
        )
        found.append([np.asarray(x) for x in parts])
    return statistics(loop), *found


def of_group(group, *arrays):
    return (x[GROUPS.index(group) :: len(GROUPS)] for x in arrays)


def calls_along(accept_probs, lengths, gamma):
    return np.array(
        [
            theory.expected_target_calls_along(row[:length], gamma)
            for row, length in zip(accept_probs, lengths, strict=True)
        ]
    )


@EVERY_DRAFTER
@EVERY_GROUP
def test_the_loops_target_calls_are_predicted(name, group):
    """At temperature 0 for each row exactly, EOS and caps included.

    Above it on average, from outputs of the target alone: the loop draws others, of
    the same law.
    """
    stats, own_loop, own = looped(name)
    calls, lengths, accept_probs = of_group(group, stats.target_calls, own[0], own[2])
    predicted = calls_along(accept_probs, lengths, group[0])
    if group[1] == 0:
        assert {1, CAP} <= set(lengths.tolist())
        np.testing.assert_array_equal(predicted, calls)
        return
    noise = np.sqrt((predicted.var() + calls.var()) / len(calls))
    assert abs(predicted.mean() - calls.mean()) < 4 * noise + 1e-9
    lengths, accept_probs = of_group(group, own_loop[0], own_loop[2])
    left = calls_along(accept_probs, lengths, group[0]) - calls
    assert abs(left.mean()) < 4 * left.std() / np.sqrt(len(left)) + 1e-9


@EVERY_DRAFTER
@pytest.mark.parametrize("temperature", [0.0, 0.5, 1.0])
def test_the_loops_alpha_is_the_mean_beta_on_the_targets_outputs(name, temperature):
    """Where no block is ever full, so that all tokens are tested but one at the cap.

    With short blocks the token after a full one is not, which makes the tested ones
    another sample.
    """
    group = (CAP, temperature)
    stats, _, own = looped(name)
    sums, counts = of_group(group, stats.beta_sum, stats.beta_count)
    alpha, interval = mean_with_interval(
        np.repeat(sums / np.maximum(counts, 1), counts),
        np.repeat(np.arange(len(sums)), counts),
    )
    lengths, betas, drafted = of_group(group, own[0], own[1], own[3])
    place = np.arange(CAP)
    tested = (place < lengths[:, None]) & drafted & (place < CAP - 1)
    predicted, other = mean_with_interval(betas[tested], np.nonzero(tested)[0])
    half = np.hypot(*(np.subtract(high, low) / 2 for low, high in (interval, other)))
    assert half < 0.08
    # At temperature 0 both are of the same outputs.
    assert alpha == pytest.approx(predicted, abs=1e-6 + 2 * half * (temperature > 0))


def test_scoring_compiles_once_for_all_settings(tiny_pair):
    before = score._cache_size()
    inputs = encode(tiny_pair, SENTENCES[:1])
    for temperature, top_k in ((0.0, 0), (0.5, 3), (1.0, 0)):
        settings = DecodeSettings(temperature=temperature, top_k=top_k)
        list(along_outputs(tiny_pair, inputs, [[5, 6, 7]], settings))
        list(along_outputs(tiny_pair, inputs, [[5, 6]], settings))
    assert score._cache_size() == before + 1


def test_what_is_kept_is_short(tiny_pair):
    (one,) = along_outputs(
        tiny_pair,
        encode(tiny_pair, SENTENCES[:1]),
        [[5, 6]],
        DecodeSettings(temperature=1.0),
    )
    assert len(repr(one.accept_probs.tolist()[0])) <= acceptance.DECIMALS + 2
