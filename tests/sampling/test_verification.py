"""Algorithm 1's law by enumeration, and that `verify_tokens` draws by that law.

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
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from specdec_jax.sampling import (
    Block,
    Warp,
    draw,
    endorsed_by_argmax,
    residual,
    standardize_rows,
    theory,
    verify_tokens,
)

LETTERS = 3
LAST = 1 - 2.0**-24  # the largest float32 below 1
EPS = 1e-6  # how near to a box's wall the code is asked

verify = jax.jit(verify_tokens)
verify_rows = jax.jit(jax.vmap(verify_tokens))
endorsed = jax.jit(endorsed_by_argmax, static_argnums=4)
standardized = jax.jit(standardize_rows, static_argnums=2)


def f32(x):
    return jnp.asarray(x, jnp.float32)


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


def law_of_next(p, q, is_bonus):
    left_over = np.maximum(p - q, 0)
    if is_bonus or left_over.sum() == 0:
        return p / p.sum()
    return left_over / left_over.sum()


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


def block(p_rows, q_rows, tokens, uniforms, draw_uniform, **kwargs):
    """Blocks of N rows, or one block if there is no N; all guesses in force."""
    tokens = np.asarray(tokens, np.int32)
    rows = tokens.shape[:-1]
    fields = dict(
        gamma=np.full(rows, tokens.shape[-1]),
        lenience=np.ones(rows),
        endorsed=np.zeros(tokens.shape, bool),
    )
    fields = fields | kwargs
    return Block(
        target_probs=f32(p_rows),
        draft_probs=f32(q_rows),
        draft_tokens=jnp.asarray(tokens),
        gamma=jnp.asarray(fields["gamma"], jnp.int32),
        lenience=f32(fields["lenience"]),
        endorsed=jnp.asarray(fields["endorsed"], bool),
        accept_uniforms=f32(uniforms),
        draw_uniform=f32(draw_uniform),
    )


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
        verdict = verify_tokens(
            Block(
                target_probs=p_table[rows],
                draft_probs=q_table[rows[:-1]],
                draft_tokens=tokens,
                gamma=jnp.int32(gamma),
                lenience=jnp.float32(1),
                endorsed=jnp.zeros(gamma, bool),
                accept_uniforms=uniforms[gamma : 2 * gamma],
                draw_uniform=uniforms[2 * gamma],
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


# --- against a plain loop, on any block


def verify_by_loop(b, i):
    """Row i of the blocks in a Python loop; the law of its next token, and betas."""
    p, q = np.asarray(b.target_probs[i]), np.asarray(b.draft_probs[i])
    n = 0
    for j in range(int(b.gamma[i])):
        x = int(b.draft_tokens[i, j])
        if not b.accept_uniforms[i, j] * b.lenience[i] * q[j, x] < p[j, x]:
            break
        n += 1
    is_bonus = n == int(b.gamma[i])
    p, q = p.astype(np.float64), q.astype(np.float64)
    next_law = law_of_next(p[n], p[n] if is_bonus else q[n], is_bonus)
    return n, next_law, np.minimum(p[:-1], q).sum(axis=1)


def random_blocks(seed, rows=8, guesses=4, size=40, density=0.5):
    """Unlike rows: zeros in p and q, any gamma, any lenience, uniforms at the edges."""
    rng = np.random.default_rng(seed)

    def distributions(*shape):
        mass = rng.dirichlet(np.full(size, 0.2), shape)
        mass = mass * (rng.random(mass.shape) < density) + 1e-9 * np.eye(size)[0]
        return mass / mass.sum(-1, keepdims=True)

    p = distributions(rows, guesses + 1)
    near = rng.random((rows, guesses, 1)) < 0.7
    q = np.where(near, 0.6 * p[:, :-1], 0) + distributions(rows, guesses)
    q /= q.sum(-1, keepdims=True)
    likely = np.argmax(p[:, :-1] + 0.1 * rng.random(q.shape), axis=-1)
    uniforms = rng.choice([0.0, LAST, 0.2, rng.random()], (rows, guesses))
    return block(
        p,
        q,
        np.where(rng.random(likely.shape) < 0.7, likely, rng.integers(size)),
        uniforms,
        rng.choice([0.0, LAST, *rng.random(6)], rows),
        gamma=rng.integers(0, guesses + 1, rows),
        lenience=rng.choice([1.0, 0.5, 0.1], rows),
    )


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_verify_of_unlike_rows_equals_a_plain_loop(seed):
    blocks = random_blocks(seed)
    verdict = verify_rows(blocks)
    for i in range(8):
        n, next_law, betas = verify_by_loop(blocks, i)
        assert verdict.num_accepted[i] == n
        token, u = int(verdict.next_token[i]), float(blocks.draw_uniform[i])
        assert next_law[token] > 0
        above = next_law[: token + 1].sum()
        assert above - next_law[token] - 1e-5 <= u <= above + 1e-5
        np.testing.assert_allclose(verdict.betas[i], betas, rtol=1e-5)


def test_a_row_is_the_same_to_the_bit_alone_and_whatever_its_neighbours():
    ours, theirs = random_blocks(0), random_blocks(1)
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
    np.testing.assert_array_equal(verdict.betas, [0.5, 0.5])


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


def test_a_guess_that_q_could_not_say_passes_if_the_target_can():
    # The limit p / 0; drafts are drawn from q, so it takes a drafter that rounds.
    verdict = verify(block([[0.5, 0.5], [1, 0]], [[1, 0]], [1], [LAST], 0.0))
    assert verdict.num_accepted == 1


def test_equal_p_and_q_accept_every_guess_at_every_uniform():
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
        verdict = verify(block(p, q, [1], [0.0], w, gamma=0, endorsed=[True]))
        assert (verdict.num_accepted, verdict.next_token) == (0, token)


def test_a_block_with_no_room_for_a_guess_is_one_draw_from_the_target():
    verdict = verify(block([[0.25, 0.75]], np.zeros((0, 2)), [], [], 0.3))
    assert (verdict.num_accepted, verdict.next_token) == (0, 1)
    assert verdict.betas.shape == (0,)


def test_guesses_past_gamma_never_stand_and_the_bonus_is_not_a_residual():
    p = [[0.5, 0.5]] * 4
    q = [[0.5, 0.5], [1, 0], [0.5, 0.5]]  # the residual at row 1 would be letter 1
    for gamma, token in ((1, 0), (3, 0)):
        b = block(p, q, [0, 0, 0], [0.1] * 3, 0.2, gamma=gamma, endorsed=[True] * 3)
        verdict = verify(b)
        assert (verdict.num_accepted, verdict.next_token) == (gamma, token)


def test_betas_are_the_papers_and_do_not_depend_on_gamma():
    b = random_blocks(3)
    betas = verify_rows(b).betas
    p, q = np.asarray(b.target_probs[:, :-1]), np.asarray(b.draft_probs)
    np.testing.assert_allclose(betas, theory.beta(p, q), rtol=1e-5)
    other = verify_rows(b.replace(gamma=jnp.zeros_like(b.gamma))).betas
    np.testing.assert_array_equal(other, betas)


def test_misshapen_blocks_are_named():
    with pytest.raises(ValueError, match=r"target_probs \[G\+1, V\]"):
        verify_tokens(block([[1.0, 0.0]], [[1.0, 0.0]], [0], [0.0], 0.0))


# --- with warps


def test_rows_at_temperature_zero_are_greedy_among_rows_that_sample():
    logits = 2 * jax.random.normal(jax.random.key(0), (4, 4, 30))
    warp = Warp.of([0.0, 1.0, 0.0, 0.7], [0, 5, 5, 0], [1.0, 1.0, 0.5, 0.8])
    p = np.asarray(standardized(logits, warp, 30))
    q = np.asarray(standardized(logits[::-1], warp, 30))[:, :3]
    best = np.argmax(np.asarray(logits), axis=-1)
    for wrong_at in range(4):
        guesses = np.array(best[:, :3])
        guesses[:, wrong_at:] = (guesses[:, wrong_at:] + 1) % 30
        one_hot = np.eye(30)[guesses]  # what a drafter at temperature 0 declares
        q_rows = np.where(np.array([1, 0, 1, 0])[:, None, None], one_hot, q)
        for u in (0.0, 0.5, LAST):
            b = block(p, q_rows, guesses, np.full((4, 3), u), np.full(4, u))
            verdict = verify_rows(b)
            for i in (0, 2):
                assert verdict.num_accepted[i] == wrong_at
                assert verdict.next_token[i] == best[i, wrong_at]


def test_padding_is_never_emitted_at_any_uniform():
    size, vocab = 40, 33
    logits = jax.random.normal(jax.random.key(1), (3, 3, size)).at[..., vocab:].set(50)
    warp = Warp.of([0.0, 1.0, 1.0], [0, 0, 4], [1.0, 1.0, 0.9])
    p = standardized(logits, warp, vocab)
    q = standardized(logits[:, ::-1], warp, vocab)[:, :2]
    padding = np.full((3, 2), vocab + 2)  # not even if guessed
    guesses = np.stack([np.argmax(q[:, 0], -1), padding[:, 0]], axis=1)
    for tokens in (guesses, padding):
        for u, w in itertools.product((0.0, 0.5, LAST), repeat=2):
            verdict = verify_rows(
                block(p, q, tokens, np.full((3, 2), u), np.full(3, w))
            )
            assert (np.asarray(verdict.next_token) < vocab).all()
            first_padding = np.argmax(tokens >= vocab, axis=1)
            assert (np.asarray(verdict.num_accepted) <= first_padding).all()


# --- lenience at temperature 0


@pytest.mark.parametrize(
    ("lenience", "expected"),
    [
        (1.0, [False, False, False]),
        (0.7, [True, False, False]),
        (0.5, [True, True, False]),
        (0.3, [True, True, True]),
    ],
)
def test_endorsed_docstring_example(lenience, expected):
    logits = f32(np.tile(np.log([0.5, 0.3, 0.2]), (3, 1)))
    guesses = jnp.arange(3, dtype=jnp.int32)
    got = endorsed(logits, guesses, f32(0), f32(lenience), 3)
    np.testing.assert_array_equal(got, expected)
    for temperature in (0.1, 1.0):
        assert not endorsed(logits, guesses, f32(temperature), f32(lenience), 3).any()


def test_tied_ids_are_endorsed_below_one_and_only_the_lowest_passes_at_one():
    logits = f32([[2.0, 5.0, 5.0, 1.0]] * 4)
    guesses = jnp.arange(4, dtype=jnp.int32)
    got = endorsed(logits, guesses, f32(0), f32(0.999), 4)
    np.testing.assert_array_equal(got, [False, True, True, False])
    p = np.eye(4)[[1, 1]]  # as standardized at temperature 0
    for lenience, passes in ((1.0, [0, 1, 0, 0]), (0.999, [0, 1, 1, 0])):
        for x in range(4):
            every = endorsed(logits, guesses, f32(0), f32(lenience), 4)
            b = block(p, np.eye(4)[[x]], [x], [0.9], 0.5, lenience=lenience).replace(
                endorsed=every[x : x + 1]
            )
            verdict = verify(b)
            assert verdict.num_accepted == passes[x]
            assert verdict.next_token == 1  # correction and bonus are the argmax


def test_padding_is_neither_endorsed_nor_the_maximum_that_counts():
    logits = f32([[1.0, 0.9, 50.0]] * 3)
    guesses = jnp.arange(3, dtype=jnp.int32)
    got = endorsed(logits, guesses, f32(0), f32(0.5), 2)
    np.testing.assert_array_equal(got, [True, True, False])


def test_an_endorsement_lets_a_guess_stand_only_behind_guesses_that_stand():
    p = np.eye(3)[[0, 0, 0, 0]]
    q = np.eye(3)[[1, 2, 0]]
    b = block(p, q, [1, 2, 0], [0.5] * 3, 0.5, endorsed=[True, False, True])
    verdict = verify(b)
    assert (verdict.num_accepted, verdict.next_token) == (1, 0)
