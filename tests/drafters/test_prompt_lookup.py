"""Copying: where it looks, what it copies, and that gamma falls where it finds nothing.

`reference.copied` says the same in plain Python, one row at a time.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from specdec_jax.decoding.contracts import Commit
from specdec_jax.decoding.settings import DecodeSettings
from specdec_jax.decoding.speculative import PairParams, Speculative
from specdec_jax.decoding.statistics import statistics
from specdec_jax.drafters.prompt_lookup import PromptLookupDrafter
from specdec_jax.errors import SettingsError
from specdec_jax.models.inputs import EncoderInputs, source_tokens
from specdec_jax.sampling import Warp
from tests import reference
from tests import toy_models as toys

V, PADDED, G = 9, 12, 5
EXAMPLES = {
    # name: (source, sequence, guesses)
    "the source goes on": ([7, 3, 4, 5, 6, 8], [2, 3, 4], [5, 6, 8]),
    "the longest match wins": ([3, 4, 5, 2, 4, 6], [7, 3, 4], [5, 2, 4, 6]),
    "the latest of equals wins": ([4, 5, 6, 4, 7, 8], [2, 4], [7, 8]),
    "the output is later than the source": ([3, 4, 5], [4, 7, 2, 4], [7, 2, 4, 7, 2]),
    "a copy of the output repeats itself": ([], [6, 2, 3, 2, 3], [2, 3, 2, 3, 2]),
    "one token over and over": ([], [4, 4], [4, 4, 4, 4, 4]),
    "a source that ends with the match": ([6, 3, 4], [3, 4], []),
    "no match": ([5, 6], [2, 3, 4], []),
    "a single token": ([], [0], []),
    "an empty source": ([], [2, 3, 2], [3, 2, 3, 2, 3]),
    "what is no token of the target": ([2, 3, 10, 4], [2], [3]),
    "a match does not begin in the source and end in the output": (
        [5, 3],
        [4, 6, 4, 7, 3, 4],
        [7, 3, 4, 7, 3],
    ),
}


def batch_of(sources, sequences, slots=40):
    """Sources and prompts of unlike lengths, padded."""
    width = max(max(map(len, sources)), 1)
    tokens = np.full((len(sources), width), 2)  # padding is a token like any other
    for row, source in zip(tokens, sources, strict=True):
        row[: len(source)] = source
    lengths = np.array([len(source) for source in sources])
    mask = jnp.asarray(np.arange(width)[None] < lengths[:, None])
    inputs = EncoderInputs(jnp.asarray(tokens, jnp.int32), mask)
    return inputs, toys.prompt_of(*sequences), slots


def propose(drafter, state, batch):
    draw = toys.draw_with(jnp.zeros((batch, G)))
    warp = Warp.from_values(temperature=np.ones(batch))
    gamma = jnp.full(batch, G, jnp.int32)
    return jax.jit(drafter.propose)({}, state, draw, warp, gamma)


def drafted(proposal):
    rows = zip(np.asarray(proposal.tokens), proposal.num_drafted, strict=True)
    return [row[: int(count)].tolist() for row, count in rows]


def test_examples_by_hand():
    sources, sequences, expected = zip(*EXAMPLES.values(), strict=True)
    drafter = PromptLookupDrafter(V, PADDED, source_tokens)
    inputs, prompt, slots = batch_of(sources, list(map(list, sequences)))
    state = drafter.init({}, inputs, None, prompt, None, slots)
    proposal, _ = propose(drafter, state, len(sources))
    assert dict(zip(EXAMPLES, drafted(proposal), strict=True)) == dict(
        zip(EXAMPLES, expected, strict=True)
    )


@pytest.mark.parametrize("least, most", [(1, 8), (2, 3), (1, 1)])
def test_it_drafts_what_a_search_by_hand_finds_block_after_block(least, most):
    random, batch = np.random.default_rng(least + most), 60
    sources = [random.integers(2, 5, random.integers(0, 9)).tolist() for _ in range(60)]
    rows = [random.integers(2, 5, random.integers(1, 6)).tolist() for _ in range(60)]
    drafter = PromptLookupDrafter(V, PADDED, source_tokens, least, most)
    inputs, prompt, slots = batch_of(sources, rows)
    state = drafter.init({}, inputs, None, prompt, None, slots)
    seen, commit = set(), jax.jit(drafter.commit)
    for _ in range(4):
        proposal, state = propose(drafter, state, batch)
        pairs = zip(sources, rows, strict=True)
        expected = [reference.copied(*pair, G, least, most) for pair in pairs]
        assert drafted(proposal) == expected
        seen |= {len(guess) for guess in expected}
        n = np.array([random.integers(0, len(guess) + 1) for guess in expected])
        block = np.asarray(jnp.pad(proposal.tokens, ((0, 0), (0, 1)))).copy()
        block[np.arange(batch), n] = random.integers(2, 6, batch)
        rows = [
            row + new[: k + 1].tolist()
            for row, new, k in zip(rows, block, n, strict=True)
        ]
        active = jnp.ones(batch, bool)
        block, n = jnp.asarray(block), jnp.asarray(n, jnp.int32)
        told = Commit(block, n, proposal.num_drafted, active, features=None)
        state = commit({}, state, told)
    assert {0, 1, G} <= seen


def ring(size):
    """A target that counts 2, 3, ..., size - 1, 2, 3, ... and never ends."""
    following = np.append(np.arange(1, size), 2)
    return toys.table_params(
        20.0 * np.eye(size)[np.broadcast_to(following, (size,) * 2)]
    )


def ring_source(inputs):
    """One round of the ring, for each row."""
    once = jnp.arange(2, inputs.shape[1], dtype=jnp.int32)
    return jnp.tile(once, (inputs.shape[0], 1))


def decode_ring(source, size, cap):
    rows = DecodeSettings(gamma=[4, 2, 0, 4], max_new_tokens=cap).rows(4)
    model = toys.table_model(size)
    drafter = PromptLookupDrafter(size, size, source)
    decoder = Speculative(model, drafter, 4, cap, toys.NO_EOS)
    prompt = toys.prompt_of([2], [5, 6], [4], [7, 8, 9])
    params = PairParams(ring(size), {})
    result = toys.decode(decoder, params, toys.no_inputs(4, size), rows, prompt)
    for row, start in enumerate([2, 6, 4, 9]):
        expected = (start - 1 + np.arange(cap)) % (size - 2) + 2
        assert np.asarray(result.tokens)[row].tolist() == expected.tolist()
    return statistics(result)


def test_where_the_output_is_a_copy_every_guess_stands():
    stats = decode_ring(ring_source, 32, cap=20)
    np.testing.assert_array_equal(stats.target_calls, [4, 7, 20, 4])
    assert stats.total().rejected == 0 and stats.total().alpha == 1
    np.testing.assert_array_equal(stats.drafted, stats.accepted)


def test_where_there_is_nothing_to_copy_gamma_falls_to_0():
    """And to what it was once the output has come round."""
    stats = decode_ring(None, 40, cap=20)
    np.testing.assert_array_equal(stats.target_calls, 20)
    np.testing.assert_array_equal(stats.drafted, 0)
    assert np.isnan(stats.alpha).all() and np.isnan(stats.acceptance_rate).all()
    stats = decode_ring(None, 12, cap=20)
    np.testing.assert_array_equal(stats.accepted > 0, [True, True, False, True])
    assert (stats.target_calls[[0, 1, 3]] < 20).all() and stats.total().alpha == 1


def test_gamma_in_force_and_guesses_are_recorded_for_every_step():
    """A target that wanders, replayed from its output."""
    batch, cap, vocab = 8, 14, 6
    table = toys.random_table(3, vocab, 1.0)
    rows = DecodeSettings(gamma=3, temperature=1.0, max_new_tokens=cap).rows(batch)
    model, drafter = (
        toys.table_model(vocab),
        PromptLookupDrafter(vocab, vocab, toys.source_of),
    )
    decoder = Speculative(model, drafter, 3, cap, toys.EOS)
    inputs = toys.random_inputs(1, batch, vocab)
    params = PairParams(toys.table_params(table), {})
    result = toys.decode(decoder, params, inputs, rows)
    infos, sources = result.infos, np.asarray(toys.source_of(inputs)).tolist()
    wanted = 0
    for row in range(batch):
        sequence = [0, *np.asarray(result.tokens)[row].tolist()]
        at = 1
        for step in range(int(result.num_steps)):
            if not infos.num_emitted[step, row]:
                continue
            width = min(3, cap - at)
            expected = reference.copied(sources[row], sequence[:at], width)
            assert infos.gamma[step, row] == len(expected)
            drafted = np.asarray(infos.drafted)[step, row]
            assert drafted.tolist() == expected + [0] * (3 - len(expected))
            wanted += len(expected)
            at += int(infos.num_emitted[step, row])
        assert at == int(result.lengths[row]) + 1
    total = statistics(result).total()
    assert total.accepted > 0 and total.rejected > 0
    assert total.drafted == wanted


@pytest.mark.parametrize("least, most", [(0, 3), (4, 3)])
def test_lengths_of_a_match_that_make_no_sense_are_refused(least, most):
    with pytest.raises(SettingsError, match=f"not {least} and {most}"):
        PromptLookupDrafter(V, PADDED, None, least, most)
