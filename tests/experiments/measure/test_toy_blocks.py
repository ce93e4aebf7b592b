"""Blocks drawn from toy models follow the exact laws."""

import numpy as np
import pytest
from scipy import stats

from specdec_jax.experiments.measure.toy_blocks import sample_blocks
from specdec_jax.sampling import laws

LETTERS, GAMMA, SAMPLES = 3, 2, 40_000


def tables(seed, number):
    rng = np.random.default_rng(seed)
    return [rng.dirichlet(np.full(LETTERS, 2.0), (LETTERS,) * n) for n in range(number)]


P, Q = tables(0, GAMMA + 1), tables(1, GAMMA)


def fits(seen, law):
    seen, law = np.ravel(seen), np.ravel(law)
    return stats.chisquare(SAMPLES * seen, SAMPLES * law).pvalue


@pytest.mark.parametrize("lenience", [1.0, 0.5])
def test_samples_follow_the_law_of_the_output_and_of_what_stands(lenience):
    drawn = sample_blocks(P, Q, samples=SAMPLES, seed=3, lenience=lenience)
    seen = laws.frequencies(drawn.tokens, LETTERS)
    assert fits(seen, laws.output_law(P, Q, lenience)) > 1e-3
    # A law that is not this one is told apart by as many samples.
    assert fits(seen, laws.output_law(P, Q, 1.5 - lenience)) < 1e-6
    stood = np.bincount(drawn.num_accepted, minlength=GAMMA + 1) / SAMPLES
    chances = [law.sum() for law in laws.block_laws(P, Q, lenience)]
    assert fits(stood, np.array(chances)) > 1e-3


def test_a_drafter_equal_to_its_target_is_always_accepted():
    drawn = sample_blocks(P, P[:-1], samples=500, seed=0)
    assert (drawn.num_accepted == GAMMA).all()


def test_samples_are_the_seeds():
    one, same, other = (
        sample_blocks(P, Q, samples=100, seed=seed).tokens for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()
