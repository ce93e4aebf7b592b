"""Blocks of Algorithm 1 drawn from toy models, by the very rule that the loop uses."""

import dataclasses
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from specdec_jax.sampling import (
    Block,
    TokenRule,
    Use,
    draw,
    position_keys,
    row_keys,
    uniforms,
)
from specdec_jax.sampling.keys import seed_key
from specdec_jax.sampling.laws import Tables
from specdec_jax.sampling.lenience import forced_accept
from specdec_jax.typing import Array, Float32, Int32, Key


@dataclasses.dataclass(frozen=True)
class Samples:
    """N blocks.

    Attributes:
      tokens: [N, G+1], a block's tokens, and the target's own draws after them.
      num_accepted: [N], how many of G draft tokens were accepted.
    """

    tokens: np.ndarray
    num_accepted: np.ndarray


def sample_blocks(
    p: Tables, q: Tables, *, samples: int, seed: int, lenience: float = 1.0
) -> Samples:
    """Draws draft tokens from q, verifies them against p, and goes on with p.

    What is drawn follows `laws.output_law`, and `num_accepted` is n with the
    probability `laws.block_laws(p, q)[n].sum()`.

    Args:
      p, q: G + 1 and G tables, as in `laws.block_laws`.
      samples: N.
      seed: of all draws; sample i has the keys of a row i.
      lenience: l in (0, 1].
    """
    gamma = len(q)
    keys = row_keys(seed_key(seed), jnp.arange(samples, dtype=jnp.int32))
    steps = jnp.zeros(samples, jnp.int32)
    shapes = {
        Use.DRAFT: (gamma,),
        Use.ACCEPT: (gamma,),
        Use.CORRECT: (),
        Use.SAMPLE: (gamma + 1,),
    }
    drawn = [uniforms(keys, use, steps, shape) for use, shape in shapes.items()]
    tables = [[jnp.asarray(x, jnp.float32) for x in side] for side in (p, q)]
    places = jnp.broadcast_to(jnp.arange(gamma + 1), (samples, gamma + 1))
    drawn.append(position_keys(keys, places))
    one = jax.vmap(_one_block, (None, None, None, 0, 0, 0, 0, 0))
    tokens, n = jax.jit(one)(*tables, jnp.float32(lenience), *drawn)
    return Samples(np.asarray(tokens), np.asarray(n))


def _one_block(
    p: Sequence[Array],
    q: Sequence[Array],
    lenience: Float32[Array, ""],
    draft_g: Float32[Array, " G"],
    accept_g: Float32[Array, " G"],
    correct: Float32[Array, ""],
    own: Float32[Array, " G+1"],
    keys: Key[Array, " G+1"],
) -> tuple[Int32[Array, " G+1"], Int32[Array, ""]]:
    """The tokens of a block and of what follows, and how many were accepted."""
    gamma, drafted, p_rows, q_rows = len(q), (), [], []
    for i in range(gamma):
        p_rows.append(p[i][drafted])
        q_rows.append(q[i][drafted])
        drafted += (draw(q_rows[i], draft_g[i]),)
    p_gv, q_gv, tokens_g = jnp.stack(p_rows), jnp.stack(q_rows), jnp.stack(drafted)
    nowhere = jnp.zeros(gamma, bool)
    block = Block(
        target_probs=jnp.concatenate([p_gv, p[gamma][drafted][None]]),
        draft_probs=q_gv,
        draft_tokens=tokens_g,
        gamma=jnp.int32(gamma),
        forced_accept=forced_accept(p_gv, q_gv, tokens_g, accept_g, nowhere, lenience),
        accept_uniforms=accept_g,
        draw_uniform=correct,
        position_keys=keys,
    )
    verdict, emitted = TokenRule().verify(block), ()
    for i in range(gamma + 1):
        token = draw(p[i][emitted], own[i])
        token = jnp.where(i == verdict.num_accepted, verdict.next_token, token)
        if i < gamma:
            token = jnp.where(i < verdict.num_accepted, drafted[i], token)
        emitted += (token,)
    return jnp.stack(emitted), verdict.num_accepted
