"""Verification: how many guesses stand, and the token that follows (Algorithm 1).

A rule is a value: the loop takes any `VerificationRule` and calls `jax.vmap(rule)`.
`verify_tokens` is the paper's. Another lossless rule is another function of a `Block`.
"""

from typing import Protocol, runtime_checkable

import jax.numpy as jnp
from jax import lax

from specdec_jax.sampling import numerics
from specdec_jax.typing import Array, Bool, Float32, Int32, record


@record
class Block:
    """One stream's drafted block: what a rule sees. Row i is for guess i, from 0.

    p and q are standardized alike, and q is what the guesses were drawn from: one-hot
    for a deterministic drafter.
    """

    target_probs: Float32[Array, "G+1 V"]  # p; row i given the guesses before i
    draft_probs: Float32[Array, "G V"]  # q
    draft_tokens: Int32[Array, " G"]  # x, in [0, V)
    gamma: Int32[Array, ""]  # guesses in force, 0..G; rows from here on are ignored
    lenience: Float32[Array, ""]  # l in (0, 1]; 1 is lossless
    endorsed: Bool[Array, " G"]  # passes whatever p and q say: `endorsed_by_argmax`
    accept_uniforms: Float32[Array, " G"]  # r, in [0, 1)
    draw_uniform: Float32[Array, ""]  # for the one token drawn, in [0, 1)


@record
class Verdict:
    """What a rule decides: `num_accepted` guesses stand, then comes `next_token`."""

    num_accepted: Int32[Array, ""]  # n, in 0..gamma
    next_token: Int32[Array, ""]  # t, the correction, or the bonus if n = gamma
    betas: Float32[Array, " G"]  # the chance that a guess stands: sum_x min(p/l, q), or
    # 1 where it is endorsed; past gamma without meaning


@runtime_checkable
class VerificationRule(Protocol):
    """Judges one stream's block; a batch is `jax.vmap(rule)(blocks)`."""

    def __call__(self, block: Block) -> Verdict: ...


def verify_tokens(block: Block) -> Verdict:
    """The second half of Algorithm 1: accept, first rejection, correction or bonus.

    Guess i stands if r_i * l * q_i(x_i) < p_i(x_i) and all guesses before it stand.
    The paper rejects at r_i > p/q; the strict form says the same (but for a null set)
    without a division, and never passes a token of p = 0, even at r_i = 0 or q = 0.

    Two guesses over two letters, p = .5 .5 and q = 1 0 in each row, both guesses letter
    0: with r = (.4, .6) the first stands (.4 < .5), the second does not, and the next
    token is drawn from norm(max(0, p - q)) = 0 1. So letters 0 1 come out, n = 1. With
    r = (.4, .4) both stand and the next token is drawn from p: n = 2, the bonus.

    Lenience (appendix A.5) at temperature > 0 puts l * q for q in the comparison. The
    paper leaves the residual open; it stays norm(max(0, p - q)), and no token's
    probability P(x) exceeds p(x)/l:
      P(x) = min(p/l, q) + s * max(0, p - q), with s = (1 - sum min(p/l, q)) /
      (1 - sum min(p, q)) <= 1, as min(p/l, q) >= min(p, q).
      If p <= q then P(x) = min(p/l, q) <= p/l; else P(x) <= q + (p - q) = p <= p/l.
    At temperature 0, see `endorsed_by_argmax`.

    If p and q agree to the last bit there is no residual; the token comes from p.

    Args:
      block: one stream's.

    Returns:
      The verdict.

    Raises:
      ValueError: the block's shapes do not fit each other.
    """
    p, q, gamma = block.target_probs, block.draft_probs, block.gamma
    (num_drafted, size), guess = q.shape, block.draft_tokens
    if p.shape != (num_drafted + 1, size) or guess.shape != (num_drafted,):
        raise ValueError(
            "a block of G guesses has target_probs [G+1, V], draft_probs [G, V] and "
            f"draft_tokens [G], got {p.shape}, {q.shape} and {guess.shape}"
        )
    index = jnp.arange(num_drafted, dtype=jnp.int32)
    # n <- min({i - 1 : r_i > p_i(x_i) / q_i(x_i)} and gamma)
    stands = block.accept_uniforms * block.lenience * q[index, guess] < p[index, guess]
    stands = (stands | block.endorsed) & (index < gamma)
    n = jnp.sum(jnp.cumprod(stands.astype(jnp.int32)))
    # p'(x) <- norm(max(0, p_{n+1} - q_{n+1})) if n < gamma, else p_{n+1}
    p_next = lax.dynamic_index_in_dim(p, n, keepdims=False)
    if num_drafted:  # an array of no rows cannot be indexed, not even in vain
        q_next = lax.dynamic_index_in_dim(q, n, keepdims=False)  # n = G reads G - 1
        p_next = jnp.where(n < gamma, residual(p_next, q_next), p_next)
    overlap = jnp.sum(jnp.minimum(p[:-1] / block.lenience, q), axis=1)
    return Verdict(
        num_accepted=n,
        next_token=numerics.draw(p_next, block.draw_uniform),
        betas=jnp.where(block.endorsed, 1.0, overlap),
    )


def residual(
    p_v: Float32[Array, " V"], q_v: Float32[Array, " V"]
) -> Float32[Array, " V"]:
    """norm(max(0, p - q)), what a rejected guess is replaced from; p if that is empty.

    residual([.5, .5], [.75, .25]) is [0, 1].
    """
    return numerics.normalize(jnp.maximum(p_v - q_v, 0.0), fallback_v=p_v)


def endorsed_by_argmax(
    target_logits_gv: Float32[Array, "G V"],
    draft_tokens_g: Int32[Array, " G"],
    temperature: Float32[Array, ""],
    lenience: Float32[Array, ""],
    vocab_size: int,
) -> Bool[Array, " G"]:
    """Lenience at temperature 0 (appendix A.5): guesses almost as likely as the argmax.

    Standardized, p is one-hot and knows no "almost"; so this rule reads the logits. A
    guess passes when softmax(logits)(x) >= l * max, that is logit(x) >= max + log l
    (the paper's printed <= is a misprint). With logits log [.5, .3, .2], l = .5
    endorses ids 0 and 1, l = .7 only 0, and l = 1 none: Algorithm 1 alone then passes
    the argmax, and of tied ids only the lowest.

    Args:
      target_logits_gv: [G, V], the target's raw logits that score the guesses.
      draft_tokens_g: [G].
      temperature: []; nothing is endorsed above 0, where lenience is in the ratio.
      lenience: [], l in (0, 1].
      vocab_size: ids from here on are padding: never endorsed, never the maximum.

    Returns:
      [G], true where the guess passes whatever the one-hot p says.
    """
    num_drafted, size = target_logits_gv.shape
    is_real_v = jnp.arange(size) < vocab_size
    peak_g = jnp.max(jnp.where(is_real_v[None], target_logits_gv, -jnp.inf), axis=1)
    guessed_g = target_logits_gv[jnp.arange(num_drafted), draft_tokens_g]
    is_close_g = guessed_g >= peak_g + jnp.log(lenience)
    is_on = (temperature == 0) & (lenience < 1)
    return is_on & is_close_g & (draft_tokens_g < vocab_size)
