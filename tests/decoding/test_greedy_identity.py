"""At temperature 0 the output is the baseline's, token for token, in float32."""

import dataclasses

import numpy as np
import pytest

from specdec_jax.decoding.autoregressive import Autoregressive
from specdec_jax.decoding.settings import DecodeSettings
from specdec_jax.decoding.speculative import PairParams, Speculative
from specdec_jax.decoding.statistics import statistics
from specdec_jax.drafters.constant import ConstantDrafter
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


def decode_tables(batch, gamma, max_gamma, drafter, seed):
    """Speculative and baseline, with inputs that make each row another model."""
    inputs = toys.random_inputs(seed, batch, VOCAB)
    rows = unlike_rows(gamma, max_gamma, CAPS, batch)
    speculative = Speculative(MODEL, drafter, max_gamma, CAPS[0], toys.EOS)
    baseline = Autoregressive(MODEL, CAPS[0], toys.EOS)
    out = toys.decode(speculative, TABLES, inputs, rows)
    base = toys.decode(baseline, TABLES.target, inputs, rows)
    return inputs, out, base


@pytest.mark.parametrize(
    "batch, max_gamma, gamma",
    [
        (batch, max_gamma, gamma)
        for batch, max_gamma in [(1, 8), (2, 3), (3, 1), (4, 2), (5, 8)]
        for gamma in range(max_gamma + 1)
    ],
)
def test_table_models_output_is_the_baselines(batch, max_gamma, gamma):
    drafter = NeuralDrafter(MODEL)
    _, out, base = decode_tables(batch, gamma, max_gamma, drafter, seed=10 + gamma)
    assert_equal_output(out, base)
    assert_counts_add_up(out)


def test_the_baseline_is_the_argmax_of_the_model():
    inputs, _, base = decode_tables(5, 4, 8, NeuralDrafter(MODEL), seed=3)
    for row, add in enumerate(np.asarray(inputs)):
        law = reference.table_law(TABLE, add, temperature=0)
        expected = reference.greedy(law, [0], CAPS[row], toys.EOS)
        length = int(base.lengths[row])
        assert np.asarray(base.tokens)[row, :length].tolist() == expected
        assert (np.asarray(base.tokens)[row, length:] == 0).all()


def test_a_useless_drafter_changes_nothing():
    drafter = ConstantDrafter(VOCAB, VOCAB, token=4)
    _, out, base = decode_tables(5, 7, 8, drafter, seed=4)
    assert_equal_output(out, base)
    assert_counts_add_up(out)


def test_some_guesses_stand_and_some_do_not():
    """The cases above are worth something only if both happen, at every width."""
    drafter = NeuralDrafter(MODEL)
    seen = set()
    for seed in range(10, 19):
        _, out, _ = decode_tables(5, 8, 8, drafter, seed)
        steps = int(out.num_steps)
        wide = np.asarray(out.infos.gamma)[:steps] == 8
        seen |= set(np.asarray(out.infos.num_accepted)[:steps][wide].tolist())
    assert {0, 8} <= seen and len(seen) >= 5


@dataclasses.dataclass(frozen=True)
class T5Case:
    """A target of two layers and a drafter that is the target, shaken."""

    batch: int
    max_gamma: int

    def decode(self, gamma, seed=0):
        model, params = toys.tiny_t5()
        pair = PairParams(params, toys.similar_params(params, 1, noise=0.05))
        inputs = toys.encoder_inputs(seed, (7, 2, 5, 1, 6)[: self.batch], width=7)
        rows = unlike_rows(gamma, self.max_gamma, T5_CAPS, self.batch)
        drafter = NeuralDrafter(model)
        args = (T5_CAPS[0], toys.EOS)
        speculative = Speculative(model, drafter, self.max_gamma, *args)
        out = toys.decode(speculative, pair, inputs, rows)
        return out, toys.decode(Autoregressive(model, *args), params, inputs, rows)


@pytest.mark.parametrize(
    "case, gamma",
    [
        (case, gamma)
        for case in (T5Case(5, 8), T5Case(2, 3))
        for gamma in range(case.max_gamma + 1)
    ],
    ids=str,
)
def test_t5s_output_is_the_baselines(case, gamma):
    for seed in range(5):
        out, base = case.decode(gamma, seed)
        assert_equal_output(out, base)
        assert_counts_add_up(out)


def test_some_guesses_of_a_t5_stand_and_some_do_not():
    seen, ids = set(), set()
    for seed in range(5):
        out, _ = T5Case(5, 8).decode(4, seed)
        stats = statistics(out).total()
        seen.add((bool(stats.accepted > 0), bool(stats.rejected > 0)))
        ids |= set(np.asarray(out.tokens).ravel().tolist())
    assert (True, True) in seen
    assert len(ids) > 10
