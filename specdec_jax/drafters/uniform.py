"""The drafter that knows nothing: every id is as likely as any other."""

import dataclasses

import jax.numpy as jnp

from specdec_jax.decoding.contracts import Draw, Proposal
from specdec_jax.drafters.base import RuleBasedDrafter
from specdec_jax.sampling import Warp, standardize_rows
from specdec_jax.typing import Array, Int32, Params


@dataclasses.dataclass(frozen=True)
class UniformDrafter(RuleBasedDrafter):
    """Draws from equal logits, standardized as the target's are.

    So q is 1 / vocab_size at every temperature but 0, where it is one-hot at the lowest
    id, as every argmax of a tie is.
    """

    def propose(
        self,
        params: Params,
        state: tuple[()],
        draw: Draw,
        warp: Warp,
        gamma: Int32[Array, " B"],
    ) -> tuple[Proposal, tuple[()]]:
        batch, width = gamma.shape[0], draw.max_gamma
        logits = jnp.zeros((batch, 1, self.padded_vocab_size))
        q = standardize_rows(logits, warp, self.vocab_size)
        tokens = jnp.stack([draw(q[:, 0], i) for i in range(width)], axis=1)
        probs = jnp.broadcast_to(q, (batch, width, self.padded_vocab_size))
        return Proposal(tokens, probs, num_drafted=gamma), state
