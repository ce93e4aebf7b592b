"""The first three tokens follow the target's law, whatever the drafter guesses.

The law is summed over all sequences in plain numpy. Every drafter serves one batch of
unlike groups of rows (`laws.GROUPS`), and each group is tested by itself.
"""

import dataclasses
import functools

import numpy as np
import pytest

from specdec_jax.decoding.autoregressive import Autoregressive
from specdec_jax.decoding.contracts import Drafter
from specdec_jax.decoding.speculative import PairParams, Speculative
from specdec_jax.drafters.constant import ConstantDrafter
from specdec_jax.drafters.neural import NeuralDrafter
from specdec_jax.sampling import Verdict, draw
from tests import reference
from tests import toy_models as toys
from tests.decoding import laws

TABLE = toys.random_table(1, laws.VOCAB)
# Two ids that the target never gives, other ones after each pair of tokens.
A, B, X = np.indices(TABLE.shape)
IS_NEVER = (X == (A + B) % laws.VOCAB) | (X == (A + 2 * B + 3) % laws.VOCAB)
NEURAL = NeuralDrafter(laws.MODEL)
CONSTANT = ConstantDrafter(laws.VOCAB, laws.PADDED, token=3)


@dataclasses.dataclass(frozen=True, eq=False)
class Case:
    """A target's table, a drafter, and its q after a prefix in a group."""

    target: np.ndarray
    drafter: Drafter
    drafter_table: np.ndarray

    def draft_law(self, group):
        if self.drafter is CONSTANT:
            return lambda prefix: np.eye(laws.VOCAB)[CONSTANT.token]
        if isinstance(self.drafter, toys.GreedyDrafter):
            add = laws.added(group)
            return reference.table_law(self.drafter_table, add, temperature=0)
        return laws.next_law(group, self.drafter_table)

    def params(self):
        tables = (self.target, self.drafter_table)
        return PairParams(*(toys.table_params(t, laws.PADDED) for t in tables))


CASES = {
    "another network": Case(TABLE, NEURAL, toys.similar_table(TABLE, 2, noise=1.0)),
    "the target": Case(TABLE, NEURAL, TABLE),
    "what never comes": Case(
        np.where(IS_NEVER, laws.NEVER, TABLE),
        NEURAL,
        np.where(IS_NEVER, 3.0, TABLE),
    ),
    "one id": Case(TABLE, CONSTANT, TABLE),
    "argmax": Case(
        TABLE, toys.GreedyDrafter(NEURAL), toys.similar_table(TABLE, 2, noise=0.5)
    ),
}


@functools.cache
def sampled(name):
    """Counts of each group, and a batch's result."""
    case, size, cap = CASES[name], laws.MAX_GAMMA, laws.MAX_NEW_TOKENS
    decoder = Speculative(laws.MODEL, case.drafter, size, cap, toys.EOS)
    return laws.sample(decoder, case.params())


every_case = pytest.mark.parametrize("case", CASES)


@every_case
@pytest.mark.parametrize(
    "group", [name for name in laws.GROUPS if "lenient" not in name]
)
def test_first_three_tokens_follow_the_targets_law(case, group):
    counts, _ = sampled(case)
    law = laws.exact(group, laws.next_law(group, CASES[case].target))
    reference.assert_follows(counts[group], law)


@every_case
def test_lenience_follows_its_own_law_and_no_token_exceeds_p_over_l(case):
    """All three places are drafted at gamma 3, so each follows the lenient law."""
    counts, _ = sampled(case)
    p = laws.next_law("lenient", CASES[case].target)
    q = CASES[case].draft_law("lenient")
    lenience = laws.GROUPS["lenient"].lenience
    law = laws.exact("lenient", reference.lenient(p, q, lenience))
    reference.assert_follows(counts["lenient"], law)
    first = counts["lenient"].sum(axis=(1, 2))
    noise = 4 * np.sqrt(first + 1)
    assert (first <= p((0,)) / lenience * first.sum() + noise).all()


def almost_argmax(case):
    """A guess as likely as `lenience` times the likeliest stands; else the likeliest.

    The second law is the one without lenience.
    """
    name = "lenient argmax"
    plain = reference.table_law(CASES[case].target, laws.added(name))
    draft, lenience = CASES[case].draft_law(name), laws.GROUPS[name].lenience

    def next_law(prefix):
        p, guess = plain(prefix), np.argmax(draft(prefix))
        stands = p[guess] >= lenience * p.max()
        return np.eye(laws.VOCAB)[guess if stands else np.argmax(p)]

    argmax = laws.next_law(name, CASES[case].target)
    return laws.exact(name, next_law), laws.exact(name, argmax)


@every_case
def test_lenience_at_temperature_0_takes_guesses_almost_as_likely(case):
    counts, _ = sampled(case)
    reference.assert_follows(counts["lenient argmax"], almost_argmax(case)[0])


def test_lenience_is_in_force():
    """The tests above would be empty if lenience changed nothing."""
    case = CASES["one id"]
    p, q = laws.next_law("lenient", case.target), case.draft_law("lenient")
    biased = laws.exact("lenient", reference.lenient(p, q, 0.6))
    assert np.abs(biased - laws.exact("lenient", p)).sum() > 0.2
    biased = [not np.array_equal(*almost_argmax(case)) for case in CASES]
    assert sum(biased) >= 2


def test_a_drafter_that_is_the_target_has_every_draft_token_accepted():
    """At every temperature and with every filter: p and q are equal to the bit."""
    _, result = sampled("the target")
    gamma = np.asarray(result.infos.gamma)
    assert gamma.sum() > 10_000
    np.testing.assert_array_equal(result.infos.num_accepted, gamma)


def test_draft_tokens_that_never_come_are_never_accepted():
    _, result = sampled("what never comes")
    gamma = np.asarray(result.infos.gamma)[0]
    first = np.asarray(result.infos.drafted)[0, gamma > 0, 0]
    accepted = np.asarray(result.infos.num_accepted)[0, gamma > 0] > 0
    never = IS_NEVER[0, 0, first]
    assert never.mean() > 0.5
    assert not accepted[never].any()


@dataclasses.dataclass(frozen=True)
class RejectAll:
    """Lossless and useless: the first target distribution, each time."""

    def draw(self, probs_v, noise):
        return draw(probs_v, noise.uniform)

    def verify(self, block):
        n = 0 * block.gamma
        return Verdict(n, self.draw(block.target_probs[0], block.noise(n)))


@functools.cache
def sampled_by_other_means(means):
    params, cap = CASES["another network"].params(), laws.MAX_NEW_TOKENS
    if means == "the baseline":
        decoder = Autoregressive(laws.MODEL, cap, toys.EOS)
        return laws.sample(decoder, params.target, batches=4)
    sizes = (laws.MAX_GAMMA, cap, toys.EOS)
    decoder = Speculative(laws.MODEL, NEURAL, *sizes, RejectAll())
    return laws.sample(decoder, params, batches=4)


@pytest.mark.parametrize("means", ["the baseline", "a rule that rejects all"])
@pytest.mark.parametrize("group", laws.GROUPS)
def test_other_means_have_the_same_law(means, group):
    """Rows with lenience included, which neither of them knows."""
    counts, result = sampled_by_other_means(means)
    law = laws.exact(group, laws.next_law(group, TABLE))
    reference.assert_follows(counts[group], law)
    assert not np.asarray(result.infos.num_accepted).any()
