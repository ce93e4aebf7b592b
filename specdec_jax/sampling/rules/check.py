"""Whether a rule of one's own keeps to the contract, before a loop is compiled."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from specdec_jax.errors import SettingsError, one_line
from specdec_jax.sampling.keys import position_keys, row_keys, seed_key
from specdec_jax.sampling.rules.base import Block, Rule, Verdict
from specdec_jax.sampling.rules.token import TokenRule
from specdec_jax.typing import Any, Array

BLOCKS = 8
GAMMA = 2


@functools.lru_cache(maxsize=32)
def check_rule(rule: Rule, vocab_size: int, padded_vocab_size: int) -> None:
    """Judges a few random blocks, of 0 to 2 draft tokens, and looks at the verdicts.

    Whether it is lossless is not seen from so few.

    Args:
      rule: to check; ours are not.
      vocab_size, padded_vocab_size: of the target.

    Raises:
      SettingsError: it fails, or gives something else than the contract says.
    """
    if isinstance(rule, TokenRule):
        return
    name = type(rule).__name__

    def judged(blocks):
        verdicts = jax.vmap(lambda block: _verdict(name, rule.verify(block)))(blocks)
        noise = jax.vmap(lambda block: block.noise(jnp.int32(0)))(blocks)
        drawn = jax.vmap(lambda p, n: _token(name, "draw", rule.draw(p, n)))(
            blocks.target_probs[:, 0], noise
        )
        return verdicts, drawn

    try:
        blocks = _blocks(padded_vocab_size, vocab_size)
        verdicts, drawn = jax.tree.map(np.asarray, jax.jit(judged)(blocks))
    except SettingsError:
        raise
    except Exception as error:  # the rule is somebody's own code
        reason = one_line(error)
        raise SettingsError(
            f"the rule {name} fails: {type(error).__name__}: {reason}"
        ) from error
    count, gamma = verdicts.num_accepted, np.asarray(blocks.gamma)
    if (count < 0).any() or (count > gamma).any():
        wrong = int(np.argmax((count < 0) | (count > gamma)))
        raise SettingsError(
            f"{name}.verify gave num_accepted = {count[wrong]} for a block with gamma ="
            f" {gamma[wrong]}: it must be from 0 to block.gamma"
        )
    for what, ids in (("verify", verdicts.next_token), ("draw", drawn)):
        if ids.min() < 0 or ids.max() >= vocab_size:
            raise SettingsError(
                f"{name}.{what} gave the ids {sorted(set(ids.tolist()))}: ids are from "
                f"0 to {vocab_size - 1}"
            )


def _verdict(name: str, found: Any) -> Verdict:
    if not isinstance(found, Verdict):
        raise SettingsError(
            f"{name}.verify must return a Verdict(num_accepted, next_token), and "
            f"returned {type(found).__name__}"
        )
    return Verdict(
        _token(name, "verify's num_accepted", found.num_accepted),
        _token(name, "verify's next_token", found.next_token),
    )


def _token(name: str, what: str, found: Any) -> Array:
    found = jnp.asarray(found)
    if found.shape != () or found.dtype != jnp.int32:
        raise SettingsError(
            f"{name}.{what} must be one int32, and is {found.dtype} {list(found.shape)}"
        )
    return found


def _blocks(padded: int, real: int) -> Block:
    """Random ones, of the real ids; each draft token has some of q."""
    random = np.random.default_rng(0)
    probs = np.zeros((BLOCKS, 2 * GAMMA + 1, padded), np.float32)
    probs[..., :real] = random.dirichlet(np.ones(real), probs.shape[:2])
    rows = row_keys(seed_key(0), jnp.arange(BLOCKS, dtype=jnp.int32))
    places = np.broadcast_to(np.arange(GAMMA + 1, dtype=np.int32), (BLOCKS, GAMMA + 1))
    return Block(
        target_probs=jnp.asarray(probs[:, : GAMMA + 1]),
        draft_probs=jnp.asarray(probs[:, GAMMA + 1 :]),
        draft_tokens=jnp.asarray(random.integers(0, real, (BLOCKS, GAMMA)), jnp.int32),
        gamma=jnp.arange(BLOCKS, dtype=jnp.int32) % (GAMMA + 1),
        forced_accept=jnp.zeros((BLOCKS, GAMMA), bool),
        accept_uniforms=jnp.asarray(random.random((BLOCKS, GAMMA)), jnp.float32),
        draw_uniform=jnp.asarray(random.random(BLOCKS), jnp.float32),
        position_keys=position_keys(rows, jnp.asarray(places)),
    )
