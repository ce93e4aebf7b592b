"""Algorithm 1's law by enumeration, and that `TokenRule` draws by that law.

The law is written below in plain numpy, from accept probabilities and residuals, over
every draft. It is compared with the target's joint law without noise. The uniforms that
lead to one outcome form a box; the boxes of a draft tile the cube; and the code must
give a box's outcome at every corner of it.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from specdec_jax.sampling import Block, TokenRule, draw, theory
from tests.sampling.blocks import LAST, block, f32, law_of_next, verify_rows

LETTERS = 3
EPS = 1e-6  # how near to a box's wall the code is asked


# --- models: a distribution over three letters for every context


def sharpened(probs):
    return np.eye(LETTERS)[np.argmax(probs)]


def without_letter(probs, letter):
    probs = np.where(np.arange(LETTERS) == letter, 0, probs)
    return probs / probs.sum()


PAIRS = {
    "generic": lambda p, q, n: (p, q),
    "q lacks what p has": lambda p, q, n: (p, without_letter(q, n % 3)),
    "p lacks what q has": lambda p, q, n: (without_letter(p, n % 3), q),
    "each lacks a letter": lambda p, q, n: (
        without_letter(p, n % 3),
        without_letter(q, (n + 1) % 3),
    ),
    "one-hot q": lambda p, q, n: (p, sharpened(q)),
    "one-hot p": lambda p, q, n: (sharpened(p), q),
    "both one-hot": lambda p, q, n: (sharpened(p), sharpened(q)),
    "equal": lambda p, q, n: (p, p),
}
every_pair = pytest.mark.parametrize("pair", PAIRS)


def models(pair, gamma):
    """p and q, unlike in every context, as dicts context -> [3]."""
    rng = np.random.default_rng(5)
    p, q = {}, {}
    for length in range(gamma + 1):
        for context in itertools.product(range(LETTERS), repeat=length):
            drawn = rng.dirichlet(np.ones(LETTERS), 2)
            p[context], q[context] = PAIRS[pair](*drawn, len(p))
    return p, q


# --- the law, in plain numpy


def accept_probability(p, q, x, lenience):
    return min(1.0, p[x] / (lenience * q[x])) if q[x] > 0 else float(p[x] > 0)


def drafts(q, gamma):
    """Every draft with its probability under q."""
    for draft in itertools.product(range(LETTERS), repeat=gamma):
        yield draft, np.prod([q[draft[:i]][x] for i, x in enumerate(draft)])


def outcomes(p, q, draft, lenience=1.0):
    """Yields (n, accept probabilities of the draft, law of the next token)."""
    accepts = [
        accept_probability(p[draft[:i]], q[draft[:i]], x, lenience)
        for i, x in enumerate(draft)
    ]
    for n in range(len(draft) + 1):
        context, is_bonus = draft[:n], n == len(draft)
        yield n, accepts, law_of_next(p[context], q[context], is_bonus)


def law_of_block(p, q, gamma, lenience=1.0):
    """{(draft, n, t): probability} of one block of Algorithm 1."""
    law = {}
    for draft, drafted in drafts(q, gamma):
        for n, accepts, next_law in outcomes(p, q, draft, lenience):
            ends = 1 - accepts[n] if n < gamma else 1.0
            for t in range(LETTERS):
                law[draft, n, t] = drafted * np.prod(accepts[:n]) * ends * next_law[t]
    return law


def target_joint(p, length):
    joint = np.ones((LETTERS,) * length)
    for tokens in itertools.product(range(LETTERS), repeat=length):
        for i, x in enumerate(tokens):
            joint[tokens] *= p[tokens[:i]][x]
    return joint


def joint_of_tokens(law, p, length):
    """The law of the first `length` tokens when the target goes on after the block."""
    joint = np.zeros((LETTERS,) * length)
    for (draft, n, t), probability in law.items():
        emitted = draft[:n] + (t,)
        rest = length - len(emitted)
        for more in itertools.product(range(LETTERS), repeat=rest):
            tokens, chance = emitted + more, probability
            for i in range(len(emitted), length):
                chance *= p[tokens[:i]][tokens[i]]
            joint[tokens] += chance
    return joint


# --- the law is the target's


@every_pair
@pytest.mark.parametrize("gamma", [0, 1, 2, 3])
def test_law_of_the_emitted_tokens_is_the_targets_joint_law(pair, gamma):
    p, q = models(pair, gamma)
    law = law_of_block(p, q, gamma)
    assert sum(law.values()) == pytest.approx(1, abs=1e-12)
    np.testing.assert_allclose(
        joint_of_tokens(law, p, gamma + 1), target_joint(p, gamma + 1), atol=1e-12
    )


@every_pair
@pytest.mark.parametrize("lenience", [1.0, 0.7, 0.3, 0.1])
def test_lenience_keeps_every_token_below_p_over_l_and_accepts_lenient_alpha(
    pair, lenience
):
    p, q = models(pair, 1)
    law = law_of_block(p, q, 1, lenience)
    first = joint_of_tokens(law, p, 2).sum(axis=1)
    assert (first <= p[()] / lenience + 1e-12).all()
    accepted = sum(chance for (_, n, _), chance in law.items() if n == 1)
    expected = theory.lenient_alpha(p[()], q[()], lenience)
    assert accepted == pytest.approx(expected, abs=1e-12)


# --- the code draws by the law


def corners(accepts, next_law, n):
    """Uniforms at all corners of each box of n, shrunk by EPS; and the box's token."""
    sides = []
    for i, a in enumerate(accepts):
        low, high = (0.0, a) if i < n else (a, 1.0) if i == n else (0.0, 1.0)
        sides.append((low, high))
    edges = np.concatenate([[0], np.cumsum(next_law)])
    for t in range(LETTERS):
        box = [*sides, (edges[t], edges[t + 1])]
        if all(high - low > 3 * EPS for low, high in box):
            yield from (
                (corner, t)
                for corner in itertools.product(
                    *[
                        (low + EPS * (low > 0), min(high - EPS, LAST))
                        for low, high in box
                    ]
                )
            )


@every_pair
@pytest.mark.parametrize("gamma", [1, 2, 3])
@pytest.mark.parametrize("lenience", [1.0, 0.4])
def test_verify_gives_each_outcome_in_its_box_of_uniforms_and_nowhere_else(
    pair, gamma, lenience
):
    p, q = models(pair, gamma)
    p_rows, q_rows, tokens, uniforms, expected = [], [], [], [], []
    for draft, _ in drafts(q, gamma):
        volume = 0.0
        for n, accepts, next_law in outcomes(p, q, draft, lenience):
            volume += np.prod(accepts[:n]) * (1 - accepts[n] if n < gamma else 1)
            for corner, t in corners(accepts, next_law, n):
                p_rows.append([p[draft[:i]] for i in range(gamma + 1)])
                q_rows.append([q[draft[:i]] for i in range(gamma)])
                tokens.append(draft)
                uniforms.append(corner)
                expected.append((n, t))
        assert volume == pytest.approx(1)  # the boxes tile the cube
    # One size a gamma, filled up by repetition, is one compilation a gamma.
    repeat = np.resize(np.arange(len(tokens)), LETTERS ** (2 * gamma) * 2**gamma * 8)
    assert len(repeat) >= len(tokens)
    p_rows, q_rows, tokens, uniforms, expected = (
        np.array(x)[repeat] for x in (p_rows, q_rows, tokens, uniforms, expected)
    )
    blocks = block(
        p_rows,
        q_rows,
        tokens,
        uniforms[:, :-1],
        uniforms[:, -1],
        lenience=np.full(len(tokens), lenience),
    )
    verdict = verify_rows(blocks)
    np.testing.assert_array_equal(verdict.num_accepted, expected[:, 0])
    np.testing.assert_array_equal(verdict.next_token, expected[:, 1])


@pytest.mark.parametrize("pair", ["generic", "each lacks a letter"])
def test_sampled_blocks_follow_the_law_and_their_tokens_the_targets_joint(pair):
    gamma, samples, chunk = 3, 200_000, 20_000
    p, q = models(pair, gamma)
    contexts = {context: i for i, context in enumerate(p)}
    p_table, q_table = (f32(np.stack(list(x.values()))) for x in (p, q))
    # child[context, letter]: the context one letter longer
    child = np.zeros((len(p), LETTERS), np.int32)
    for context, i in contexts.items():
        for x in range(LETTERS):
            child[i, x] = contexts.get((*context, x), 0)
    child = jnp.asarray(child)

    def one_block(key):
        uniforms = jax.random.uniform(key, (3 * gamma + 2,))
        context, tokens, rows = jnp.int32(0), [], [jnp.int32(0)]
        for i in range(gamma):
            tokens.append(draw(q_table[context], uniforms[i]))
            context = child[context, tokens[-1]]
            rows.append(context)
        rows, tokens = jnp.stack(rows), jnp.stack(tokens)
        verdict = TokenRule().verify(
            Block(
                target_probs=p_table[rows],
                draft_probs=q_table[rows[:-1]],
                draft_tokens=tokens,
                gamma=jnp.int32(gamma),
                forced_accept=jnp.zeros(gamma, bool),
                accept_uniforms=uniforms[gamma : 2 * gamma],
                draw_uniform=uniforms[2 * gamma],
                position_keys=jax.random.split(key, gamma + 1),
            )
        )
        # The target goes on after the block, up to gamma + 1 tokens.
        emitted, context = [], jnp.int32(0)
        padded = jnp.append(tokens, 0)
        for i in range(gamma + 1):
            more = draw(p_table[context], uniforms[2 * gamma + 1 + i])
            token = jnp.where(i == verdict.num_accepted, verdict.next_token, more)
            token = jnp.where(i < verdict.num_accepted, padded[i], token)
            emitted.append(token)
            context = child[context, token]
        return tokens, verdict.num_accepted, verdict.next_token, jnp.stack(emitted)

    keys = jax.random.split(jax.random.key(0), samples)
    tokens, n, t, emitted = map(
        np.asarray, jax.jit(lambda k: jax.lax.map(one_block, k, batch_size=chunk))(keys)
    )

    def assert_fits(counts, probabilities):
        counts, expected = np.ravel(counts), samples * np.ravel(probabilities)
        assert counts[expected < 1e-3].sum() == 0
        rare = expected < 5
        counts = np.append(counts[~rare], counts[rare].sum())
        expected = np.append(expected[~rare], expected[rare].sum())
        keep = expected > 0
        counts, expected = counts[keep], expected[keep]
        statistic = np.sum((counts - expected) ** 2 / expected)
        assert stats.chi2.sf(statistic, len(counts) - 1) > 1e-3

    law = np.zeros((LETTERS,) * gamma + (gamma + 1, LETTERS))
    for (draft, n_, t_), chance in law_of_block(p, q, gamma).items():
        law[(*draft, n_, t_)] = chance
    counts = np.zeros(law.shape)
    np.add.at(counts, (*tokens.T, n, t), 1)
    assert_fits(counts, law)
    counts = np.zeros((LETTERS,) * (gamma + 1))
    np.add.at(counts, tuple(emitted.T), 1)
    assert_fits(counts, target_joint(p, gamma + 1))
