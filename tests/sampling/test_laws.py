"""Exact laws of blocks, against a walk over every path of Algorithm 1."""

import itertools

import numpy as np
import pytest

from specdec_jax.sampling import laws, theory

LETTERS, GAMMA = 3, 3


def tables(seed, number, zeros=0.0):
    """A distribution for each context of up to `number` - 1 letters."""
    rng = np.random.default_rng(seed)
    made = []
    for n in range(number):
        mass = rng.dirichlet(np.ones(LETTERS), (LETTERS,) * n)
        mass *= rng.random(mass.shape) >= zeros
        mass[..., n % LETTERS] += 1e-9  # never without any
        made.append(mass / mass.sum(axis=-1, keepdims=True))
    return made


def argmax_of(made):
    return [np.eye(LETTERS)[np.argmax(table, axis=-1)] for table in made]


GENERIC = tables(0, GAMMA + 1), tables(1, GAMMA)
PAIRS = {
    "generic": GENERIC,
    "each lacks letters": (tables(2, GAMMA + 1, 0.4), tables(3, GAMMA, 0.4)),
    "a drafter without doubt": (GENERIC[0], argmax_of(GENERIC[1])),
    "a target without doubt": (argmax_of(GENERIC[0]), GENERIC[1]),
    "both": (argmax_of(GENERIC[0]), argmax_of(GENERIC[1])),
    "equal": (GENERIC[0], GENERIC[0][:-1]),
    "no guesses": (GENERIC[0][:1], []),
}
every_pair = pytest.mark.parametrize("p, q", PAIRS.values(), ids=PAIRS)


def walked(p, q, lenience):
    """{(n, tokens): probability}, a draft at a time, as Algorithm 1 is written."""
    found = {}
    for draft in itertools.product(range(LETTERS), repeat=len(q)):
        chance = 1.0  # of this draft, with all guesses so far accepted
        for n in range(len(q) + 1):
            p_n = p[n][draft[:n]]
            if n == len(q):
                next_law, ends = p_n, 1.0
            else:
                q_n, x = q[n][draft[:n]], draft[n]
                if q_n[x] == 0:
                    break  # this is never drafted
                rest = np.maximum(p_n - q_n, 0)
                next_law = rest / rest.sum() if rest.sum() else p_n
                accept = min(1.0, p_n[x] / (lenience * q_n[x]))
                ends = q_n[x] * (1 - accept)
            for t in range(LETTERS):
                place = n, (*draft[:n], t)
                # Drafts that differ only behind the end are one outcome.
                alike = LETTERS ** max(0, len(q) - n - 1)
                more = chance * ends * next_law[t] / alike
                found[place] = found.get(place, 0.0) + more
            if n < len(q):
                chance *= q_n[x] * accept
    return found


@every_pair
@pytest.mark.parametrize("lenience", [1.0, 0.4])
def test_block_laws_are_those_of_a_walk_over_every_draft(p, q, lenience):
    found = laws.block_laws(p, q, lenience)
    assert [law.shape for law in found] == [
        (LETTERS,) * (n + 1) for n in range(len(q) + 1)
    ]
    expected = [np.zeros(law.shape) for law in found]
    for (n, tokens), chance in walked(p, q, lenience).items():
        expected[n][tokens] += chance
    for law, by_walking in zip(found, expected, strict=True):
        np.testing.assert_allclose(law, by_walking, atol=1e-12)
    assert sum(law.sum() for law in found) == pytest.approx(1, abs=1e-12)


@every_pair
def test_what_comes_out_has_the_targets_own_law(p, q):
    own = laws.joint_law(p)
    for tokens in itertools.product(range(LETTERS), repeat=len(p)):
        chance = np.prod([p[i][tokens[:i]][x] for i, x in enumerate(tokens)])
        assert own[tokens] == pytest.approx(chance, abs=1e-15)
    np.testing.assert_allclose(laws.output_law(p, q), own, atol=1e-12)


@pytest.mark.parametrize("lenience", [0.7, 0.3])
def test_lenience_moves_the_law_but_no_token_above_its_bound(lenience):
    p, q = tables(0, 2), tables(1, 1)
    law = laws.output_law(p, q, lenience)
    assert law.sum() == pytest.approx(1, abs=1e-12)
    first = law.sum(axis=1)
    assert (first <= p[0] / lenience + 1e-12).all()
    assert np.abs(first - p[0]).max() > 0.003
    stands = laws.block_laws(p, q, lenience)[1].sum()
    assert stands == pytest.approx(theory.lenient_alpha(p[0], q[0], lenience))


def test_the_examples_of_the_docstrings():
    same = [np.array([0.5, 0.5]), np.array([[1.0, 0.0], [0.0, 1.0]])]
    np.testing.assert_array_equal(laws.joint_law(same), [[0.5, 0], [0, 0.5]])
    even = [np.full(2, 0.5), np.full((2, 2), 0.5)]
    correction, bonus = laws.block_laws(even, [np.array([1.0, 0.0])])
    np.testing.assert_array_equal(correction, [0, 0.5])
    np.testing.assert_array_equal(bonus, [[0.25, 0.25], [0, 0]])


def test_frequencies_are_shares_of_each_sequence():
    tokens = np.array([[0, 1], [0, 1], [2, 0], [1, 1]])
    shares = laws.frequencies(tokens, 3)
    np.testing.assert_array_equal(shares, [[0, 0.5, 0], [0, 0.25, 0], [0.25, 0, 0]])


def test_bad_tables_are_named():
    p, q = tables(0, 3), tables(1, 2)
    with pytest.raises(ValueError, match="one table more than q"):
        laws.block_laws(p, q[:1])
    with pytest.raises(ValueError, match=r"q\[1\] must hold a distribution"):
        laws.block_laws(p, [q[0], 2 * q[1]])
    with pytest.raises(ValueError, match=r"of shape \(3, 3\), got one of shape \(3,\)"):
        laws.joint_law([p[0], p[0]])
    with pytest.raises(ValueError, match=r"lenience must be in \(0, 1\], got 0"):
        laws.block_laws(p, q, 0.0)
