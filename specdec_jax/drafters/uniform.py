"""The drafter that knows nothing: every id is as likely as any other."""

import dataclasses

import jax
import jax.numpy as jnp

from specdec_jax.decoding.contracts import Commit, Prompt, Proposal
from specdec_jax.sampling import Warp, draw, standardize_rows
from specdec_jax.typing import Array, Float32, Int32, Params, PyTree


@dataclasses.dataclass(frozen=True)
class UniformDrafter:
    """Draws guesses from equal logits, standardized as the target's are.

    So q is 1 / vocab_size at every temperature but 0, where it is one-hot at the lowest
    id, as every argmax of a tie is.

    Attributes:
      vocab_size: of the target.
      padded_vocab_size: V, the width of the target's logits.
    """

    vocab_size: int
    padded_vocab_size: int

    def init(
        self, params: Params, inputs: PyTree, prompt: Prompt, slots: int
    ) -> tuple[()]:
        return ()

    def propose(
        self,
        params: Params,
        state: tuple[()],
        uniforms: Float32[Array, "B G"],
        warp: Warp,
        gamma: Int32[Array, " B"],
    ) -> tuple[Proposal, tuple[()]]:
        batch, width = uniforms.shape
        logits = jnp.zeros((batch, 1, self.padded_vocab_size))
        q = standardize_rows(logits, warp, self.vocab_size)
        tokens = jax.vmap(jax.vmap(draw, (None, 0)))(q[:, 0], uniforms)
        probs = jnp.broadcast_to(q, (batch, width, self.padded_vocab_size))
        return Proposal(tokens, probs, num_drafted=gamma), state

    def commit(self, state: tuple[()], commit: Commit) -> tuple[()]:
        return state
