"""Token verification: Algorithm 1 of the paper."""

import dataclasses
from typing import ClassVar

import jax.numpy as jnp
from jax import lax

from specdec_jax.sampling import numerics
from specdec_jax.sampling.rules.base import Block, Noise, Verdict
from specdec_jax.typing import Array, Float32, Int32


@dataclasses.dataclass(frozen=True)
class TokenRule:
    """Accepts draft tokens one after the other, each with min(1, p(x)/q(x)).

    Lossless for any q: a token is accepted with probability min(p, q), and comes from
    the residual with p - min(p, q).
    """

    name: ClassVar[str] = "token"

    def draw(self, probs_v: Float32[Array, " V"], noise: Noise) -> Int32[Array, ""]:
        """The inverse of the cumulative mass at a uniform number: `numerics.draw`."""
        return numerics.draw(probs_v, noise.uniform)

    def verify(self, block: Block) -> Verdict:
        """The second half of Algorithm 1: accept, first rejection, correction or bonus.

        Draft token i is accepted if r_i q_i(x_i) < p_i(x_i), or if it is forced, and if
        all before it are. The paper rejects at r_i > p/q; the strict form says the same
        (but for a null set) without a division, and never passes a token of p = 0, even
        at r_i = 0 or q = 0.

        Two draft tokens over two letters, p = .5 .5 and q = 1 0 in each row, both draft
        tokens letter 0: with r = (.4, .6) the first is accepted (.4 < .5), the second
        rejected, and the next token is drawn from norm(max(0, p - q)) = 0 1. So letters
        0 1 come out, n = 1. With r = (.4, .4) both are accepted and the next token is
        drawn from p: n = 2, the bonus.

        If p and q agree to the last bit there is no residual; the token comes from p.

        Args:
          block: one stream's.

        Returns:
          The verdict.

        Raises:
          ValueError: the block's shapes do not fit each other.
        """
        p, q, gamma = block.target_probs, block.draft_probs, block.gamma
        (max_gamma, size), drafted = q.shape, block.draft_tokens
        if p.shape != (max_gamma + 1, size) or drafted.shape != (max_gamma,):
            raise ValueError(
                "a block of G draft tokens has target_probs [G+1, V], draft_probs "
                f"[G, V] and draft_tokens [G], got {p.shape}, {q.shape} and "
                f"{drafted.shape}"
            )
        index = jnp.arange(max_gamma, dtype=jnp.int32)
        # n <- min({i - 1 : r_i > p_i(x_i) / q_i(x_i)} and gamma)
        accepted = block.accept_uniforms * q[index, drafted] < p[index, drafted]
        accepted = (accepted | block.forced_accept) & (index < gamma)
        n = jnp.sum(jnp.cumprod(accepted.astype(jnp.int32)))
        # p'(x) <- norm(max(0, p_{n+1} - q_{n+1})) if n < gamma, else p_{n+1}
        p_next = lax.dynamic_index_in_dim(p, n, keepdims=False)
        if max_gamma:  # an array of no rows cannot be indexed, not even in vain
            q_next = lax.dynamic_index_in_dim(q, n, keepdims=False)  # n = G reads G - 1
            p_next = jnp.where(n < gamma, residual(p_next, q_next), p_next)
        return Verdict(num_accepted=n, next_token=self.draw(p_next, block.noise(n)))


def residual(
    p_v: Float32[Array, " V"], q_v: Float32[Array, " V"]
) -> Float32[Array, " V"]:
    """norm(max(0, p - q)), what a rejected token is replaced from; p if that is empty.

    residual([.5, .5], [.75, .25]) is [0, 1].
    """
    return numerics.normalize(jnp.maximum(p_v - q_v, 0.0), fallback_v=p_v)
