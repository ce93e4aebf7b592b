"""The drafter that always guesses one token: no use, no cost.

What is left of a speculative step with it is the verify pass, which is how that pass is
timed; and it is as bad a drafter as any, which is how exactness is tested.
"""

import dataclasses
from typing import no_type_check

import jax
import jax.numpy as jnp

from specdec_jax.decoding.contracts import Proposal


@dataclasses.dataclass(frozen=True)
class ConstantDrafter:
    """Guesses `token` everywhere; deterministic, so its q is one-hot.

    Attributes:
      vocab_size: of the target.
      padded_vocab_size: V, the width of the target's logits.
      token: the guess.
    """

    vocab_size: int
    padded_vocab_size: int
    token: int = 0

    def init(self, params, inputs, prompt, slots):
        return ()

    @no_type_check
    def propose(self, params, state, uniforms, warp, gamma):
        tokens = jnp.full(uniforms.shape, self.token, jnp.int32)
        q = jax.nn.one_hot(tokens, self.padded_vocab_size)
        return Proposal(tokens, q, num_drafted=gamma), state

    def commit(self, state, commit):
        return state
