"""The drafter that always drafts one token: no use, no cost.

What is left of a speculative step with it is the verify pass, which is how that pass is
timed; and it is as bad a drafter as any, which is how exactness is tested.
"""

import dataclasses

import jax.numpy as jnp

from specdec_jax.decoding.contracts import Draw, Proposal
from specdec_jax.drafters.base import RuleBasedDrafter
from specdec_jax.sampling import Warp
from specdec_jax.typing import Array, Int32, Params


@dataclasses.dataclass(frozen=True)
class ConstantDrafter(RuleBasedDrafter):
    """Drafts `token` everywhere; deterministic, so its q is one-hot.

    Attributes:
      vocab_size, padded_vocab_size: as in the base.
      token: what is drafted.
    """

    token: int = 0

    def propose(
        self,
        params: Params,
        state: tuple[()],
        draw: Draw,
        warp: Warp,
        gamma: Int32[Array, " B"],
    ) -> tuple[Proposal, tuple[()]]:
        shape = (gamma.shape[0], draw.max_gamma)
        return self.one_hot(jnp.full(shape, self.token, jnp.int32), gamma), state
