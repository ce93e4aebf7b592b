"""The output follows the target's law with every drafter that has no network.

And with one that makes fewer guesses than it is asked for. Batches are those of the
joint laws of `tests/decoding`: groups of unlike rows, each tested by itself.
"""

import dataclasses
import functools

import numpy as np
import pytest

from specdec_jax.decoding.contracts import Drafter
from specdec_jax.decoding.speculative import PairParams, Speculative
from specdec_jax.decoding.statistics import statistics
from specdec_jax.drafters.neural import NeuralDrafter
from specdec_jax.drafters.ngram import NGramDrafter
from specdec_jax.drafters.prompt_lookup import PromptLookupDrafter
from specdec_jax.drafters.repeat_last import RepeatLastDrafter
from specdec_jax.drafters.uniform import UniformDrafter
from specdec_jax.training.fit_ngram import fit_ngram
from specdec_jax.typing import Any
from tests import reference
from tests import toy_models as toys
from tests.decoding import laws

V, SIZES = laws.VOCAB, (laws.VOCAB, laws.PADDED)
TABLE = toys.random_table(1, V)
TEXTS = np.random.default_rng(2).integers(1, V, (60, 5)).tolist()
EXACT = [name for name, group in laws.GROUPS.items() if group.lenience == 1]


@dataclasses.dataclass(frozen=True, eq=False)
class Case:
    """A drafter, its parameters, and its q after the start token if that is known."""

    drafter: Drafter
    params: Any
    first: np.ndarray | None = None


CASES = {
    "uniform": Case(UniformDrafter(*SIZES), {}, np.full(V, 1 / V)),
    "repeat last": Case(RepeatLastDrafter(*SIZES), {}, np.eye(V)[0]),
    "trigram": Case(
        NGramDrafter(*SIZES),
        fit_ngram(TEXTS, V, 3),
        reference.ngram_law(TEXTS, V, 3)((0,)),
    ),
    "prompt_lookup": Case(PromptLookupDrafter(*SIZES, toys.source_of), {}),
    "prompt lookup in the output": Case(PromptLookupDrafter(*SIZES), {}),
    "hesitant": Case(
        toys.HesitantDrafter(NeuralDrafter(laws.MODEL)),
        toys.table_params(toys.similar_table(TABLE, 2, 1.0), laws.PADDED),
    ),
}
every_case = pytest.mark.parametrize("case", CASES)


@functools.cache
def sampled(case):
    """Counts of each group, and a batch's result."""
    drafter, params = CASES[case].drafter, CASES[case].params
    sizes = (laws.MAX_GAMMA, laws.MAX_NEW_TOKENS, toys.EOS)
    decoder = Speculative(laws.MODEL, drafter, *sizes)
    pair = PairParams(toys.table_params(TABLE, laws.PADDED), params)
    return laws.sample(decoder, pair, batches=2)


@every_case
@pytest.mark.parametrize("group", EXACT)
def test_first_three_tokens_follow_the_targets_law(case, group):
    counts, _ = sampled(case)
    law = laws.exact(group, laws.next_law(group, TABLE))
    reference.assert_follows(counts[group], law)


@every_case
def test_both_estimates_of_alpha_agree_and_something_stands_and_something_not(case):
    _, result = sampled(case)
    stats = statistics(result)
    is_exact = np.isin(list(laws.GROUPS), EXACT)
    np.testing.assert_array_equal(stats.beta_count, stats.accepted + stats.rejected)
    for kind in np.flatnonzero(is_exact):
        rows = slice(kind, None, len(laws.GROUPS))
        tested = max(int(stats.beta_count[rows].sum()), 1)
        alpha = float(stats.beta_sum[rows].sum()) / tested
        counted = int(stats.accepted[rows].sum()) / tested
        noise = np.sqrt(max(alpha * (1 - alpha), 0) / tested)
        assert counted == pytest.approx(alpha, abs=4 * noise + 1e-5)
    total = stats.total()
    assert total.accepted > 1000 and total.rejected > 1000
    assert (stats.target_calls <= stats.tokens).all()


@pytest.mark.parametrize(
    "case", [name for name in CASES if CASES[name].first is not None]
)
@pytest.mark.parametrize("group", [name for name in EXACT if laws.GROUPS[name].gamma])
def test_beta_of_the_first_guess_is_the_overlap_of_the_warped_laws(case, group):
    _, result = sampled(case)
    p = laws.next_law(group, TABLE)((0,))
    q = CASES[case].first
    if q.max() < 1:
        q = reference.warped(np.log(q), **laws.GROUPS[group].warp)
    row = list(laws.GROUPS).index(group)
    expected = np.minimum(p, q).sum()
    assert result.infos.betas[0, row, 0] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(
    "case", ["prompt_lookup", "prompt lookup in the output", "hesitant"]
)
def test_fewer_guesses_are_made_than_asked_for(case):
    """In the second step, of rows that have room for all of them."""
    _, result = sampled(case)
    wants_all = [
        group.gamma == laws.MAX_GAMMA and group.max_new_tokens == laws.MAX_NEW_TOKENS
        for group in laws.GROUPS.values()
    ]
    emitted, gamma = (
        np.asarray(result.infos.num_emitted),
        np.asarray(result.infos.gamma),
    )
    seen = np.tile(wants_all, laws.ROWS) & (emitted[0] == 1) & (emitted[1] > 0)
    assert {0, laws.MAX_GAMMA} <= set(gamma[1, seen].tolist())
