"""Where drafters without a network gain: tokens a target run, by counting."""

import functools

import jax
import jax.numpy as jnp

from specdec_jax.decoding.autoregressive import Autoregressive
from specdec_jax.decoding.contracts import LanguageModel
from specdec_jax.decoding.settings import DecodeSettings
from specdec_jax.decoding.speculative import PairParams, Speculative
from specdec_jax.decoding.statistics import statistics
from specdec_jax.drafters.ngram import NGramDrafter
from specdec_jax.drafters.prompt_lookup import PromptLookupDrafter
from specdec_jax.training.fit_ngram import fit_ngram
from tests import toy_models as toys

V, CAP, GAMMA, ROWS = 9, 12, 3, 600


def tokens_per_run(target, drafter, params, inputs, temperature, seed):
    settings = DecodeSettings(
        gamma=GAMMA, temperature=temperature, max_new_tokens=CAP
    ).rows(ROWS)
    decoder = Speculative(target, drafter, GAMMA, CAP, toys.NO_EOS)
    out = toys.decode(decoder, params, inputs, settings, seed=seed)
    return float(statistics(out).total().tokens_per_target_call)


def test_ngrams_of_the_targets_own_text_gain_and_longer_ones_more():
    """The target's next token hangs on two tokens before: a trigram can know it."""
    target = toys.table_model(V)
    params = toys.table_params(toys.random_table(6, V, 2.0))
    inputs = toys.no_inputs(ROWS, V)
    settings = DecodeSettings(temperature=1.0, max_new_tokens=CAP).rows(ROWS)
    baseline = Autoregressive(target, CAP, toys.NO_EOS)
    text = toys.decode(baseline, params, inputs, settings, seed=1).tokens.tolist()
    gains = [
        tokens_per_run(
            target,
            NGramDrafter(V, V),
            PairParams(params, fit_ngram(text, V, order)),
            inputs,
            1.0,
            seed=2,
        )
        for order in (1, 2, 3)
    ]
    # Guesses that cost nothing gain what a run gives over the baseline's one token.
    assert 1.2 < gains[0] < gains[1] - 0.1 < gains[2] - 0.3


@functools.cache
def reader() -> LanguageModel:
    """Says what follows the newest token in its source, surely or not at all.

    `inputs` is [B, V]; the source is their ids in ascending order, each once.
    """

    def start(params, inputs, slots):
        source = toys.source_of(inputs)
        after = jnp.roll(source, -1, axis=1)
        place = jnp.argsort(source, axis=1)
        return {"after": jnp.take_along_axis(after, place, axis=1)}, None

    def extend(params, cache, tokens, lengths, taps=()):
        following = jnp.take_along_axis(cache["after"], tokens, axis=1)
        logits = params["overlap"] * jax.nn.one_hot(following, V)
        return logits, None, cache

    return LanguageModel(V, V, start, extend)


def copied(overlap, temperature):
    drafter = PromptLookupDrafter(V, V, toys.source_of)
    params = PairParams({"overlap": jnp.float32(overlap)}, {})
    inputs = toys.random_inputs(3, ROWS, V)
    return tokens_per_run(reader(), drafter, params, inputs, temperature, seed=0)


def test_prompt_lookup_gains_where_output_and_source_overlap_and_not_elsewhere():
    """Its guesses cost nothing, so that tokens a run are what it gains."""
    assert copied(overlap=5.0, temperature=0.0) > 2.7
    assert copied(overlap=5.0, temperature=1.0) > 2.2
    assert 1.0 <= copied(overlap=-5.0, temperature=1.0) < 1.2
