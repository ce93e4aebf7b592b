"""Algorithm 1 of the paper, for a batch of rows, in one `lax.while_loop`."""

import dataclasses

import jax
import jax.numpy as jnp

from specdec_jax.decoding import state as loop
from specdec_jax.decoding.contracts import Commit, Drafter, LanguageModel, Prompt
from specdec_jax.decoding.state import LoopState, RowSettings, StepInfo
from specdec_jax.errors import PairError, SettingsError
from specdec_jax.sampling import (
    Block,
    Use,
    VerificationRule,
    endorsed_by_argmax,
    standardize_rows,
    uniforms,
    verify_tokens,
)
from specdec_jax.typing import Array, Bool, Float32, Int32, Key, Params, PyTree, record


@record
class PairParams:
    """The parameters of both sides."""

    target: Params
    drafter: Params


@dataclasses.dataclass(frozen=True)
class Speculative:
    """A drafter guesses, the target scores all guesses at once, a rule decides.

    The output follows the target's distribution exactly, whatever the drafter is
    (Theorem of appendix A.1), as long as every row's lenience is 1. The target runs at
    most once for each token that is emitted.

    Attributes:
      target, drafter: of one vocabulary.
      max_gamma: G, the width of a block; a row's own gamma may be lower, and 0.
      max_new_tokens: M, the size of the buffers; a row's own cap may be lower.
      eos_id: ends a row.
      rule: what decides; another lossless rule may stand in.

    Raises:
      PairError: the drafter's vocabulary is not the target's.
      SettingsError: max_gamma is below 0, or max_new_tokens below 1.
    """

    target: LanguageModel
    drafter: Drafter
    max_gamma: int
    max_new_tokens: int
    eos_id: int
    rule: VerificationRule = verify_tokens

    def __post_init__(self):
        if self.drafter.vocab_size != self.target.vocab_size:
            raise PairError(
                f"the target has {self.target.vocab_size} tokens and the drafter "
                f"{self.drafter.vocab_size}: speculative decoding needs one vocabulary"
            )
        if self.max_gamma < 0:
            raise SettingsError(f"max_gamma must be at least 0, not {self.max_gamma}")
        loop.check_max_new_tokens(self.max_new_tokens)

    def init(self, params: PairParams, inputs: PyTree, prompt: Prompt) -> LoopState:
        """Encodes and prefills, each model for itself.

        Args:
          params: of both sides.
          inputs: what the target's `start` and the drafter's `init` take.
          prompt: what to go on from.
        """
        slots = loop.slots_needed(prompt, self.max_new_tokens, self.max_gamma)
        draft_state = self.drafter.init(params.drafter, inputs, prompt, slots)
        return loop.begin(
            self.target,
            params.target,
            inputs,
            prompt,
            self.max_new_tokens,
            self.max_gamma,
            draft_state,
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
        batch, width = state.lengths.shape[0], self.max_gamma
        steps = jnp.broadcast_to(state.step, batch)
        gamma = self._gamma_wanted(state, rows)

        # Sample gamma guesses x_i ~ q_i from M_q autoregressively.
        proposal, draft_state = self.drafter.propose(
            params.drafter,
            state.draft_state,
            uniforms(keys, Use.DRAFT, steps, (width,)),
            rows.warp,
            gamma,
        )
        gamma = jnp.minimum(gamma, proposal.num_drafted)
        # A row that never speculates draws as the baseline does, whoever is beside it.
        use = jnp.where(rows.gamma > 0, Use.CORRECT.value, Use.SAMPLE.value)
        # Run M_p once, on the last token and all guesses: p_1 .. p_{gamma+1}.
        logits, features, cache = self.target.extend(
            params.target,
            state.target_cache,
            jnp.concatenate([state.last_token[:, None], proposal.tokens], axis=1),
            state.lengths,
        )
        # Determine the number of accepted guesses n, and one more token.
        verdict = jax.vmap(self.rule)(
            Block(
                target_probs=standardize_rows(
                    logits, rows.warp, self.target.vocab_size
                ),
                draft_probs=proposal.probs,
                draft_tokens=proposal.tokens,
                gamma=gamma,
                lenience=rows.lenience,
                endorsed=self._endorsed(logits, proposal.tokens, rows),
                accept_uniforms=uniforms(keys, Use.ACCEPT, steps, (width,)),
                draw_uniform=uniforms(keys, use, steps, ()),
            )
        )
        # Return prefix + [x_1, .., x_n, t].
        block = jnp.pad(proposal.tokens, ((0, 0), (0, 1)))
        place = jnp.arange(width + 1, dtype=jnp.int32)[None]
        is_next = place == verdict.num_accepted[:, None]
        block = jnp.where(is_next, verdict.next_token[:, None], block)
        # Past its own gamma a row holds what its drafter left there.
        in_force = place[:, :width] < gamma[:, None]
        info = StepInfo(
            drafted=jnp.where(in_force, proposal.tokens, 0),
            gamma=gamma,
            num_accepted=verdict.num_accepted,
            next_token=verdict.next_token,
            num_emitted=verdict.num_accepted + 1,
            betas=jnp.where(in_force, verdict.betas, 0.0),
        )
        commit = Commit(block, verdict.num_accepted, gamma, state.active, features)
        return loop.advance(
            state,
            block,
            info,
            rows.max_new_tokens,
            self.eos_id,
            cache,
            self.drafter.commit(draft_state, commit),
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

        Guesses that could not be emitted are not made. This is decided before anything
        of the block is drawn, so it cannot bias it.
        """
        room = rows.max_new_tokens - state.num_emitted - 1
        gamma = jnp.minimum(jnp.minimum(rows.gamma, room), self.max_gamma)
        return jnp.where(state.active, jnp.maximum(gamma, 0), 0)

    def _endorsed(
        self,
        logits: Float32[Array, "B G_and_1 V"],
        guesses: Int32[Array, "B G"],
        rows: RowSettings,
    ) -> Bool[Array, "B G"]:
        """Lenience at temperature 0, paid for only if some row has it."""

        def some():
            return jax.vmap(endorsed_by_argmax, (0, 0, 0, 0, None))(
                logits[:, :-1],
                guesses,
                rows.warp.temperature,
                rows.lenience,
                self.target.vocab_size,
            )

        wanted = (rows.warp.temperature == 0) & (rows.lenience < 1)
        return jax.lax.cond(wanted.any(), some, lambda: jnp.zeros(guesses.shape, bool))
