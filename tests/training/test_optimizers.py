import jax.numpy as jnp
import pytest

from specdec_jax.errors import SettingsError
from specdec_jax.training.optimizers import OptimizerConfig


def test_the_learning_rate_warms_up_holds_and_cools_down_to_zero():
    config = OptimizerConfig(learning_rate=2.0, warmup_steps=4, cooldown_steps=10)
    schedule = config.schedule(100)
    expected = {0: 0.0, 2: 1.0, 4: 2.0, 50: 2.0, 90: 2.0, 95: 1.0, 100: 0.0}
    for step, rate in expected.items():
        assert schedule(step) == pytest.approx(rate)


@pytest.mark.parametrize("name", ["adam", "adafactor"])
def test_both_optimizers_step_downhill(name):
    optimizer = OptimizerConfig(name, learning_rate=0.1, warmup_steps=1).build(50)
    params = {"w": jnp.full((4, 4), 3.0)}
    state = optimizer.init(params)
    for _ in range(10):
        updates, state = optimizer.update(params, state, params)
        params = {"w": params["w"] + updates["w"]}
    assert (params["w"] < 3.0).all()


def test_an_unknown_optimizer_is_named():
    with pytest.raises(SettingsError, match="'sgd'"):
        OptimizerConfig("sgd").build(10)
