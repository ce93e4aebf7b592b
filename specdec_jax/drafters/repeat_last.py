"""The drafter that guesses the newest token again: a baseline that costs nothing."""

import dataclasses

import jax
import jax.numpy as jnp

from specdec_jax.decoding.contracts import Commit, Prompt, Proposal
from specdec_jax.sampling import Warp
from specdec_jax.typing import Array, Float32, Int32, Params, PyTree


@dataclasses.dataclass(frozen=True)
class RepeatLastDrafter:
    """Guesses each row's newest token, G times; its q is one-hot.

    Its state is those tokens, [B].

    Attributes:
      vocab_size: of the target.
      padded_vocab_size: V, the width of the target's logits.
    """

    vocab_size: int
    padded_vocab_size: int

    def init(
        self, params: Params, inputs: PyTree, prompt: Prompt, slots: int
    ) -> Int32[Array, " B"]:
        return prompt.tokens[jnp.arange(prompt.tokens.shape[0]), prompt.lengths - 1]

    def propose(
        self,
        params: Params,
        state: Int32[Array, " B"],
        uniforms: Float32[Array, "B G"],
        warp: Warp,
        gamma: Int32[Array, " B"],
    ) -> tuple[Proposal, Int32[Array, " B"]]:
        tokens = jnp.broadcast_to(state[:, None], uniforms.shape)
        q = jax.nn.one_hot(tokens, self.padded_vocab_size)
        return Proposal(tokens, q, num_drafted=gamma), state

    def commit(self, state: Int32[Array, " B"], commit: Commit) -> Int32[Array, " B"]:
        newest = commit.tokens[jnp.arange(state.shape[0]), commit.num_accepted]
        return jnp.where(commit.active, newest, state)
