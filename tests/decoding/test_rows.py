"""A row's output is its own: its seed, its id, its settings, and nothing beside it."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from specdec_jax.decoding.autoregressive import Autoregressive
from specdec_jax.decoding.contracts import Prompt
from specdec_jax.decoding.settings import DecodeSettings
from specdec_jax.decoding.speculative import PairParams, Speculative
from specdec_jax.drafters.neural import NeuralDrafter
from tests import toy_models as toys

V, G, M, B = 9, 4, 12, 6
MODEL = toys.table_model(V)
TABLE = toys.random_table(1, V, 2.0)
PAIR = PairParams(
    toys.table_params(TABLE), toys.table_params(toys.similar_table(TABLE, 2, noise=1.0))
)
DECODERS = {
    "speculative": (Speculative(MODEL, NeuralDrafter(MODEL), G, M, toys.EOS), PAIR),
    "baseline": (Autoregressive(MODEL, M, toys.EOS), PAIR.target),
}
INPUTS = np.asarray(toys.random_inputs(3, B, V))
PROMPTS = np.asarray([[3, 2, 2], [4, 2, 3], [2, 3, 2], [0, 4, 4], [5, 2, 2], [2, 6, 7]])
LENGTHS = np.array([1, 3, 2, 3, 1, 3])
SETTINGS = {
    "gamma": [4, 0, 2, 1, 3, 4],
    "temperature": [1.0, 0.0, 0.7, 1.5, 1.0, 0.9],
    "top_k": [0, 0, 3, 5, 0, 2],
    "top_p": [1.0, 0.5, 1.0, 0.9, 0.6, 0.8],
    "lenience": [1.0, 0.5, 1.0, 1.0, 0.7, 1.0],
    "max_new_tokens": [12, 5, 9, 12, 7, 11],
}
HOT = {"temperature": 2.0}  # so that no two rows draw the same by chance


def prompt_of(chosen):
    tokens, lengths = PROMPTS[chosen], LENGTHS[chosen]
    return Prompt(jnp.asarray(tokens, jnp.int32), jnp.asarray(lengths, jnp.int32))


def decode(decoder, chosen, row_ids, seed=0, overrides=None):
    """Decodes the chosen of the rows above, in that order."""
    settings = {name: np.array(values)[chosen] for name, values in SETTINGS.items()}
    for name, value in (overrides or {}).items():
        settings[name] = value
    decoder, params = DECODERS[decoder]
    return toys.decode(
        decoder,
        params,
        jnp.asarray(INPUTS[chosen]),
        DecodeSettings(max_gamma=G, **settings).rows(len(chosen)),
        prompt_of(chosen),
        seed,
        row_ids,
    )


@functools.cache
def everything(decoder):
    return decode(decoder, np.arange(B), np.arange(B))


def assert_row_is(result, row, expected, expected_row):
    """Tokens, and for as long as the row was active, all that its steps did."""
    assert result.lengths[row] == expected.lengths[expected_row]
    np.testing.assert_array_equal(result.tokens[row], expected.tokens[expected_row])
    got, want = result.infos, expected.infos
    steps = int((want.num_emitted[:, expected_row] > 0).sum())
    for name in (field.name for field in dataclasses.fields(want)):
        np.testing.assert_array_equal(
            getattr(got, name)[:steps, row], getattr(want, name)[:steps, expected_row]
        )


every_decoder = pytest.mark.parametrize("decoder", DECODERS)


@every_decoder
def test_a_rows_place_in_the_batch_does_not_matter(decoder):
    order = np.array([3, 5, 0, 2, 4, 1])
    result = decode(decoder, order, order)
    for place, row in enumerate(order):
        assert_row_is(result, place, everything(decoder), row)


@every_decoder
def test_a_rows_neighbours_do_not_matter(decoder):
    """Each row among copies of another, whose prompts and settings are unlike."""
    for row in range(B):
        other = (row + 2) % B
        chosen = np.full(B, other)
        chosen[3] = row
        ids = np.arange(100, 100 + B)
        ids[3] = row
        assert_row_is(decode(decoder, chosen, ids), 3, everything(decoder), row)


@every_decoder
def test_the_neighbours_settings_do_not_matter(decoder):
    """Neighbours turn the filters off, the lenience off, and end at once."""
    plain = {
        "gamma": 0,
        "temperature": 0.0,
        "top_k": 0,
        "top_p": 1.0,
        "lenience": 1.0,
        "max_new_tokens": 1,
    }
    for row in range(B):
        overrides = {}
        for name, value in plain.items():
            values = np.array(SETTINGS[name])
            values[np.arange(B) != row] = value
            overrides[name] = values
        result = decode(decoder, np.arange(B), np.arange(B), overrides=overrides)
        assert_row_is(result, row, everything(decoder), row)


def test_alone_in_wider_blocks_and_buffers_it_is_the_same_row():
    """Neither the batch's size nor any other that is compiled in matters."""
    wider = Speculative(MODEL, NeuralDrafter(MODEL), G + 2, M + 3, toys.EOS)
    expected = everything("speculative")
    for row in range(B):
        settings = {name: values[row] for name, values in SETTINGS.items()}
        result = toys.decode(
            wider,
            PAIR,
            jnp.asarray(INPUTS[[row]]),
            DecodeSettings(max_gamma=G + 2, **settings).rows(1),
            prompt_of([row]),
            row_ids=[row],
        )
        assert result.lengths[0] == expected.lengths[row]
        np.testing.assert_array_equal(result.tokens[0, :M], expected.tokens[row])


@every_decoder
def test_equal_rows_with_unlike_ids_draw_differently(decoder):
    result = decode(decoder, np.zeros(B, int), np.arange(B), overrides=HOT)
    assert len({tuple(row) for row in np.asarray(result.tokens).tolist()}) == B


@every_decoder
def test_equal_rows_with_equal_ids_draw_the_same(decoder):
    result = decode(decoder, np.zeros(B, int), np.full(B, 7))
    assert len({tuple(row) for row in np.asarray(result.tokens).tolist()}) == 1


@every_decoder
def test_a_seed_repeats_and_another_does_not(decoder):
    chosen = np.zeros(B, int)
    first = decode(decoder, chosen, np.arange(B), 5, HOT)
    again = decode(decoder, chosen, np.arange(B), 5, HOT)
    other = decode(decoder, chosen, np.arange(B), 6, HOT)
    for row in range(B):
        assert_row_is(again, row, first, row)
    assert (np.asarray(other.tokens) != np.asarray(first.tokens)).any(axis=1).all()


@every_decoder
def test_steps_without_jit_give_what_the_jitted_loop_gives(decoder):
    wanted = everything(decoder).infos
    rows = DecodeSettings(max_gamma=G, **SETTINGS).rows(B)
    decoder, params = DECODERS[decoder]
    state = decoder.init(params, jnp.asarray(INPUTS), prompt_of(np.arange(B)))
    for step in range(3):
        state, info = decoder.step(toys.keys(B), state, params, rows)
        for name in (field.name for field in dataclasses.fields(info)):
            np.testing.assert_array_equal(
                getattr(info, name), getattr(wanted, name)[step]
            )
            np.testing.assert_array_equal(
                getattr(info, name), getattr(state.infos, name)[step]
            )


def test_a_t5s_row_does_not_depend_on_its_neighbours_or_their_padding():
    """In every order, and each among copies of the next."""
    model, params = toys.tiny_t5()
    pair = PairParams(params, toys.similar_params(params, 1, noise=0.05))
    decoder = Speculative(model, NeuralDrafter(model), 8, 11, toys.EOS)
    texts = toys.encoder_inputs(0, (7, 2, 5, 1, 6), width=7)

    def decode_rows(chosen):
        chosen = np.array(chosen)
        settings = DecodeSettings(
            gamma=8 - 2 * (chosen % 4),
            temperature=0.5 + 0.2 * chosen,
            max_gamma=8,
            max_new_tokens=11,
        )
        inputs = jax.tree.map(lambda x: x[chosen], texts)
        return toys.decode(decoder, pair, inputs, settings.rows(5), row_ids=chosen)

    together = decode_rows(range(5))
    for chosen in [(4, 2, 0, 3, 1), *([row, *[(row + 1) % 5] * 4] for row in range(5))]:
        result = decode_rows(chosen)
        for place, row in enumerate(chosen):
            assert result.lengths[place] == together.lengths[row]
            np.testing.assert_array_equal(result.tokens[place], together.tokens[row])
