"""A smaller language model as the drafter: the paper's M_q."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp

from specdec_jax.decoding.contracts import (
    Commit,
    Draw,
    LanguageModel,
    Prompt,
    Proposal,
)
from specdec_jax.decoding.loop import at_index, prefill
from specdec_jax.sampling import Warp, standardize_rows
from specdec_jax.typing import Array, Cache, Int32, Params, PyTree, record


@record
class NeuralDraftState:
    """A cache, and the tokens that it has yet to see.

    After a rejection the cache has seen all but the newest token. When all draft tokens
    were accepted it has not seen the last of them either, for that was only drawn; so
    one or two tokens are pending, and the next block begins by feeding both places.
    """

    cache: Cache
    lengths: Int32[Array, " B"]  # tokens in the cache
    pending: Int32[Array, "B 2"]
    num_pending: Int32[Array, " B"]  # 1 or 2


@dataclasses.dataclass(frozen=True)
class NeuralDrafter:
    """Draws from a language model, standardized as the target is."""

    model: LanguageModel

    taps: ClassVar[tuple[int, ...]] = ()

    @property
    def vocab_size(self) -> int:
        return self.model.vocab_size

    @property
    def max_length(self) -> int | None:
        return self.model.max_length

    def init(
        self,
        params: Params,
        inputs: PyTree,
        context: PyTree,
        prompt: Prompt,
        prompt_features: Array | None,
        slots: int,
    ) -> NeuralDraftState:
        last = at_index(prompt.tokens, prompt.lengths - 1)
        return NeuralDraftState(
            cache=prefill(self.model, params, inputs, prompt, slots).cache,
            lengths=prompt.lengths - 1,
            pending=jnp.stack([last, last], axis=1),
            num_pending=jnp.ones_like(last),
        )

    def propose(
        self,
        params: Params,
        state: NeuralDraftState,
        draw: Draw,
        warp: Warp,
        gamma: Int32[Array, " B"],
    ) -> tuple[Proposal, NeuralDraftState]:
        """Feeds what is pending, then draws x_i ~ q_i one after the other.

        The loop stops at the largest gamma in force of any row. With gamma 0 the
        pending tokens are still fed, so that gamma may grow again.
        """
        batch, width = gamma.shape[0], draw.max_gamma
        if width == 0:
            raise ValueError("a drafter is not asked for blocks of no draft tokens")
        lengths = state.lengths + state.num_pending
        logits, _, cache = self.model.extend(
            params, state.cache, state.pending, state.lengths
        )
        logits = at_index(logits, state.num_pending - 1)[:, None]

        def draft(i, logits, tokens, probs):
            q = standardize_rows(logits, warp, self.vocab_size)
            token = draw(q[:, 0], i)[:, None]
            tokens = jax.lax.dynamic_update_slice(tokens, token, (0, i))
            probs = jax.lax.dynamic_update_slice(probs, q, (0, i, 0))
            return token, tokens, probs

        def body(i, carry):
            cache, token, tokens, probs = carry
            logits, _, cache = self.model.extend(params, cache, token, lengths + i - 1)
            return (cache, *draft(i, logits, tokens, probs))

        # Zeros that depend on the step: constant ones would be made before the decoding
        # loop, and copied in each of its steps.
        zero, _ = jax.lax.optimization_barrier((jnp.float32(0), lengths))
        first = draft(
            0,
            logits,
            jnp.zeros((batch, width), jnp.int32),
            jnp.broadcast_to(zero, (batch, width, logits.shape[-1])),
        )
        cache, _, tokens, probs = jax.lax.fori_loop(
            1, gamma.max(), body, (cache, *first)
        )
        state = state.replace(cache=cache, lengths=lengths)
        return Proposal(tokens, probs, num_drafted=gamma), state

    def commit(
        self, params: Params, state: NeuralDraftState, commit: Commit
    ) -> NeuralDraftState:
        """Forgets rejected tokens by a shorter length, and notes what is pending."""
        n = commit.num_accepted
        # Draft tokens 1 .. gamma - 1 were fed; the last was not.
        seen = jnp.minimum(n, jnp.maximum(commit.gamma - 1, 0))
        newest = at_index(commit.tokens, n)
        before = at_index(commit.tokens, jnp.maximum(n - 1, 0))
        last_unseen = (n == commit.gamma) & (commit.gamma > 0)
        first = jnp.where(last_unseen, before, newest)
        pending = jnp.stack([first, newest], axis=1)
        num_pending = jnp.where(last_unseen, 2, 1)
        on = commit.active
        # A finished row proposed too: it takes back what that fed.
        kept = state.lengths - state.num_pending
        return state.replace(
            lengths=jnp.where(on, state.lengths + seen, kept),
            pending=jnp.where(on[:, None], pending, state.pending),
            num_pending=jnp.where(on, num_pending, state.num_pending),
        )
