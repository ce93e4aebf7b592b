"""What every drafter keeps to. A new one is a line in `DRAFTERS`.

One batch holds a row for each (gamma, n): how many draft tokens were asked for, and how
many of them are accepted (or all, of a drafter that made fewer). Rows have unlike
prompts, inputs and temperatures.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from specdec_jax.decoding.contracts import Commit, Drafter
from specdec_jax.decoding.settings import DecodeSettings
from specdec_jax.decoding.speculative import PairParams, Speculative
from specdec_jax.drafters.constant import ConstantDrafter
from specdec_jax.drafters.neural import NeuralDrafter
from specdec_jax.drafters.ngram import NGramDrafter
from specdec_jax.drafters.prompt_lookup import PromptLookupDrafter
from specdec_jax.drafters.repeat_last import RepeatLastDrafter
from specdec_jax.drafters.uniform import UniformDrafter
from specdec_jax.sampling import Warp
from specdec_jax.training.fit_ngram import fit_ngram
from tests import reference
from tests import toy_models as toys

V, PADDED, G = 7, 8, 3
MODEL = toys.table_model(V, PADDED)
TABLE = toys.random_table(1, V, 2.0)
TARGET = toys.table_params(TABLE, PADDED)
SIMILAR = toys.table_params(toys.similar_table(TABLE, 2, noise=1.0), PADDED)
TEXTS = np.random.default_rng(3).integers(1, V, (40, 6)).tolist()
# name -> (drafter, its parameters)
DRAFTERS = {
    "neural": (NeuralDrafter(MODEL), SIMILAR),
    "constant": (ConstantDrafter(V, PADDED, token=4), {}),
    "greedy": (toys.GreedyDrafter(NeuralDrafter(MODEL)), SIMILAR),
    "hesitant": (toys.HesitantDrafter(NeuralDrafter(MODEL)), SIMILAR),
    "uniform": (UniformDrafter(V, PADDED), {}),
    "repeat last": (RepeatLastDrafter(V, PADDED), {}),
    "unigram": (NGramDrafter(V, PADDED), fit_ngram(TEXTS, V, 1)),
    "trigram": (NGramDrafter(V, PADDED), fit_ngram(TEXTS, V, 3)),
    "prompt lookup": (PromptLookupDrafter(V, PADDED, toys.source_of), {}),
    "prompt lookup in the output": (PromptLookupDrafter(V, PADDED), {}),
}

PAIRS = np.array([(gamma, n) for gamma in range(G + 1) for n in range(gamma + 1)])
B = len(PAIRS)
GAMMA = jnp.asarray(PAIRS[:, 0], jnp.int32)
ACCEPTED = jnp.asarray(PAIRS[:, 1], jnp.int32)
WARP = Warp.from_values(
    temperature=[1.0, 0.0, 0.5, 2.0, 1.0] * 2, top_k=[0, 0, 0, 3, 4] * 2
)
PROMPTS = [
    [int(x) for x in row[: 1 + b % 3]]
    for b, row in enumerate(np.random.default_rng(0).integers(2, V, (B, 3)))
]
INPUTS = toys.random_inputs(1, B, PADDED)
SLOTS = 3 + 3 * (G + 1)


def random_draw(seed):
    return toys.draw_with(np.random.default_rng(seed).random((B, G), np.float32))


@dataclasses.dataclass(frozen=True, eq=False)
class Programs:
    """A drafter's three functions, jitted for the batch above."""

    drafter: Drafter
    params: dict

    @functools.cached_property
    def _init(self):
        return jax.jit(self.drafter.init, static_argnums=5)

    @functools.cached_property
    def _propose(self):
        return jax.jit(self.drafter.propose)

    @functools.cached_property
    def _commit(self):
        return jax.jit(self.drafter.commit)

    def init(self, prompts):
        # Padded to one width, so that longer prompts need no other program.
        padding = [[2] * (3 + 2 * (G + 1))]
        prompt = toys.prompt_of(*prompts + padding)
        prompt = jax.tree.map(lambda x: x[:-1], prompt)
        return self._init(self.params, INPUTS, INPUTS, prompt, None, SLOTS)

    def propose(self, state, draw, gamma=GAMMA):
        return self._propose(self.params, state, draw, WARP, gamma)

    def commit(self, state, proposal, active=None):
        """n are accepted, as the batch says, and then comes (n + 2) % V.

        Returns the state, and the tokens that each row grew by.
        """
        n = jnp.minimum(ACCEPTED, proposal.num_drafted)
        block = jnp.pad(proposal.tokens, ((0, 0), (0, 1)))
        block = block.at[jnp.arange(B), n].set((n + 2) % V)
        active = jnp.ones(B, bool) if active is None else jnp.asarray(active)
        commit = Commit(block, n, proposal.num_drafted, active, features=None)
        grown = [row[: int(k) + 1].tolist() for row, k in zip(block, n, strict=True)]
        return self._commit(self.params, state, commit), grown


@pytest.fixture(scope="module", params=DRAFTERS)
def programs(request):
    return Programs(*DRAFTERS[request.param])


def in_force(proposal, gamma=GAMMA):
    """[B, G], true at the draft tokens that the loop looks at."""
    counts = np.minimum(proposal.num_drafted, gamma)
    return np.arange(G)[None] < counts[:, None]


def assert_same_draft(got, want, gamma=GAMMA):
    """The draft tokens in force, and what they were drawn from."""
    seen = in_force(got, gamma)
    np.testing.assert_array_equal(seen, in_force(want, gamma))
    np.testing.assert_array_equal(
        np.where(seen, got.tokens, -1), np.where(seen, want.tokens, -1)
    )
    np.testing.assert_array_equal(
        np.where(seen[..., None], got.probs, -1),
        np.where(seen[..., None], want.probs, -1),
    )


def test_it_is_a_drafter_and_can_be_a_static_argument(programs):
    drafter = programs.drafter
    assert isinstance(drafter, Drafter)
    assert drafter.vocab_size == V
    assert dataclasses.replace(drafter) == drafter
    assert hash(dataclasses.replace(drafter)) == hash(drafter)


def test_each_draft_token_is_drawn_from_the_distribution_that_is_declared(programs):
    draw = random_draw(0)
    proposal, _ = programs.propose(programs.init(PROMPTS), draw)
    assert proposal.tokens.dtype == jnp.int32
    assert proposal.tokens.shape == (B, G) and proposal.probs.shape == (B, G, PADDED)
    assert ((proposal.tokens >= 0) & (proposal.tokens < V)).all()
    assert proposal.num_drafted.shape == (B,)
    assert ((proposal.num_drafted >= 0) & (proposal.num_drafted <= GAMMA)).all()
    drawn = [draw(proposal.probs[:, i], i) for i in range(G)]
    drawn = jnp.stack(drawn, axis=1)
    seen = in_force(proposal)
    q = np.asarray(proposal.probs)[seen]
    np.testing.assert_array_equal(
        np.asarray(drawn)[seen], np.asarray(proposal.tokens)[seen]
    )
    np.testing.assert_allclose(q.sum(axis=-1), 1, rtol=1e-5)
    assert (q >= 0).all() and (q[:, V:] == 0).all()


def test_argmax_rows_declare_one_hot_distributions(programs):
    proposal, _ = programs.propose(programs.init(PROMPTS), random_draw(0))
    for row in np.flatnonzero(np.asarray(WARP.temperature) == 0):
        q = np.asarray(proposal.probs)[row, : int(proposal.num_drafted[row])]
        assert np.isin(q, [0, 1]).all()


def test_draft_tokens_do_not_depend_on_gamma(programs):
    """A row's first tokens are the same, however many it or its neighbours draft."""
    state, draw = programs.init(PROMPTS), random_draw(1)
    widest, _ = programs.propose(state, draw, jnp.full(B, G, jnp.int32))
    for gamma in (GAMMA, GAMMA[::-1], jnp.minimum(GAMMA, 1)):
        proposal, _ = programs.propose(state, draw, gamma)
        assert_same_draft(proposal, widest, gamma)


def test_after_a_commit_it_drafts_as_if_it_had_begun_with_the_longer_prompt(programs):
    """For every gamma and n, twice over: the first commit's state is committed to."""
    state, prompts = programs.init(PROMPTS), PROMPTS
    for round_ in range(2):
        proposal, state = programs.propose(state, random_draw(2 + round_))
        state, grown = programs.commit(state, proposal)
        prompts = [old + new for old, new in zip(prompts, grown, strict=True)]
        wide, draw = jnp.full(B, G, jnp.int32), random_draw(9)
        got, _ = programs.propose(state, draw, wide)
        want, _ = programs.propose(programs.init(prompts), draw, wide)
        assert_same_draft(got, want, wide)


def test_a_finished_row_keeps_its_state(programs):
    active = np.arange(B) % 3 != 0
    proposal, state = programs.propose(programs.init(PROMPTS), random_draw(4))
    before, _ = programs.commit(state, proposal)
    proposal, state = programs.propose(before, random_draw(5))
    after, _ = programs.commit(state, proposal, active)
    wide, draw = jnp.full(B, G, jnp.int32), random_draw(6)
    got, _ = programs.propose(after, draw, wide)
    want, _ = programs.propose(before, draw, wide)
    finished = np.where(active, 0, G)
    assert_same_draft(got, want, finished)


def test_through_the_loop_the_output_is_the_targets_argmax(programs):
    cap = 8
    rows = DecodeSettings(gamma=PAIRS[:, 0], max_gamma=G, max_new_tokens=cap).rows(B)
    decoder = Speculative(MODEL, programs.drafter, G, cap, toys.EOS)
    pair = PairParams(TARGET, programs.params)
    out = toys.decode(decoder, pair, INPUTS, rows, toys.prompt_of(*PROMPTS))
    for row, add in enumerate(np.asarray(INPUTS)[:, :V]):
        law = reference.table_law(TABLE, add, temperature=0)
        expected = reference.greedy(law, PROMPTS[row], cap, toys.EOS)
        length = int(out.lengths[row])
        assert np.asarray(out.tokens)[row, :length].tolist() == expected


def test_a_neural_drafter_is_not_asked_for_blocks_of_no_draft_tokens():
    drafter, params = DRAFTERS["neural"]
    state = drafter.init(params, INPUTS, INPUTS, toys.start_prompt(B), None, SLOTS)
    with pytest.raises(ValueError, match="blocks of no draft tokens"):
        drafter.propose(params, state, toys.draw_with(jnp.zeros((B, 0))), WARP, GAMMA)
