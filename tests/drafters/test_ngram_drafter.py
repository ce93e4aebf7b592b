"""N-grams against counts in plain Python: looked up, backed off and standardized."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from specdec_jax.drafters import ngram
from specdec_jax.drafters.ngram import NGramDrafter, NGramParams, NGramTable
from specdec_jax.sampling import Warp
from specdec_jax.training.fit_ngram import fit_ngram
from tests import reference
from tests import toy_models as toys

V, PADDED, G = 7, 8, 3
RANDOM = np.random.default_rng(0)
TEXTS = [RANDOM.integers(1, V, RANDOM.integers(1, 7)).tolist() for _ in range(40)]
PROMPTS = [[0], [0, 3], [0, 4, 4, 2], [5], [0, 1, 1, 1], [0, 6, 2]]


def history_of(prompt, order):
    padded = [ngram.NOTHING] * order + prompt
    return jnp.asarray(padded[len(prompt) + 1 :], jnp.int32)


def test_what_its_docstring_works_out():
    key = ngram.context_key(np.array([[1]], np.int32))
    table = NGramTable(key, np.array([0, 1]), np.array([2]), np.array([0.5]))
    params = NGramParams.from_arrays(np.array([0.5, 0.25, 0.25]), [table])
    for token, expected in ((1, [0.25, 0.125, 0.625]), (0, [0.5, 0.25, 0.25])):
        got = ngram.next_probs(params, jnp.asarray([token], jnp.int32))
        assert got.tolist() == expected


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_probabilities_are_those_counted_by_hand(order):
    """Contexts that occur, that do not, and that begin before the row does."""
    law = reference.ngram_law(TEXTS, V, order)
    look_up = jax.jit(ngram.next_probs)
    params = fit_ngram(TEXTS, V, order)
    assert params.order == order
    random = np.random.default_rng(order)
    prompts = [[0, *random.integers(1, V, n % 6).tolist()] for n in range(40)]
    for prompt in PROMPTS + prompts:
        got = np.asarray(look_up(params, history_of(prompt, order)))
        np.testing.assert_allclose(got, law(tuple(prompt)), rtol=1e-5)


@pytest.mark.parametrize("order", [1, 3])
def test_guesses_are_drawn_one_after_the_other_and_warped_as_the_targets(order):
    batch = len(PROMPTS)
    settings = [
        (1, 0, 1),
        (0, 0, 1),
        (0.5, 3, 1),
        (2, 0, 0.8),
        (1, 4, 0.9),
        (0.7, 2, 1),
    ]
    names = ("temperature", "top_k", "top_p")
    warps = [dict(zip(names, row, strict=True)) for row in settings]
    warp = Warp.from_values(**{name: [w[name] for w in warps] for name in names})
    drafter, params = NGramDrafter(V, PADDED), fit_ngram(TEXTS, V, order)
    prompt, draw = toys.prompt_of(*PROMPTS), toys.draw_with(RANDOM.random((batch, G)))
    state = drafter.init(params, None, None, prompt, None, 10)
    gamma = jnp.full(batch, G, jnp.int32)
    proposal, _ = jax.jit(drafter.propose)(params, state, draw, warp, gamma)
    law = reference.ngram_law(TEXTS, V, order)
    for row, prompt in enumerate(PROMPTS):
        sequence = tuple(prompt)
        for i in range(G):
            with np.errstate(divide="ignore"):
                expected = reference.warped(np.log(law(sequence)), **warps[row])
            q = np.asarray(proposal.probs)[row, i]
            np.testing.assert_allclose(q[:V], expected, rtol=1e-4, atol=1e-7)
            assert (q[V:] == 0).all()
            sequence += (int(proposal.tokens[row, i]),)


def test_keys_of_single_tokens_are_all_different_and_alike_in_numpy_and_jax():
    tokens = np.arange(-1, 2**17, dtype=np.int32)[:, None]
    keys = ngram.context_key(tokens)
    assert keys.dtype == np.uint32 and len(np.unique(keys)) == len(tokens)
    contexts = np.random.default_rng(1).integers(-1, 40_000, (1000, 4))
    contexts = np.append(contexts, contexts[:, ::-1], axis=0).astype(np.int32)
    keys = ngram.context_key(contexts)
    np.testing.assert_array_equal(keys, ngram.context_key(jnp.asarray(contexts)))
    assert len(np.unique(keys)) == len(np.unique(contexts, axis=0))


def test_a_bigram_of_32k_ids_fits_and_is_looked_up_in_a_loop():
    vocab, padded = 32_100, 32_128
    random = np.random.default_rng(0)
    text = np.minimum(random.zipf(1.3, 200_000), vocab) - 1
    params = fit_ngram([text], vocab, 2, start_id=None, max_successors=vocab)
    memory = sum(leaf.nbytes for leaf in jax.tree.leaves(params))
    assert memory < 2e6
    drafter = NGramDrafter(vocab, padded)
    prompt = toys.prompt_of([0], [5], [77], [20_000])
    state = drafter.init(params, None, None, prompt, None, 10)
    draw, gamma = toys.draw_with(jnp.full((4, 2), 0.5)), jnp.full(4, 2, jnp.int32)
    warp = Warp.from_values(temperature=np.ones(4))
    proposal, _ = jax.jit(drafter.propose)(params, state, draw, warp, gamma)
    unigram = np.bincount(text, minlength=vocab)
    unigram = np.maximum(unigram - 0.75, 0) + 0.75 * (unigram > 0).sum() / vocab
    for row, token in enumerate([0, 5, 77, 20_000]):
        counts = np.bincount(text[1:][text[:-1] == token], minlength=vocab)
        left = 0.75 * (counts > 0).sum()
        expected = np.maximum(counts - 0.75, 0) + left * unigram / len(text)
        expected = expected / counts.sum() if counts.any() else unigram / len(text)
        q = np.asarray(proposal.probs)[row, 0]
        np.testing.assert_allclose(q[:vocab], expected, rtol=1e-3, atol=1e-9)
