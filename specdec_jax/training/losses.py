"""What is minimised: references, or a target's own distributions."""

import jax
import jax.numpy as jnp

from specdec_jax.typing import Array, Float32, Int32


def cross_entropy(
    logits: Float32[Array, "B T V"],
    targets: Int32[Array, "B T"],
    weights: Float32[Array, "B T"],
    label_smoothing: float = 0.0,
) -> Float32[Array, ""]:
    """Mean cross-entropy of the reference tokens, in nats.

    With smoothing s the reference distribution is (1 - s) at the token and s spread
    evenly over the vocabulary.
    """
    log_probs = jax.nn.log_softmax(logits)
    taken = jnp.take_along_axis(log_probs, targets[..., None], axis=-1)[..., 0]
    loss = -(1 - label_smoothing) * taken
    if label_smoothing:
        loss = loss - label_smoothing * log_probs.mean(axis=-1)
    return weighted_mean(loss, weights)


def kl_divergence(
    logits: Float32[Array, "B T V"],
    target_probs: Float32[Array, "B T V"],
    weights: Float32[Array, "B T"],
) -> Float32[Array, ""]:
    """Mean KL(p || q) up to the entropy of p, in nats: sum_x -p(x) log q(x)."""
    loss = -jnp.sum(target_probs * jax.nn.log_softmax(logits), axis=-1)
    return weighted_mean(loss, weights)


def total_variation(
    logits: Float32[Array, "B T V"],
    target_probs: Float32[Array, "B T V"],
    weights: Float32[Array, "B T"],
) -> Float32[Array, ""]:
    """Mean D_LK = 1 - sum_x min(p(x), q(x)): one minus alpha (paper, Theorem 3.5)."""
    overlap = jnp.minimum(target_probs, jax.nn.softmax(logits)).sum(axis=-1)
    return weighted_mean(1 - overlap, weights)


def weighted_mean(
    values: Float32[Array, "B T"], weights: Float32[Array, "B T"]
) -> Float32[Array, ""]:
    """Mean over the tokens that count."""
    return jnp.sum(values * weights) / jnp.maximum(weights.sum(), 1.0)
