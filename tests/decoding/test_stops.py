"""EOS and caps, wherever in a block they come."""

import numpy as np
import pytest

from specdec_jax.decoding.autoregressive import Autoregressive
from specdec_jax.decoding.settings import DecodeSettings
from specdec_jax.decoding.speculative import PairParams, Speculative
from specdec_jax.drafters.neural import NeuralDrafter
from tests import toy_models as toys

V, G, M = 12, 4, 14
MODEL = toys.table_model(V)
NEURAL = NeuralDrafter(MODEL)
STARTS = np.arange(2, V)  # row b starts at 2 + b


def counting_table(after_last: int) -> np.ndarray:
    """s, s + 1, ..., V - 1, and then `after_last`."""
    following = np.append(np.arange(1, V), after_last)
    return 20.0 * np.eye(V)[np.broadcast_to(following, (V, V))]


# A row that starts at s gives s + 1, ..., V - 1, EOS: the EOS at every place.
COUNTS_TO_EOS = toys.table_params(counting_table(toys.EOS))
# A drafter that is right but for the EOS, which it never sees coming.
FORGETS_EOS = toys.table_params(counting_table(5))
# A drafter that sees EOS everywhere.
ONLY_EOS = toys.table_params(20.0 * np.eye(V)[np.ones((V, V), int)])
# A target that comes round again and never ends.
NEVER_ENDS = toys.table_params(counting_table(2))


def decode(drafter_params, rows, target=COUNTS_TO_EOS, **changes):
    settings = {"max_gamma": G, "max_new_tokens": M, "eos_id": toys.EOS} | changes
    decoder = Speculative(MODEL, NEURAL, **settings)
    pair = PairParams(target, drafter_params)
    batch = rows.gamma.shape[0]
    prompt = toys.prompt_of(*[[int(start)] for start in STARTS[:batch]])
    return toys.decode(decoder, pair, toys.no_inputs(batch, V), rows, prompt)


def expected_tokens(start, cap=M):
    return [*range(start + 1, V), toys.EOS][:cap]


def assert_rows(out, caps):
    for row, (start, cap) in enumerate(zip(STARTS, caps, strict=True)):
        expected = expected_tokens(int(start), int(cap))
        padded = expected + [0] * (out.tokens.shape[1] - len(expected))
        assert np.asarray(out.tokens)[row].tolist() == padded
        assert out.lengths[row] == len(expected)


def places_of_eos(out):
    """(how EOS came, its place in its block, the row's gamma) of every row."""
    emitted = np.asarray(out.infos.num_emitted)
    for row in range(emitted.shape[1]):
        step = np.flatnonzero(emitted[:, row])[-1]
        place = int(emitted[step, row]) - 1
        n = int(out.infos.num_accepted[step, row])
        gamma = int(out.infos.gamma[step, row])
        own = "bonus" if n == gamma else "correction"
        yield ("guess" if place < n else own), place, gamma


def seen_places(drafter_params, gamma):
    rows = DecodeSettings(gamma=gamma, max_gamma=G, max_new_tokens=M).rows(len(STARTS))
    out = decode(drafter_params, rows)
    assert_rows(out, [M] * len(STARTS))
    return {(how, place) for how, place, g in places_of_eos(out) if g == gamma}


@pytest.mark.parametrize("gamma", range(G + 1))
def test_eos_ends_a_row_at_every_place_of_a_block_as_guess_or_bonus(gamma):
    expected = {("guess", place) for place in range(gamma)} | {("bonus", gamma)}
    assert seen_places(COUNTS_TO_EOS, gamma) == expected


@pytest.mark.parametrize("gamma", range(G + 1))
def test_eos_ends_a_row_at_every_place_of_a_block_as_correction_or_bonus(gamma):
    expected = {("correction", place) for place in range(gamma)} | {("bonus", gamma)}
    assert seen_places(FORGETS_EOS, gamma) == expected


@pytest.mark.parametrize("gamma", range(1, G + 1))
def test_a_rejected_eos_does_not_end_the_row(gamma):
    assert seen_places(ONLY_EOS, gamma) == {("guess", 0)}


@pytest.mark.parametrize("gamma", range(1, G + 1))
def test_guesses_after_an_eos_are_not_emitted(gamma):
    """This drafter goes on with EOS, EOS, ... and the target would agree."""
    table = counting_table(toys.EOS)
    table[:, toys.EOS] = 20.0 * np.eye(V)[toys.EOS]
    rows = DecodeSettings(gamma=gamma, max_gamma=G, max_new_tokens=M).rows(len(STARTS))
    params = toys.table_params(table)
    assert_rows(decode(params, rows, target=params), [M] * len(STARTS))


@pytest.mark.parametrize("drafter", ["right", "forgets EOS", "only EOS"])
@pytest.mark.parametrize("cap", range(1, G + 3))
def test_caps_cut_the_baselines_output_and_nothing_else(drafter, cap):
    params = {"right": COUNTS_TO_EOS, "forgets EOS": FORGETS_EOS, "only EOS": ONLY_EOS}
    caps = [cap + (row % 2) * (row + 1) for row in range(len(STARTS))]
    caps = np.minimum(caps, M)
    gammas = [G - row % 3 for row in range(len(STARTS))]
    settings = DecodeSettings(gamma=gammas, max_gamma=G, max_new_tokens=caps)
    out = decode(params[drafter], settings.rows(len(STARTS)))
    assert_rows(out, caps)


def test_a_cap_beyond_the_buffer_ends_at_the_buffer():
    rows = DecodeSettings(gamma=G, max_new_tokens=3 * M).rows(len(STARTS))
    out = decode(NEVER_ENDS, rows, target=NEVER_ENDS)
    assert (np.asarray(out.lengths) == M).all()
    assert_never_ending(out, M)


def assert_never_ending(out, length):
    ring = np.arange(2, V)
    for row in range(out.tokens.shape[0]):
        place = (row + 1 + np.arange(length)) % len(ring)
        assert np.asarray(out.tokens)[row].tolist() == ring[place].tolist()


@pytest.mark.parametrize("drafter", ["right", "only EOS"])
@pytest.mark.parametrize("width, length, eos", [(G, M, toys.EOS), (8, 3, toys.NO_EOS)])
def test_without_eos_a_row_fills_the_buffer_to_its_very_end(
    width, length, eos, drafter
):
    """A block wider than the buffer included: writes near its end have spare places."""
    params = {"right": NEVER_ENDS, "only EOS": ONLY_EOS}[drafter]
    rows = DecodeSettings(gamma=width, max_new_tokens=length).rows(3)
    out = decode(
        params,
        rows,
        target=NEVER_ENDS,
        max_gamma=width,
        max_new_tokens=length,
        eos_id=eos,
    )
    assert_never_ending(out, length)


def test_the_baseline_stops_alike():
    batch = len(STARTS)
    caps = np.arange(1, batch + 1)
    rows = DecodeSettings(max_new_tokens=caps).rows(batch)
    prompt = toys.prompt_of(*[[int(start)] for start in STARTS])
    out = toys.decode(
        Autoregressive(MODEL, M, toys.EOS),
        COUNTS_TO_EOS,
        toys.no_inputs(batch, V),
        rows,
        prompt,
    )
    assert_rows(out, caps)
