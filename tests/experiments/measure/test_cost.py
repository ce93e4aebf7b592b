import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from specdec_jax.decoding.speculative import PairParams
from specdec_jax.drafters.constant import ConstantDrafter
from specdec_jax.experiments.measure.cost import CostMeter, Costs, predict_speedup
from specdec_jax.job import encode
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


def test_the_parts_of_a_decode_by_hand():
    costs = Costs(
        target=np.array([2.0, 4.0]),
        verify={3: np.array([4.0, 4.0])},
        step={3: np.array([7.0, 3.0])},  # the latter by the clock's noise
        begin={0: np.array([3.0, 6.0]), 3: np.array([2.0, 6.0])},
        draft_alone=np.array([0.5, 1.0]),
    )
    np.testing.assert_allclose(costs.c(3), [0.5, 0.0])
    np.testing.assert_allclose(costs.c_alone(), [0.25, 0.25])
    np.testing.assert_allclose(costs.v(3), [2.0, 1.0])
    np.testing.assert_allclose(costs.once(0), [1.5, 1.5])
    np.testing.assert_allclose(costs.once(3), [1.0, 1.5])


def test_every_part_of_a_decode_is_timed(tiny_pair):
    meter = CostMeter(
        tiny_pair,
        encode(tiny_pair, SENTENCES[:1]) * 2,
        (2,),
        temperature=1.0,
        max_new_tokens=4,
        seed=0,
    )
    assert len(meter) == 0  # what compiling took is no measurement
    for _ in range(5):
        meter.measure()
    assert len(meter) == 5
    costs = meter.costs()
    assert set(costs.verify) == set(costs.step) == {2}
    assert set(costs.begin) == {0, 2}
    for times in (
        *(costs.target, costs.draft_alone),
        *(costs.verify[2], costs.step[2], costs.begin[0]),
    ):
        assert times.shape == (5,)
        assert np.all(times > 0)


@dataclasses.dataclass(frozen=True)
class BusyDrafter(ConstantDrafter):
    """Takes some milliseconds for each draft token."""

    def propose(self, params, state, draw, warp, gamma):
        proposal, state = super().propose(params, state, draw, warp, gamma)
        square = jnp.full((256, 256), draw.uniforms[0, 0] / 256)
        rounds = 8 * draw.max_gamma
        square = jax.lax.fori_loop(0, rounds, lambda _, x: x @ x, square)
        busy = jnp.isnan(square[0, 0]).astype(jnp.int32)  # 0, which XLA cannot know
        return proposal.replace(tokens=proposal.tokens + busy), state


def test_a_draft_token_costs_what_it_adds_to_a_step(tiny_pair):
    target = tiny_pair.target
    busy = dataclasses.replace(
        tiny_pair,
        drafter=BusyDrafter(target.vocab_size, target.padded_vocab_size),
        params=PairParams(tiny_pair.params.target, {}),
    )
    meter = CostMeter(
        busy,
        encode(busy, SENTENCES[:1]),
        (1, 3),
        temperature=0.0,
        max_new_tokens=4,
        seed=0,
    )
    for _ in range(5):
        meter.measure()
    costs = meter.costs()
    assert costs.c_alone() is None
    for gamma in (1, 3):
        # The verify steps are those of another drafter, which costs nothing.
        assert np.median(costs.step[gamma]) > 2 * np.median(costs.verify[gamma])
    one, three = np.median(costs.c(1)), np.median(costs.c(3))
    assert one / 3 < three < 3 * one
