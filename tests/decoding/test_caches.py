"""After every step both caches are those of a fresh prefill of the same prefix.

A drafter that missed a token still gives exact output, only slower: nothing but this
shows it. A script forces how many draft tokens are accepted.
"""

import dataclasses
import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from specdec_jax.decoding.contracts import Prompt
from specdec_jax.decoding.loop import prefill, slots_needed
from specdec_jax.decoding.settings import DecodeSettings
from specdec_jax.decoding.speculative import PairParams, Speculative
from specdec_jax.drafters.neural import NeuralDrafter
from specdec_jax.sampling import TokenRule, Verdict
from tests import toy_models as toys

G, STEPS, CAP = 4, 9, 48
PAIRS = [(gamma, n) for gamma in range(G + 1) for n in range(gamma + 1)]
LENGTHS = (7, 2, 5, 1, 6)  # of the rows' source texts, padded to 7
B = len(LENGTHS)


@dataclasses.dataclass(frozen=True)
class ScriptedRule:
    """Accepts as many draft tokens as are forced; then comes any token but EOS."""

    def draw(self, probs_v, noise):
        return TokenRule().draw(probs_v, noise)

    def verify(self, block):
        n = jnp.sum(block.forced_accept.astype(jnp.int32))
        token = 2 + (28 * block.draw_uniform).astype(jnp.int32)
        return Verdict(n, token)


class ScriptedDecoder(Speculative):
    """Forces as many draft tokens as a row's lenience says, in eighths."""

    def _block(self, keys, noise_keys, steps, logits, proposal, gamma, rows):
        given = (keys, noise_keys, steps, logits, proposal, gamma, rows)
        block, betas = super()._block(*given)
        n = jnp.round(8 * rows.lenience).astype(jnp.int32)
        forced = jnp.arange(G, dtype=jnp.int32)[None] < n[:, None]
        return block.replace(forced_accept=forced), betas


@functools.cache
def world():
    target, target_params = toys.tiny_t5(seed=0)
    drafter, drafter_params = toys.tiny_t5(seed=1, layers=1)
    params = PairParams(target_params, drafter_params)
    inputs = toys.encoder_inputs(0, LENGTHS, width=7)
    decoder = ScriptedDecoder(
        target, NeuralDrafter(drafter), G, CAP, toys.NO_EOS, ScriptedRule()
    )
    slots = slots_needed(toys.start_prompt(B), CAP, G)

    @functools.partial(jax.jit, static_argnums=0)
    def fresh(model, params, prompt):
        return prefill(model, params, inputs, prompt, slots).cache

    def fresh_pair(target_prompt, drafter_prompt):
        return (
            fresh(target, target_params, target_prompt),
            fresh(drafter, drafter_params, drafter_prompt),
        )

    step = jax.jit(lambda state, rows: decoder.step(toys.keys(B), state, params, rows))
    state = jax.jit(decoder.init)(params, inputs, toys.start_prompt(B))
    return step, state, fresh_pair


def forced(pairs, **settings):
    """Settings with each row's gamma and number of accepted guesses."""
    gamma, n = np.transpose(pairs)
    settings = {"max_new_tokens": CAP, "temperature": 1.0} | settings
    rows = DecodeSettings(gamma=gamma, max_gamma=G, **settings).rows(B)
    return rows.replace(lenience=jnp.asarray(n / 8, jnp.float32))


def prefixes(sequences, counts):
    """A prompt whose prefill sees the first `counts[b]` tokens of each row."""
    tokens = np.full((B, 1 + CAP), 2)
    for row, sequence in enumerate(sequences):
        tokens[row, : len(sequence)] = sequence
    return Prompt(jnp.asarray(tokens, jnp.int32), jnp.asarray(counts) + 1)


def assert_same_past(cache, expected, counts):
    """Slots below each row's count are equal; slots past it count for nothing."""
    for got, want in zip(
        jax.tree.leaves(cache.past), jax.tree.leaves(expected.past), strict=True
    ):
        for row, count in enumerate(counts):
            np.testing.assert_allclose(
                got[row, :, :count], want[row, :, :count], rtol=1e-4, atol=1e-5
            )
    for got, want in zip(
        jax.tree.leaves((cache.encoded, cache.encoder_bias)),
        jax.tree.leaves((expected.encoded, expected.encoder_bias)),
        strict=True,
    ):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def assert_caches_are_fresh(state, sequences, fresh_pair):
    """`sequences` hold each row's tokens, prompt included."""
    draft = state.draft_state
    target_counts = np.asarray(state.lengths)
    draft_counts = np.asarray(draft.lengths)
    for row, sequence in enumerate(sequences):
        assert target_counts[row] == len(sequence) - 1
        assert state.last_token[row] == sequence[-1]
        pending = np.asarray(draft.pending)[row, : int(draft.num_pending[row])]
        assert draft_counts[row] + len(pending) == len(sequence)
        assert sequence[draft_counts[row] :] == pending.tolist()
    expected = fresh_pair(
        prefixes(sequences, target_counts), prefixes(sequences, draft_counts)
    )
    assert_same_past(state.target_cache, expected[0], target_counts)
    assert_same_past(draft.cache, expected[1], draft_counts)


def extend_sequences(sequences, state, info):
    """Appends what the step emitted, and checks it against the step's record."""
    for row, sequence in enumerate(sequences):
        count = int(info.num_emitted[row])
        if not count:
            continue
        n = int(info.num_accepted[row])
        block = [*np.asarray(info.drafted)[row, :n].tolist(), int(info.next_token[row])]
        sequence.extend(block[:count])
        emitted = int(state.num_emitted[row])
        assert np.asarray(state.tokens)[row, :emitted].tolist() == sequence[1:]


@pytest.mark.parametrize("seed", [0, 1])
def test_caches_equal_a_fresh_prefill_for_every_gamma_and_n_in_any_order(seed):
    step, state, fresh_pair = world()
    assert_caches_are_fresh(state, [[0]] * B, fresh_pair)
    random = np.random.default_rng(seed)
    script = random.permutation(PAIRS * 3).reshape(STEPS, B, 2)
    assert len(np.unique(script.reshape(-1, 2), axis=0)) == len(PAIRS)
    sequences = [[0] for _ in range(B)]
    for pairs in script:
        state, info = step(state, forced(pairs))
        np.testing.assert_array_equal(info.gamma, pairs[:, 0])
        np.testing.assert_array_equal(info.num_accepted, pairs[:, 1])
        extend_sequences(sequences, state, info)
        assert_caches_are_fresh(state, sequences, fresh_pair)


def test_caches_are_fresh_after_each_gamma_follows_each_other():
    """All guesses stand and then gamma changes: the case with a token left unseen."""
    step, state, fresh_pair = world()
    sequences = [[0] for _ in range(B)]
    for first, second in itertools.product((0, 1, G), repeat=2):
        gammas = [(first + row) % (G + 1) for row in range(B - 1)] + [second]
        pairs = [(gamma, gamma if row % 2 else 0) for row, gamma in enumerate(gammas)]
        state, info = step(state, forced(pairs))
        extend_sequences(sequences, state, info)
    assert_caches_are_fresh(state, sequences, fresh_pair)


def test_finished_rows_stay_as_they_are_while_others_go_on():
    step, state, fresh_pair = world()
    sequences = [[0] for _ in range(B)]
    caps = np.array([1, CAP, 3, CAP, 6])  # rows 0, 2 and 4 finish after 1, 2 and 3
    ends = []
    for gamma, n in [(2, 1), (4, 4), (3, 0), (0, 0), (4, 2)]:
        rows = forced([(gamma, n)] * B, max_new_tokens=caps)
        wanted = np.minimum(n, np.maximum(caps - state.num_emitted - 1, 0))
        rows = rows.replace(lenience=jnp.asarray(wanted / 8, jnp.float32))
        before = state
        state, info = step(state, rows)
        extend_sequences(sequences, state, info)
        assert_caches_are_fresh(state, sequences, fresh_pair)
        was_active = np.asarray(before.active)
        np.testing.assert_array_equal(info.num_emitted == 0, ~was_active)
        np.testing.assert_array_equal(info.gamma[~was_active], 0)
        for row in np.flatnonzero(~was_active):
            assert_row_is_unchanged(row, before, state)
        ends.append(np.flatnonzero(~np.asarray(state.active)).tolist())
    assert ends == [[0], [0, 2, 4], [0, 2, 4], [0, 2, 4], [0, 2, 4]]
    np.testing.assert_array_equal(state.num_emitted[::2], caps[::2])


def assert_row_is_unchanged(row, before, after):
    for name in ("last_token", "lengths", "active", "num_emitted"):
        assert getattr(before, name)[row] == getattr(after, name)[row], name
    count = int(before.num_emitted[row])
    np.testing.assert_array_equal(before.tokens[row, :count], after.tokens[row, :count])
    for name in ("lengths", "pending", "num_pending"):
        np.testing.assert_array_equal(
            getattr(before.draft_state, name)[row],
            getattr(after.draft_state, name)[row],
        )
