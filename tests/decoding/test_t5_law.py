"""A T5 and a smaller one: the sampled output follows the target's law."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from specdec_jax.decoding.settings import DecodeSettings
from specdec_jax.decoding.speculative import PairParams, Speculative
from specdec_jax.decoding.statistics import statistics
from specdec_jax.drafters.neural import NeuralDrafter
from tests import reference
from tests import toy_models as toys

VOCAB, PADDED, LENGTH, G = 6, 8, 3, 2
COPIES, BATCHES = 600, 10
# Of three kinds of rows, interleaved: their texts' lengths, padded to 4, and settings.
TEXTS = toys.encoder_inputs(0, (4, 1, 3), width=4, vocab_size=VOCAB)
GAMMA, TEMPERATURE, TOP_P = (2, 1, 2), (1.0, 0.6, 1.0), (1.0, 1.0, 0.8)
KINDS = len(GAMMA)


@functools.cache
def models():
    target, target_params = toys.tiny_t5(3, 2, VOCAB, PADDED)
    drafter, drafter_params = toys.tiny_t5(4, 1, VOCAB, PADDED)
    return target, drafter, PairParams(target_params, drafter_params)


@pytest.fixture(scope="module")
def sampled():
    target, drafter, pair = models()
    decoder = Speculative(target, NeuralDrafter(drafter), G, LENGTH, toys.EOS)
    batch = KINDS * COPIES
    rows = DecodeSettings(
        gamma=GAMMA * COPIES,
        temperature=TEMPERATURE * COPIES,
        top_p=TOP_P * COPIES,
        max_gamma=G,
        max_new_tokens=LENGTH,
    ).rows(batch)
    inputs = jax.tree.map(lambda x: jnp.tile(x, (COPIES, 1)), TEXTS)
    tokens = []
    for i in range(BATCHES):
        ids = i * batch + np.arange(batch)
        result = toys.decode(decoder, pair, inputs, rows, row_ids=ids)
        tokens.append(np.asarray(result.tokens))
    return np.concatenate(tokens).reshape(-1, KINDS, LENGTH), statistics(result)


def target_law(kind):
    """Of the tokens after a prefix, from logits that teacher forcing gives."""
    target, _, pair = models()
    prefixes = [(0, a, b) for a in range(VOCAB) for b in range(VOCAB)]
    inputs = jax.tree.map(
        lambda x: jnp.tile(x[kind : kind + 1], (len(prefixes), 1)), TEXTS
    )

    @jax.jit
    def score(inputs, tokens):
        cache, _ = target.start(pair.target, inputs, LENGTH)
        lengths = jnp.zeros(len(prefixes), jnp.int32)
        return target.extend(pair.target, cache, tokens, lengths)[0]

    logits = np.asarray(score(inputs, jnp.asarray(prefixes, jnp.int32)))
    by_prefix = {
        prefix[: i + 1]: logits[row, i, :VOCAB]
        for row, prefix in enumerate(prefixes)
        for i in range(LENGTH)
    }
    warp = {"temperature": TEMPERATURE[kind], "top_p": TOP_P[kind]}
    return lambda prefix: reference.warped(by_prefix[prefix], **warp)


@pytest.mark.parametrize("kind", range(KINDS))
def test_three_tokens_of_a_t5_follow_the_targets_law(sampled, kind):
    tokens, stats = sampled
    law = reference.joint_law(target_law(kind), [0], LENGTH, LENGTH, toys.EOS)
    reference.assert_follows(reference.count(tokens[:, kind], VOCAB), law)
    total = stats.total()
    assert total.accepted > 100 and total.rejected > 100
