import numpy as np
import pytest

from specdec_jax.experiments.cost import Costs, measure_costs, predict_speedup
from specdec_jax.generate import encode
from specdec_jax.sampling import theory
from tests.tiny_pairs import SENTENCES


def test_a_prediction_for_long_outputs_without_an_encoder_is_theorem_3_8():
    expected = theory.speedup(0.8, 3, 0.1, 1.2)
    assert predict_speedup(0.8, 3, 0.1, 1.2, [3000]) == pytest.approx(
        expected, rel=1e-3
    )


def test_a_prediction_by_hand():
    # Nothing stands: 4 runs of 2 * .5 + 1 = 2 each, and 1 that is paid once, to 5 + 4.
    assert predict_speedup(0.0, 2, 0.5, 1.0, [4], (5.0, 1.0)) == pytest.approx(1.0)


def test_what_is_paid_once_is_a_decode_of_one_step_less_that_step():
    costs = Costs(
        target=np.array([2.0, 4.0]),
        draft=np.array([1.0, 1.0]),
        verify={3: np.array([4.0, 4.0])},
        one_step={0: np.array([5.0, 10.0]), 3: np.array([9.0, 9.0])},
    )
    np.testing.assert_allclose(costs.c(), [0.5, 0.25])
    np.testing.assert_allclose(costs.v(3), [2.0, 1.0])
    np.testing.assert_allclose(costs.once(0), [1.5, 1.5])
    np.testing.assert_allclose(costs.once(3), [1.0, 0.5])


def test_every_part_of_a_decode_is_timed(tiny_pair):
    ticks = []
    costs = measure_costs(
        tiny_pair,
        encode(tiny_pair, SENTENCES[:1])[0],
        (1, 2),
        temperature=1.0,
        max_new_tokens=4,
        steps=3,
        seed=0,
        tick=lambda done, total: ticks.append(done / total),
    )
    assert set(costs.verify) == {1, 2}
    assert set(costs.one_step) == {0, 1, 2}
    for times in (costs.target, costs.draft, costs.verify[2], costs.one_step[0]):
        assert times.shape == (10,)
        assert np.all(times > 0)
    # Encoding, and calls from Python: a decode of one step is more than that step.
    assert np.median(costs.once(0)) > 0
    assert ticks[-1] == 1
