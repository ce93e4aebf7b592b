"""Lenience (appendix A.5): draft tokens that are accepted though p and q reject them.

With l < 1 the output is no longer the target's, but no token's probability P(x) is
above p(x)/l. At temperature > 0 a draft token is accepted if r l q(x) < p(x). The paper
leaves the residual open; it stays norm(max(0, p - q)), so that

  P(x) = min(p/l, q) + s max(0, p - q), with s = (1 - sum min(p/l, q)) /
  (1 - sum min(p, q)) <= 1, as min(p/l, q) >= min(p, q).
  If p <= q then P(x) = min(p/l, q) <= p/l; else P(x) <= q + (p - q) = p <= p/l.

At temperature 0 standardized p is one-hot and knows no "almost": the logits are read.
"""

import jax
import jax.numpy as jnp

from specdec_jax.typing import Array, Bool, Float32, Int32


def near_argmax(
    target_logits_gv: Float32[Array, "G V"],
    draft_tokens_g: Int32[Array, " G"],
    temperature: Float32[Array, ""],
    lenience: Float32[Array, ""],
    vocab_size: int,
) -> Bool[Array, " G"]:
    """Lenience at temperature 0: draft tokens almost as likely as the argmax.

    A token passes when softmax(logits)(x) >= l * max, that is logit(x) >= max + log l
    (the paper's printed <= is a misprint). With logits log [.5, .3, .2], l = .5
    passes ids 0 and 1, l = .7 only 0, and l = 1 none: Algorithm 1 alone then passes
    the argmax, and of tied ids only the lowest.

    Args:
      target_logits_gv: [G, V], the target's raw logits that score the draft tokens.
      draft_tokens_g: [G].
      temperature: []; nothing passes above 0, where lenience is in the ratio.
      lenience: [], l in (0, 1].
      vocab_size: ids from here on are padding: they never pass, nor are the maximum.

    Returns:
      [G], true where the token passes whatever the one-hot p says.
    """
    max_gamma, size = target_logits_gv.shape
    is_real_v = jnp.arange(size) < vocab_size
    peak_g = jnp.max(jnp.where(is_real_v[None], target_logits_gv, -jnp.inf), axis=1)
    drafted_g = target_logits_gv[jnp.arange(max_gamma), draft_tokens_g]
    is_close_g = drafted_g >= peak_g + jnp.log(lenience)
    is_on = (temperature == 0) & (lenience < 1)
    return is_on & is_close_g & (draft_tokens_g < vocab_size)


def near_argmax_rows(
    target_logits_bgv: Float32[Array, "B G V"],
    draft_tokens_bg: Int32[Array, "B G"],
    temperature_b: Float32[Array, " B"],
    lenience_b: Float32[Array, " B"],
    vocab_size: int,
) -> Bool[Array, "B G"]:
    """`near_argmax` of B rows; paid for only if some row is lenient at temperature 0.

    Args:
      As there, with an axis of rows in front.
    """

    def compute():
        return jax.vmap(near_argmax, (0, 0, 0, 0, None))(
            target_logits_bgv, draft_tokens_bg, temperature_b, lenience_b, vocab_size
        )

    is_on_b = (temperature_b == 0) & (lenience_b < 1)
    nothing = jnp.zeros(draft_tokens_bg.shape, bool)
    return jax.lax.cond(is_on_b.any(), compute, lambda: nothing)


def forced_accept(
    p_gv: Float32[Array, "G V"],
    q_gv: Float32[Array, "G V"],
    draft_tokens_g: Int32[Array, " G"],
    accept_uniforms_g: Float32[Array, " G"],
    near_argmax_g: Bool[Array, " G"],
    lenience: Float32[Array, ""],
) -> Bool[Array, " G"]:
    """What lenience accepts, whatever the rule says: `Block.forced_accept`.

    Args:
      p_gv, q_gv, draft_tokens_g, accept_uniforms_g: [G, ...], of one stream's block.
      near_argmax_g: [G], from `near_argmax`.
      lenience: [], l in (0, 1]; at 1 nothing is forced.
    """
    index = jnp.arange(draft_tokens_g.shape[0], dtype=jnp.int32)
    q, p = q_gv[index, draft_tokens_g], p_gv[index, draft_tokens_g]
    passes_g = accept_uniforms_g * lenience * q < p
    return (lenience < 1) & (passes_g | near_argmax_g)


def betas(
    p_gv: Float32[Array, "G V"],
    q_gv: Float32[Array, "G V"],
    near_argmax_g: Bool[Array, " G"],
    lenience: Float32[Array, ""],
) -> Float32[Array, " G"]:
    """beta of each draft token: the probability that token verification accepts it.

    sum_x min(p(x)/l, q(x)) (Theorem 3.5 at l = 1), and 1 where `near_argmax` forces it.

    Args:
      As in `forced_accept`.
    """
    overlap_g = jnp.sum(jnp.minimum(p_gv / lenience, q_gv), axis=1)
    return jnp.where(near_argmax_g, 1.0, overlap_g)
