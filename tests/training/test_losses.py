import jax
import jax.numpy as jnp
import numpy as np
import pytest

from specdec_jax.sampling import theory
from specdec_jax.training import losses

P = np.array([[[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]]], np.float32)
Q = np.array([[[0.2, 0.6, 0.2], [0.3, 0.3, 0.4]]], np.float32)
WEIGHTS = jnp.array([[1.0, 1.0]])


def test_cross_entropy_is_the_mean_of_minus_log_q():
    loss = losses.cross_entropy(jnp.log(Q), jnp.array([[1, 2]]), WEIGHTS)
    assert loss == pytest.approx(-(np.log(0.6) + np.log(0.4)) / 2, rel=1e-5)


def test_smoothing_spreads_its_share_over_the_vocabulary():
    loss = losses.cross_entropy(jnp.log(Q), jnp.array([[1, 2]]), WEIGHTS, 0.3)
    hard = -(np.log(0.6) + np.log(0.4)) / 2
    even = -np.log(Q).mean()
    assert loss == pytest.approx(0.7 * hard + 0.3 * even, rel=1e-5)


def test_tokens_of_weight_zero_do_not_count():
    loss = losses.cross_entropy(
        jnp.log(Q), jnp.array([[1, 0]]), WEIGHTS.at[0, 1].set(0)
    )
    assert loss == pytest.approx(-np.log(0.6), rel=1e-5)


def test_total_variation_is_one_minus_alpha():
    loss = losses.total_variation(jnp.log(Q), jnp.asarray(P), WEIGHTS)
    assert loss == pytest.approx(1 - theory.beta(P, Q).mean(), rel=1e-5)
    assert loss == pytest.approx(1 - (0.7 + 0.6) / 2, rel=1e-5)


def test_kl_divergence_is_least_at_the_target_and_there_it_is_the_entropy():
    entropy = -(P * np.log(P)).sum(-1).mean()
    at_target = losses.kl_divergence(jnp.log(P), jnp.asarray(P), WEIGHTS)
    elsewhere = losses.kl_divergence(jnp.log(Q), jnp.asarray(P), WEIGHTS)
    assert at_target == pytest.approx(entropy, rel=1e-5)
    assert elsewhere > at_target
    gradient = jax.grad(losses.kl_divergence)(jnp.log(P), jnp.asarray(P), WEIGHTS)
    np.testing.assert_allclose(gradient, 0, atol=1e-6)
