"""Algorithm 1 of the paper, for a batch of rows, in one `lax.while_loop`."""

import dataclasses

import jax
import jax.numpy as jnp

from specdec_jax.decoding import loop
from specdec_jax.decoding.contracts import (
    Commit,
    Drafter,
    Draw,
    LanguageModel,
    Prompt,
    Proposal,
)
from specdec_jax.decoding.state import LoopState, RowSettings, StepInfo
from specdec_jax.errors import PairError, SettingsError
from specdec_jax.sampling import (
    Block,
    Rule,
    TokenRule,
    Use,
    position_keys,
    standardize_rows,
    uniforms,
)
from specdec_jax.sampling.lenience import betas, forced_accept, near_argmax_rows
from specdec_jax.typing import Array, Float32, Int32, Key, Params, PyTree, record


@record
class PairParams:
    """The parameters of both sides."""

    target: Params
    drafter: Params


@dataclasses.dataclass(frozen=True)
class Speculative:
    """A drafter drafts, the target scores the whole block at once, a rule decides.

    The output follows the target's distribution exactly, whatever the drafter is
    (theorem of appendix A.1), as long as the rule is lossless and every row's lenience
    is 1. There is at most one target call for each token that is emitted.

    Attributes:
      target, drafter: of one vocabulary.
      max_gamma: G, the width of a block; a row's own gamma may be lower, and 0.
      max_new_tokens: M, the size of the buffers; a row's own cap may be lower.
      eos_id: ends a row.
      rule: draws tokens and verifies blocks.

    Raises:
      PairError: the drafter's vocabulary is not the target's, or it taps a layer that
        the target does not have.
      SettingsError: max_gamma is below 0, or max_new_tokens below 1.
    """

    target: LanguageModel
    drafter: Drafter
    max_gamma: int
    max_new_tokens: int
    eos_id: int
    rule: Rule = TokenRule()

    def __post_init__(self):
        if self.drafter.vocab_size != self.target.vocab_size:
            raise PairError(
                f"the target has {self.target.vocab_size} tokens and the drafter "
                f"{self.drafter.vocab_size}: speculative decoding needs one vocabulary"
            )
        layers = self.target.num_layers
        if not all(0 <= tap < layers for tap in self.drafter.taps):
            raise PairError(
                f"the drafter taps layers {self.drafter.taps} of the target, which has "
                f"{layers}, from 0"
            )
        if self.max_gamma < 0:
            raise SettingsError(f"max_gamma must be at least 0, not {self.max_gamma}")
        loop.check_max_new_tokens(self.max_new_tokens)

    def init(self, params: PairParams, inputs: PyTree, prompt: Prompt) -> LoopState:
        """Encodes and prefills: the target first, then the drafter, which may read it.

        Args:
          params: of both sides.
          inputs: what the target's `start` and the drafter's `init` take.
          prompt: what to go on from.
        """
        slots = loop.slots_needed(prompt, self.max_new_tokens, self.max_gamma)
        target = loop.prefill(
            self.target, params.target, inputs, prompt, slots, self.drafter.taps
        )
        draft_state = self.drafter.init(
            params.drafter, inputs, target.context, prompt, target.features, slots
        )
        return loop.begin(
            prompt, target.cache, draft_state, self.max_new_tokens, self.max_gamma
        )

    def step(
        self,
        keys: Key[Array, " B"],
        state: LoopState,
        params: PairParams,
        rows: RowSettings,
    ) -> tuple[LoopState, StepInfo]:
        """SpeculativeDecodingStep of Algorithm 1, for every row.

        Args:
          keys: [B], from `sampling.row_keys`; the same in every step, which derives its
            own by its number.
          state: donated by `run`'s callers.
          params, rows: the same in every step.
        """
        steps = jnp.broadcast_to(state.step, state.lengths.shape)
        # The next G + 1 tokens of a row, by their absolute positions.
        place = jnp.arange(self.max_gamma + 1, dtype=jnp.int32)[None]
        noise_keys = position_keys(keys, state.lengths[:, None] + 1 + place)

        # Sample gamma draft tokens x_i ~ q_i from M_q autoregressively.
        wanted = self._gamma_wanted(state, rows)
        draft_uniforms = uniforms(keys, Use.DRAFT, steps, (self.max_gamma,))
        with jax.named_scope("propose"):  # profiles, and estimates, tell the two apart
            proposal, draft_state = self.drafter.propose(
                params.drafter,
                state.draft_state,
                Draw(draft_uniforms, noise_keys[:, :-1], self.rule),
                rows.warp,
                wanted,
            )
        proposal = proposal.replace(
            tokens=loop.by_rows(proposal.tokens),
            num_drafted=loop.by_rows(proposal.num_drafted),
        )
        gamma = jnp.minimum(wanted, proposal.num_drafted)
        # Run M_p once, on the last token and all draft tokens: p_1 .. p_{gamma+1}.
        logits, features, cache = self.target.extend(
            params.target,
            state.target_cache,
            jnp.concatenate([state.last_token[:, None], proposal.tokens], axis=1),
            state.lengths,
            self.drafter.taps,
        )
        # Determine the number of accepted draft tokens n, and one more token.
        block, beta = self._block(
            keys, noise_keys, steps, logits, proposal, gamma, rows
        )
        verdict = jax.tree.map(loop.by_rows, jax.vmap(self.rule.verify)(block))
        # Return prefix + [x_1, .., x_n, t].
        is_next = place == verdict.num_accepted[:, None]
        tokens = jnp.pad(proposal.tokens, ((0, 0), (0, 1)))
        tokens = jnp.where(is_next, verdict.next_token[:, None], tokens)
        # Past its own gamma a row holds what its drafter left there.
        in_force = place[:, :-1] < gamma[:, None]
        info = StepInfo(
            drafted=jnp.where(in_force, proposal.tokens, 0),
            gamma=gamma,
            num_accepted=verdict.num_accepted,
            next_token=verdict.next_token,
            num_emitted=verdict.num_accepted + 1,
            betas=jnp.where(in_force, beta, 0.0),
        )
        commit = Commit(tokens, verdict.num_accepted, gamma, state.active, features)
        return loop.advance(
            state,
            tokens,
            info,
            rows.max_new_tokens,
            self.eos_id,
            cache,
            self.drafter.commit(params.drafter, draft_state, commit),
        )

    def run(
        self,
        keys: Key[Array, " B"],
        state: LoopState,
        params: PairParams,
        rows: RowSettings,
    ) -> LoopState:
        """Steps until every row is finished."""
        return loop.repeat(lambda state: self.step(keys, state, params, rows), state)

    def _gamma_wanted(self, state: LoopState, rows: RowSettings) -> Int32[Array, " B"]:
        """Each row's gamma; fewer when its cap is near, none when it is finished.

        Tokens that could not be emitted are not drafted. This is decided before
        anything of the block is drawn, so it cannot bias it.
        """
        room = rows.max_new_tokens - state.num_emitted - 1
        gamma = jnp.minimum(jnp.minimum(rows.gamma, room), self.max_gamma)
        return jnp.where(state.active, jnp.maximum(gamma, 0), 0)

    def _block(
        self,
        keys: Key[Array, " B"],
        noise_keys: Key[Array, "B G_and_1"],
        steps: Int32[Array, " B"],
        logits: Float32[Array, "B G_and_1 V"],
        proposal: Proposal,
        gamma: Int32[Array, " B"],
        rows: RowSettings,
    ) -> tuple[Block, Float32[Array, "B G"]]:
        """What the rule sees of each row, and the beta of each draft token."""
        p = standardize_rows(logits, rows.warp, self.target.vocab_size)
        q, drafted = proposal.probs, proposal.tokens
        near = near_argmax_rows(
            logits[:, :-1],
            drafted,
            rows.warp.temperature,
            rows.lenience,
            self.target.vocab_size,
        )
        accept_uniforms = uniforms(keys, Use.ACCEPT, steps, (self.max_gamma,))
        # A row that never speculates draws as the baseline does, whoever is beside it.
        use = jnp.where(rows.gamma > 0, Use.CORRECT.value, Use.SAMPLE.value)
        block = Block(
            target_probs=p,
            draft_probs=q,
            draft_tokens=drafted,
            gamma=gamma,
            forced_accept=jax.vmap(forced_accept)(
                p[:, :-1], q, drafted, accept_uniforms, near, rows.lenience
            ),
            accept_uniforms=accept_uniforms,
            draw_uniform=uniforms(keys, use, steps, ()),
            position_keys=noise_keys,
        )
        return block, jax.vmap(betas)(p[:, :-1], q, near, rows.lenience)
