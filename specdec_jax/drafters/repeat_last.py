"""The drafter that drafts the newest token again: a baseline that costs nothing."""

import dataclasses

import jax.numpy as jnp

from specdec_jax.decoding.contracts import Commit, Draw, Prompt, Proposal
from specdec_jax.decoding.loop import at_index
from specdec_jax.drafters.base import RuleBasedDrafter
from specdec_jax.sampling import Warp
from specdec_jax.typing import Array, Int32, Params, PyTree


@dataclasses.dataclass(frozen=True)
class RepeatLastDrafter(RuleBasedDrafter):
    """Drafts each row's newest token, G times; its state is those tokens, [B]."""

    def init(
        self,
        params: Params,
        inputs: PyTree,
        context: PyTree,
        prompt: Prompt,
        prompt_features: Array | None,
        slots: int,
    ) -> Int32[Array, " B"]:
        return at_index(prompt.tokens, prompt.lengths - 1)

    def propose(
        self,
        params: Params,
        state: Int32[Array, " B"],
        draw: Draw,
        warp: Warp,
        gamma: Int32[Array, " B"],
    ) -> tuple[Proposal, Int32[Array, " B"]]:
        shape = (state.shape[0], draw.max_gamma)
        return self.one_hot(jnp.broadcast_to(state[:, None], shape), gamma), state

    def commit(
        self, params: Params, state: Int32[Array, " B"], commit: Commit
    ) -> Int32[Array, " B"]:
        newest = at_index(commit.tokens, commit.num_accepted)
        return jnp.where(commit.active, newest, state)
