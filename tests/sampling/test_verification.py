"""`TokenRule` against a plain loop, and at the edges of its arguments."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specdec_jax.sampling import TokenRule, Warp, residual, standardize_rows, theory
from tests.sampling.blocks import (
    LAST,
    betas_rows,
    block,
    f32,
    law_of_next,
    random_blocks,
    verify,
    verify_rows,
)

standardized = jax.jit(standardize_rows, static_argnums=2)


# --- against a plain loop, on any block


def betas_of(blocks, leniences):
    nowhere = jnp.zeros(blocks.draft_tokens.shape, bool)
    p = blocks.target_probs[:, :-1]
    return betas_rows(p, blocks.draft_probs, nowhere, f32(leniences))


def verify_by_loop(b, i, lenience):
    """Row i of the blocks in a Python loop; the law of its next token, and betas."""
    p, q = np.asarray(b.target_probs[i]), np.asarray(b.draft_probs[i])
    n = 0
    for j in range(int(b.gamma[i])):
        x = int(b.draft_tokens[i, j])
        if not b.accept_uniforms[i, j] * np.float32(lenience) * q[j, x] < p[j, x]:
            break
        n += 1
    is_bonus = n == int(b.gamma[i])
    p, q = p.astype(np.float64), q.astype(np.float64)
    next_law = law_of_next(p[n], p[n] if is_bonus else q[n], is_bonus)
    return n, next_law, np.minimum(p[:-1] / lenience, q).sum(axis=1)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_verify_of_unlike_rows_equals_a_plain_loop(seed):
    blocks, leniences = random_blocks(seed)
    verdict, betas = verify_rows(blocks), betas_of(blocks, leniences)
    for i in range(8):
        n, next_law, expected = verify_by_loop(blocks, i, leniences[i])
        assert verdict.num_accepted[i] == n
        token, u = int(verdict.next_token[i]), float(blocks.draw_uniform[i])
        assert next_law[token] > 0
        above = next_law[: token + 1].sum()
        assert above - next_law[token] - 1e-5 <= u <= above + 1e-5
        np.testing.assert_allclose(betas[i], expected, rtol=1e-5)


def test_a_row_is_the_same_to_the_bit_alone_and_whatever_its_neighbours():
    (ours, _), (theirs, _) = random_blocks(0), random_blocks(1)
    together = verify_rows(ours)
    for i in range(8):
        mixed = jax.tree.map(lambda a, b, i=i: b.at[i].set(a[i]), ours, theirs)
        alone = verify(jax.tree.map(lambda a, i=i: a[i], ours))
        among = verify_rows(mixed)
        for got in (jax.tree.map(lambda a, i=i: a[i], among), alone):
            want = jax.tree.map(lambda a, i=i: a[i], together)
            jax.tree.map(np.testing.assert_array_equal, got, want)


# --- single properties


def test_docstring_example():
    p, q = np.full((3, 2), 0.5), np.tile([1.0, 0.0], (2, 1))
    for w in (0.0, 0.3, LAST):
        verdict = verify(block(p, q, [0, 0], [0.4, 0.6], w))
        assert (verdict.num_accepted, verdict.next_token) == (1, 1)
    for w, token in ((0.0, 0), (0.49, 0), (0.5, 1), (LAST, 1)):
        verdict = verify(block(p, q, [0, 0], [0.4, 0.4], w))
        assert (verdict.num_accepted, verdict.next_token) == (2, token)


def test_the_comparison_is_strict_and_lenience_multiplies_q():
    p, q = [[0.25, 0.75], [1, 0]], [[0.5, 0.5]]
    for lenience, threshold in ((1.0, 0.5), (0.75, 2 / 3)):
        below, at = np.nextafter(np.float32(threshold), [np.float32(0), np.float32(1)])
        at = threshold if lenience == 1 else at
        for u, n in ((below, 1), (at, 0)):
            b = block(p, q, [0], [u], 0.5, lenience=lenience)
            assert verify(b).num_accepted == n


def test_zero_uniform_never_passes_a_token_the_target_cannot_say():
    for q in ([1.0, 0.0], [0.5, 0.5], [0.0, 1.0]):  # the last: p = q = 0 rejects
        for lenience in (1.0, 0.01):
            b = block([[0, 1], [0, 1]], [q], [0], [0.0], 0.0, lenience=lenience)
            verdict = verify(b)
            assert (verdict.num_accepted, verdict.next_token) == (0, 1)


def test_a_token_that_q_could_not_draft_passes_if_the_target_can():
    # The limit p / 0; drafts are drawn from q, so it takes a drafter that rounds.
    verdict = verify(block([[0.5, 0.5], [1, 0]], [[1, 0]], [1], [LAST], 0.0))
    assert verdict.num_accepted == 1


def test_equal_p_and_q_accept_every_draft_token_at_every_uniform():
    p = np.random.default_rng(0).dirichlet(np.ones(50), 4)
    for u in (0.0, 0.5, LAST):
        assert verify(block(p, p[:3], [3, 1, 2], [u] * 3, 0.5)).num_accepted == 3


def test_an_empty_residual_falls_back_to_p_and_one_of_an_ulp_is_finite():
    p = np.array([[0.0, 0.25, 0.75], [1, 0, 0]], np.float32)
    ulp = np.nextafter(p[:1], np.float32(1))  # above p everywhere: nothing is left over
    for q in (p[:1], ulp):
        for w, token in ((0.0, 1), (0.2, 1), (0.3, 2), (LAST, 2)):
            verdict = verify(block(p, q, [0], [0.5], w))
            assert (verdict.num_accepted, verdict.next_token) == (0, token)
    less = np.array([[0, 0.25, np.nextafter(np.float32(0.75), np.float32(0))]])
    verdict = verify(block(p, less, [0], [0.5], 0.1))
    assert (verdict.num_accepted, verdict.next_token) == (0, 2)
    np.testing.assert_array_equal(residual(f32(p[0]), f32(p[0])), p[0])


def test_gamma_zero_draws_from_the_first_row_whatever_was_drafted():
    p, q = [[0.25, 0.75], [1, 0]], [[0.25, 0.75]]
    for w, token in ((0.2, 0), (0.3, 1)):
        verdict = verify(block(p, q, [1], [0.0], w, gamma=0, forced_accept=[True]))
        assert (verdict.num_accepted, verdict.next_token) == (0, token)


def test_a_block_with_no_room_for_a_draft_token_is_one_draw_from_the_target():
    verdict = verify(block([[0.25, 0.75]], np.zeros((0, 2)), [], [], 0.3))
    assert (verdict.num_accepted, verdict.next_token) == (0, 1)


def test_draft_tokens_past_gamma_are_never_accepted_and_the_bonus_is_not_a_residual():
    p = [[0.5, 0.5]] * 4
    q = [[0.5, 0.5], [1, 0], [0.5, 0.5]]  # the residual at row 1 would be letter 1
    for gamma, token in ((1, 0), (3, 0)):
        b = block(
            p, q, [0, 0, 0], [0.1] * 3, 0.2, gamma=gamma, forced_accept=[True] * 3
        )
        verdict = verify(b)
        assert (verdict.num_accepted, verdict.next_token) == (gamma, token)


def test_betas_without_lenience_are_the_papers():
    blocks, _ = random_blocks(3)
    p, q = np.asarray(blocks.target_probs[:, :-1]), np.asarray(blocks.draft_probs)
    got = betas_of(blocks, np.ones(8))
    np.testing.assert_allclose(got, theory.beta(p, q), rtol=1e-5)


def test_misshapen_blocks_are_named():
    with pytest.raises(ValueError, match=r"target_probs \[G\+1, V\]"):
        TokenRule().verify(block([[1.0, 0.0]], [[1.0, 0.0]], [0], [0.0], 0.0))


# --- with warps


def test_rows_at_temperature_zero_are_greedy_among_rows_that_sample():
    logits = 2 * jax.random.normal(jax.random.key(0), (4, 4, 30))
    warp = Warp.from_values([0.0, 1.0, 0.0, 0.7], [0, 5, 5, 0], [1.0, 1.0, 0.5, 0.8])
    p = np.asarray(standardized(logits, warp, 30))
    q = np.asarray(standardized(logits[::-1], warp, 30))[:, :3]
    best = np.argmax(np.asarray(logits), axis=-1)
    for wrong_at in range(4):
        drafted = np.array(best[:, :3])
        drafted[:, wrong_at:] = (drafted[:, wrong_at:] + 1) % 30
        one_hot = np.eye(30)[drafted]  # what a drafter at temperature 0 declares
        q_rows = np.where(np.array([1, 0, 1, 0])[:, None, None], one_hot, q)
        for u in (0.0, 0.5, LAST):
            b = block(p, q_rows, drafted, np.full((4, 3), u), np.full(4, u))
            verdict = verify_rows(b)
            for i in (0, 2):
                assert verdict.num_accepted[i] == wrong_at
                assert verdict.next_token[i] == best[i, wrong_at]


def test_padding_is_never_emitted_at_any_uniform():
    size, vocab = 40, 33
    logits = jax.random.normal(jax.random.key(1), (3, 3, size)).at[..., vocab:].set(50)
    warp = Warp.from_values([0.0, 1.0, 1.0], [0, 0, 4], [1.0, 1.0, 0.9])
    p = standardized(logits, warp, vocab)
    q = standardized(logits[:, ::-1], warp, vocab)[:, :2]
    padding = np.full((3, 2), vocab + 2)  # not even if guessed
    drafted = np.stack([np.argmax(q[:, 0], -1), padding[:, 0]], axis=1)
    for tokens in (drafted, padding):
        for u, w in itertools.product((0.0, 0.5, LAST), repeat=2):
            verdict = verify_rows(
                block(p, q, tokens, np.full((3, 2), u), np.full(3, w))
            )
            assert (np.asarray(verdict.next_token) < vocab).all()
            first_padding = np.argmax(tokens >= vocab, axis=1)
            assert (np.asarray(verdict.num_accepted) <= first_padding).all()
