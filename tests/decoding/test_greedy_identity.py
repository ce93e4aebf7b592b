"""At temperature 0 the output is the baseline's, token for token, in float32."""

import jax.numpy as jnp
import numpy as np
import pytest

from specdec_jax.decoding.autoregressive import Autoregressive
from specdec_jax.decoding.settings import DecodeSettings
from specdec_jax.decoding.speculative import PairParams, Speculative
from specdec_jax.decoding.statistics import statistics
from specdec_jax.drafters.neural import NeuralDrafter
from tests import reference
from tests import toy_models as toys

VOCAB = 9
CAPS = (17, 3, 12, 1, 16)  # of the rows; the first is the size of the buffers
TABLE = toys.random_table(1, VOCAB, 3.0)
TABLES = PairParams(
    toys.table_params(TABLE),
    toys.table_params(toys.similar_table(TABLE, 2, noise=1.5)),
)
MODEL = toys.table_model(VOCAB)
T5_CAPS = (11, 11, 4, 7, 10)


def unlike_rows(gamma, max_gamma, caps, batch):
    """Row 0 has this gamma; the others have others, up to the largest."""
    gammas = [(gamma + 3 * row) % (max_gamma + 1) for row in range(batch)]
    settings = DecodeSettings(
        gamma=gammas, max_gamma=max_gamma, max_new_tokens=caps[:batch]
    )
    return settings.rows(batch)


def assert_equal_output(out, base):
    np.testing.assert_array_equal(out.tokens, base.tokens)
    np.testing.assert_array_equal(out.lengths, base.lengths)


def assert_counts_add_up(out):
    stats = statistics(out)
    assert (stats.target_calls <= stats.tokens).all()
    np.testing.assert_array_equal(stats.tokens, out.lengths)
    np.testing.assert_array_equal(out.infos.num_emitted.sum(axis=0), out.lengths)


def decode_tables(batch, gamma, max_gamma, seed):
    """Rows that are each another model, by their inputs."""
    inputs = toys.random_inputs(seed, batch, VOCAB)
    rows = unlike_rows(gamma, max_gamma, CAPS, batch)
    drafter = NeuralDrafter(MODEL)
    decoder = Speculative(MODEL, drafter, max_gamma, CAPS[0], toys.EOS)
    return inputs, toys.decode(decoder, TABLES, inputs, rows)


def assert_is_the_models_argmax(out, inputs, table=TABLE):
    for row, add in enumerate(np.asarray(inputs)):
        law = reference.table_law(table, add, temperature=0)
        expected = reference.greedy(law, [0], CAPS[row], toys.EOS)
        length = int(out.lengths[row])
        assert np.asarray(out.tokens)[row, :length].tolist() == expected
        assert (np.asarray(out.tokens)[row, length:] == 0).all()


@pytest.mark.parametrize(
    "batch, max_gamma, gamma",
    [
        (batch, max_gamma, gamma)
        for batch, max_gamma in [(1, 8), (2, 3), (3, 1), (4, 2), (5, 8)]
        for gamma in range(max_gamma + 1)
    ],
)
def test_table_models_output_is_their_argmax(batch, max_gamma, gamma):
    inputs, out = decode_tables(batch, gamma, max_gamma, seed=10 + gamma)
    assert_is_the_models_argmax(out, inputs)
    assert_counts_add_up(out)


def test_the_baselines_output_is_the_argmax_too():
    baseline = Autoregressive(MODEL, CAPS[0], toys.EOS)
    for seed in range(10, 19):
        inputs = toys.random_inputs(seed, 5, VOCAB)
        rows = unlike_rows(0, 8, CAPS, 5)
        base = toys.decode(baseline, TABLES.target, inputs, rows)
        assert_is_the_models_argmax(base, inputs)
        assert_counts_add_up(base)
        _, out = decode_tables(5, 8, 8, seed)
        assert_equal_output(out, base)


@pytest.mark.parametrize("gamma", [1, 4, 8])
def test_ties_go_to_the_lowest_id_on_both_sides(gamma):
    """Whole numbers as logits: nearly every place has a tie at its top."""
    table = np.clip(np.round(TABLE), -1, 1)
    assert ((table == table.max(axis=-1, keepdims=True)).sum(axis=-1) > 1).mean() > 0.7
    drafter = np.clip(np.round(toys.similar_table(TABLE, 7, noise=1.0)), -1, 1)
    pair = PairParams(toys.table_params(table), toys.table_params(drafter))
    rows = unlike_rows(gamma, 8, CAPS, 5)
    add = np.random.default_rng(gamma).integers(0, 2, (5, VOCAB))
    inputs = jnp.asarray(add, jnp.float32)
    decoder = Speculative(MODEL, NeuralDrafter(MODEL), 8, CAPS[0], toys.EOS)
    out = toys.decode(decoder, pair, inputs, rows)
    assert_is_the_models_argmax(out, inputs, table)


def test_some_guesses_stand_and_some_do_not():
    """The cases above are worth something only if both happen."""
    seen = set()
    for seed in range(10, 19):
        _, out = decode_tables(5, 8, 8, seed)
        steps = int(out.num_steps)
        wide = np.asarray(out.infos.gamma)[:steps] == 8
        seen |= set(np.asarray(out.infos.num_accepted)[:steps][wide].tolist())
    assert {0, 8} <= seen and len(seen) >= 5


def decode_t5s(gamma, seed):
    """Speculative and baseline; the drafter is the target, shaken."""
    model, params = toys.tiny_t5()
    pair = PairParams(params, toys.similar_params(params, 1, noise=0.05))
    inputs = toys.encoder_inputs(seed, (7, 2, 5, 1, 6), width=7)
    rows = unlike_rows(gamma, 8, T5_CAPS, 5)
    speculative = Speculative(model, NeuralDrafter(model), 8, T5_CAPS[0], toys.EOS)
    baseline = Autoregressive(model, T5_CAPS[0], toys.EOS)
    out = toys.decode(speculative, pair, inputs, rows)
    return out, toys.decode(baseline, params, inputs, rows)


@pytest.mark.parametrize("gamma", range(9))
def test_t5s_output_is_the_baselines(gamma):
    for seed in range(5):
        out, base = decode_t5s(gamma, seed)
        assert_equal_output(out, base)
        assert_counts_add_up(out)


def test_some_guesses_of_a_t5_stand_and_some_do_not():
    ids = set()
    for seed in range(5):
        out, _ = decode_t5s(4, seed)
        total = statistics(out).total()
        assert total.accepted > 5 and total.rejected > 5
        ids |= set(np.asarray(out.tokens).ravel().tolist())
    assert len(ids) > 10
