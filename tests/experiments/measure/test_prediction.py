import numpy as np
import pytest

from specdec_jax.experiments.measure.cost import Costs, predict_speedup
from specdec_jax.experiments.measure.prediction import CostModel
from specdec_jax.sampling import theory

ALIKE = [np.full(n, 0.8) for n in (5, 9, 30)]


def test_of_betas_all_alike_it_is_the_prediction_without_them():
    costs = CostModel({2: 0.1}, {2: 1.1, 4: 1.3}, {0: 3.0, 2: 4.0, 4: 4.5})
    for gamma, v, once in ((2, 1.1, 4.0), (4, 1.3, 4.5)):
        expected = predict_speedup(0.8, gamma, 0.1, v, [5, 9, 30], (3.0, once))
        assert costs.predict(ALIKE, gamma) == pytest.approx(expected)
    assert costs.predict(ALIKE, 0) == 1


def test_between_known_gammas_costs_are_interpolated():
    costs = CostModel({2: 0.1}, {2: 1.1, 4: 1.3}, {0: 9.0, 2: 4.0, 4: 4.5})
    assert costs.step(1) == pytest.approx(0.1 + 1.05)
    assert costs.step(3) == pytest.approx(0.3 + 1.2)
    # What ours pays once is not mixed with what the baseline does.
    for gamma, v, once in ((3, 1.2, 4.25), (1, 1.05, 4.0)):
        expected = predict_speedup(0.8, gamma, 0.1, v, [5, 9, 30], (9.0, once))
        assert costs.predict(ALIKE, gamma) == pytest.approx(expected)
    with pytest.raises(ValueError, match="v is known up to gamma 4, not 5"):
        costs.predict(ALIKE, 5)


def test_the_order_of_betas_matters():
    """Where guesses stand in a row a wide block pays; where they alternate it does not.

    Both have the same alpha.
    """
    costs = CostModel({2: 0.1}, {gamma: 1.0 for gamma in range(1, 6)})
    in_a_row, in_turn = np.repeat([1.0, 0.0], 12), np.tile([1.0, 0.0], 12)
    # Two runs for the first 12, at gamma 5, and one for each of the others.
    assert costs.predict([in_a_row], 5) == pytest.approx(24 / (14 * 1.5))
    assert costs.predict([in_turn], 5) == pytest.approx(24 / (12 * 1.5))
    assert costs.best_gamma([in_turn]) == 1
    assert costs.best_gamma([np.ones(24)]) == 5


def test_the_best_gamma_of_long_alike_outputs_is_the_papers_with_v():
    v = {gamma: 1 + 0.1 * gamma for gamma in range(1, 9)}
    costs = CostModel({1: 0.02}, v)
    expected = theory.best_gamma(0.8, 0.02, 8, np.array([1.0, *v.values()]))
    assert costs.best_gamma([np.full(400, 0.8)]) == expected == 5
    dear = CostModel({1: 0.9}, dict.fromkeys(v, 2.0))
    assert dear.best_gamma([np.full(400, 0.5)]) == 0


def test_measured_costs_become_their_medians():
    costs = CostModel.from_costs(
        Costs(
            target=np.array([2.0, 2.0, 4.0]),
            verify={3: np.array([4.0, 4.0, 4.0])},
            step={3: np.array([7.0, 7.0, 7.0])},
            begin={0: np.array([4.0, 4.0, 2.0]), 3: np.array([2.0, 2.0, 2.0])},
            draft_alone=None,
        )
    )
    assert (costs.c, costs.v, costs.max_gamma) == ({3: 0.5}, {3: 2.0}, 3)
    assert costs.once == {0: 2.0, 3: 1.0}
