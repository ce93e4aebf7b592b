"""GPTs in both loops, as targets and drafters, with prompts of unlike lengths."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from specdec_jax.decoding.autoregressive import Autoregressive
from specdec_jax.decoding.contracts import Prompt
from specdec_jax.decoding.settings import DecodeSettings
from specdec_jax.decoding.speculative import PairParams, Speculative
from specdec_jax.decoding.statistics import statistics
from specdec_jax.drafters.neural import NeuralDrafter
from specdec_jax.drafters.ngram import NGramDrafter
from specdec_jax.drafters.prompt_lookup import PromptLookupDrafter
from specdec_jax.training.fit_ngram import fit_ngram
from tests import reference
from tests import toy_models as toys

VOCAB, PADDED, G = 30, 32, 8
CAPS = (13, 13, 4, 9, 12)
LENGTHS = (6, 1, 9, 4, 2)  # of the prompts, padded to 9
B = len(LENGTHS)
TARGET, PARAMS = toys.tiny_gpt()
SIMILAR = toys.similar_params(PARAMS, 1, noise=0.05)
TEXTS = np.random.default_rng(3).integers(2, VOCAB, (40, 6)).tolist()
# name -> (drafter, its parameters)
DRAFTERS = {
    "similar GPT": (NeuralDrafter(TARGET), SIMILAR),
    "other GPT": (NeuralDrafter(toys.tiny_gpt(1, layers=1)[0]), toys.tiny_gpt(1, 1)[1]),
    "prompt_lookup": (PromptLookupDrafter(VOCAB, PADDED), {}),
    "bigram": (NGramDrafter(VOCAB, PADDED), fit_ngram(TEXTS, VOCAB, 2)),
}


def random_prompt(seed: int, lengths=LENGTHS) -> Prompt:
    """The start token and random ones; what follows a row's end is junk."""
    tokens = np.random.default_rng(seed).integers(2, VOCAB, (len(lengths), 9))
    tokens[:, 0] = 0
    return Prompt(jnp.asarray(tokens, jnp.int32), jnp.asarray(lengths, jnp.int32))


def unlike_rows(gamma):
    gammas = [(gamma + 3 * row) % (G + 1) for row in range(B)]
    return DecodeSettings(gamma=gammas, max_gamma=G, max_new_tokens=CAPS).rows(B)


def decode(name, gamma, seed):
    """Speculative and baseline."""
    drafter, params = DRAFTERS[name]
    rows, prompt = unlike_rows(gamma), random_prompt(seed)
    speculative = Speculative(TARGET, drafter, G, CAPS[0], toys.EOS)
    baseline = Autoregressive(TARGET, CAPS[0], toys.EOS)
    pair, inputs = PairParams(PARAMS, params), toys.only_prompts(B)
    out = toys.decode(speculative, pair, inputs, rows, prompt)
    return out, toys.decode(baseline, PARAMS, inputs, rows, prompt)


@pytest.mark.parametrize("gamma", range(G + 1))
@pytest.mark.parametrize("name", DRAFTERS)
def test_greedy_output_is_the_baselines(name, gamma):
    for seed in range(3):
        out, base = decode(name, gamma, seed)
        np.testing.assert_array_equal(out.tokens, base.tokens)
        np.testing.assert_array_equal(out.lengths, base.lengths)
        assert (statistics(out).target_calls <= out.lengths).all()


def test_some_guesses_stand_and_some_do_not():
    total = statistics(decode("similar GPT", 8, 0)[0]).total()
    assert total.accepted > 5 and total.rejected > 5
    assert statistics(decode("bigram", 8, 0)[0]).total().rejected > 5
    assert statistics(decode("prompt_lookup", 8, 0)[0]).total().drafted > 0


@functools.cache
def teacher_forced(lengths: tuple[int, ...]):
    """The baseline's output of seed 0, and the argmax after each of its prefixes."""
    rows, prompt = unlike_rows(0), random_prompt(0, lengths)
    baseline = Autoregressive(TARGET, CAPS[0], toys.EOS)
    out = toys.decode(baseline, PARAMS, toys.only_prompts(B), rows, prompt)
    argmax = []
    for row, length in enumerate(lengths):
        generated = np.asarray(out.tokens)[row, : int(out.lengths[row])]
        text = np.concatenate([np.asarray(prompt.tokens)[row, :length], generated])
        padded = np.pad(text, (0, 9 + CAPS[0] - len(text)))[None]
        cache, _ = TARGET.start(PARAMS, toys.only_prompts(1), padded.shape[1])
        logits, _, _ = TARGET.extend(
            PARAMS, cache, jnp.asarray(padded, jnp.int32), jnp.zeros(1, jnp.int32)
        )
        likeliest = np.asarray(logits)[0, :, :VOCAB].argmax(axis=-1)
        argmax.append(likeliest[length - 1 : len(text) - 1].tolist())
    return out, argmax


def test_the_baselines_output_is_the_argmax_after_each_rows_own_prompt():
    out, argmax = teacher_forced(LENGTHS)
    for row, expected in enumerate(argmax):
        length = int(out.lengths[row])
        assert np.asarray(out.tokens)[row, :length].tolist() == expected
    assert len({token for row in argmax for token in row}) > 8


LAW_VOCAB, LAW_PADDED, LAW_LENGTH = 6, 8, 3
PROMPTS = ([0, 3], [0, 4, 2, 5], [0])
TEMPERATURE, TOP_P, GAMMA = (1.0, 0.6, 1.0), (1.0, 1.0, 0.8), (2, 1, 2)


def test_three_tokens_follow_the_targets_law_after_each_rows_own_prompt():
    kinds, copies, batches = len(PROMPTS), 600, 8
    target, params = toys.tiny_gpt(3, 2, LAW_VOCAB, LAW_PADDED)
    drafter, draft_params = toys.tiny_gpt(4, 1, LAW_VOCAB, LAW_PADDED)
    decoder = Speculative(target, NeuralDrafter(drafter), 2, LAW_LENGTH, toys.EOS)
    batch = kinds * copies
    rows = DecodeSettings(
        gamma=GAMMA * copies,
        temperature=TEMPERATURE * copies,
        top_p=TOP_P * copies,
        max_gamma=2,
        max_new_tokens=LAW_LENGTH,
    ).rows(batch)
    prompt, inputs = toys.prompt_of(*PROMPTS * copies), toys.only_prompts(batch)
    tokens = []
    for i in range(batches):
        ids = i * batch + np.arange(batch)
        pair = PairParams(params, draft_params)
        out = toys.decode(decoder, pair, inputs, rows, prompt, row_ids=ids)
        tokens.append(np.asarray(out.tokens))
    total = statistics(out).total()
    assert total.accepted > 100 and total.rejected > 100
    tokens = np.concatenate(tokens).reshape(-1, kinds, LAW_LENGTH)
    for kind, start in enumerate(PROMPTS):
        law = target_law(target, params, start, kind)
        reference.assert_follows(
            reference.count(tokens[:, kind], LAW_VOCAB),
            reference.joint_law(law, start, LAW_LENGTH, LAW_LENGTH, toys.EOS),
        )


def target_law(target, params, start, kind):
    """Of the tokens after a prefix, from logits that teacher forcing gives."""
    ends = [(a, b) for a in range(LAW_VOCAB) for b in range(LAW_VOCAB)]
    prefixes = np.array([(*start, *end) for end in ends])

    @jax.jit
    def score(tokens):
        inputs = toys.only_prompts(len(prefixes))
        cache, _ = target.start(params, inputs, tokens.shape[1])
        return target.extend(params, cache, tokens, jnp.zeros(len(ends), jnp.int32))[0]

    logits = np.asarray(score(jnp.asarray(prefixes, jnp.int32)))
    by_prefix = {
        tuple(prefix[: i + 1].tolist()): logits[row, i, :LAW_VOCAB]
        for row, prefix in enumerate(prefixes)
        for i in range(len(start) - 1, len(start) + 2)
    }
    warp = {"temperature": TEMPERATURE[kind], "top_p": TOP_P[kind]}
    return lambda prefix: reference.warped(by_prefix[prefix], **warp)
