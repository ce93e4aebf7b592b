"""Blocks to verify, made of plain arrays, and the jitted rule."""

import jax
import jax.numpy as jnp
import numpy as np

from specdec_jax.sampling import Block, TokenRule
from specdec_jax.sampling.lenience import betas, forced_accept

LAST = 1 - 2.0**-24  # the largest float32 below 1

AS_USERS = {"xla_backend_optimization_level": 3}  # whatever the tests are run with
verify = jax.jit(TokenRule().verify, compiler_options=AS_USERS)
verify_rows = jax.jit(jax.vmap(TokenRule().verify), compiler_options=AS_USERS)
force_rows = jax.jit(jax.vmap(forced_accept), compiler_options=AS_USERS)
betas_rows = jax.jit(jax.vmap(betas), compiler_options=AS_USERS)


def f32(x):
    return jnp.asarray(x, jnp.float32)


def block(p_rows, q_rows, tokens, uniforms, draw_uniform, **kwargs):
    """Blocks of N rows, or one block if there is no N; all draft tokens in force.

    `lenience` forces what it accepts, as the loop does; `forced_accept` is forced too.
    """
    tokens = np.asarray(tokens, np.int32)
    rows = tokens.shape[:-1]
    fields = dict(
        gamma=np.full(rows, tokens.shape[-1]),
        lenience=np.ones(rows),
        forced_accept=np.zeros(tokens.shape, bool),
    )
    fields = fields | kwargs
    places = (*rows, tokens.shape[-1] + 1)
    made = Block(
        target_probs=f32(p_rows),
        draft_probs=f32(q_rows),
        draft_tokens=jnp.asarray(tokens),
        gamma=jnp.asarray(fields["gamma"], jnp.int32),
        forced_accept=jnp.asarray(fields["forced_accept"], bool),
        accept_uniforms=f32(uniforms),
        draw_uniform=f32(draw_uniform),
        position_keys=jnp.broadcast_to(jax.random.key(0), places),
    )
    return leniently(made, fields["lenience"])


def leniently(made, lenience):
    """The block, or blocks, with what a lenience above temperature 0 forces."""
    if np.all(np.asarray(lenience) == 1):
        return made
    is_one = made.gamma.ndim == 0
    rows = jax.tree.map(lambda x: x[None], made) if is_one else made
    forced = force_rows(
        rows.target_probs[:, :-1],
        rows.draft_probs,
        rows.draft_tokens,
        rows.accept_uniforms,
        jnp.zeros(rows.forced_accept.shape, bool),
        jnp.broadcast_to(f32(lenience), rows.gamma.shape),
    )
    rows = rows.replace(forced_accept=rows.forced_accept | forced)
    return jax.tree.map(lambda x: x[0], rows) if is_one else rows


def random_blocks(seed, rows=8, guesses=4, size=40, density=0.5):
    """Unlike rows: zeros in p and q, any gamma, edge uniforms; and their leniences."""
    rng = np.random.default_rng(seed)

    def distributions(*shape):
        mass = rng.dirichlet(np.full(size, 0.2), shape)
        mass = mass * (rng.random(mass.shape) < density) + 1e-9 * np.eye(size)[0]
        return mass / mass.sum(-1, keepdims=True)

    p = distributions(rows, guesses + 1)
    near = rng.random((rows, guesses, 1)) < 0.7
    q = np.where(near, 0.6 * p[:, :-1], 0) + distributions(rows, guesses)
    q /= q.sum(-1, keepdims=True)
    likely = np.argmax(p[:, :-1] + 0.1 * rng.random(q.shape), axis=-1)
    uniforms = rng.choice([0.0, LAST, 0.2, rng.random()], (rows, guesses))
    leniences = rng.choice([1.0, 0.5, 0.1], rows)
    blocks = block(
        p,
        q,
        np.where(rng.random(likely.shape) < 0.7, likely, rng.integers(size)),
        uniforms,
        rng.choice([0.0, LAST, *rng.random(6)], rows),
        gamma=rng.integers(0, guesses + 1, rows),
        lenience=leniences,
    )
    return blocks, leniences


def law_of_next(p, q, is_bonus):
    left_over = np.maximum(p - q, 0)
    if is_bonus or left_over.sum() == 0:
        return p / p.sum()
    return left_over / left_over.sum()
