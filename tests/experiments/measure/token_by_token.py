"""p and q from the models asked for one token after the other, and numpy's softmax."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

import specdec_jax as sd
from specdec_jax.job import prepare

SLOTS = 32


@functools.partial(jax.jit, static_argnums=0)
def _start(model, params, inputs):
    return model.start(params, inputs, SLOTS)[0]


@functools.partial(jax.jit, static_argnums=0)
def _extend(model, params, cache, token, lengths):
    return model.extend(params, cache, token, lengths)


def probabilities(pair, text, tokens, temperature):
    """(p, q), each [T, V], at each place of an output."""
    inputs = prepare(pair, [text], sd.DecodeSettings(), 0).inputs
    sides = (
        (pair.target, pair.params.target),
        (pair.drafter.model, pair.params.drafter),
    )
    found = []
    for model, params in sides:
        cache, rows = _start(model, params, inputs), []
        for place, token in enumerate([0, *tokens][: len(tokens)]):
            logits, _, cache = _extend(
                model,
                params,
                cache,
                jnp.array([[token]], jnp.int32),
                jnp.array([place], jnp.int32),
            )
            rows.append(np.asarray(logits)[0, 0].astype(np.float64))
        logits = np.array(rows)
        logits[:, model.vocab_size :] = -np.inf
        scaled = (logits - logits.max(axis=1, keepdims=True)) / temperature
        weights = np.exp(scaled)
        found.append(weights / weights.sum(axis=1, keepdims=True))
    return found
