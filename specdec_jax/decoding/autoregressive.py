"""The baseline: one token for each target call."""

import dataclasses

import jax
import jax.numpy as jnp

from specdec_jax.decoding import loop
from specdec_jax.decoding.contracts import LanguageModel, Prompt
from specdec_jax.decoding.state import LoopState, RowSettings, StepInfo
from specdec_jax.sampling import (
    Noise,
    Rule,
    TokenRule,
    Use,
    position_keys,
    standardize_rows,
    uniforms,
)
from specdec_jax.typing import Array, Key, Params, PyTree


@dataclasses.dataclass(frozen=True)
class Autoregressive:
    """Plain decoding with a cache: what speculative decoding is measured against.

    It shares the model, the caches, the sampling maths and the bookkeeping with
    `Speculative`, and is jitted the same way.

    Attributes:
      model: the language model.
      max_new_tokens: M, the size of the buffers; a row's own cap may be lower.
      eos_id: ends a row.
      rule: says how a token is drawn.

    Raises:
      SettingsError: max_new_tokens is below 1.
    """

    model: LanguageModel
    max_new_tokens: int
    eos_id: int
    rule: Rule = TokenRule()

    def __post_init__(self):
        loop.check_max_new_tokens(self.max_new_tokens)

    def init(self, params: Params, inputs: PyTree, prompt: Prompt) -> LoopState:
        """Encodes and prefills.

        Args:
          params: the model's.
          inputs: what its `start` takes.
          prompt: what to go on from.
        """
        slots = loop.slots_needed(prompt, self.max_new_tokens, 0)
        prefilled = loop.prefill(self.model, params, inputs, prompt, slots)
        return loop.begin(prompt, prefilled.cache, None, self.max_new_tokens, 0)

    def step(
        self,
        keys: Key[Array, " B"],
        state: LoopState,
        params: Params,
        rows: RowSettings,
    ) -> tuple[LoopState, StepInfo]:
        """One target call: x ~ p(x | prefix) for every row.

        Args:
          keys: [B], from `sampling.row_keys`; the same in every step, which derives its
            own by its number.
          state: donated by `run`'s callers.
          params, rows: the same in every step.
        """
        batch = state.lengths.shape[0]
        logits, _, cache = self.model.extend(
            params, state.target_cache, state.last_token[:, None], state.lengths
        )
        probs = standardize_rows(logits, rows.warp, self.model.vocab_size)
        steps = jnp.broadcast_to(state.step, batch)
        noise = Noise(
            uniform=uniforms(keys, Use.SAMPLE, steps, ()),
            key=position_keys(keys, state.lengths[:, None] + 1)[:, 0],
        )
        token = loop.by_rows(jax.vmap(self.rule.draw)(probs[:, 0], noise))
        none = jnp.zeros(batch, jnp.int32)
        info = StepInfo(
            drafted=jnp.zeros((batch, 0), jnp.int32),
            gamma=none,
            num_accepted=none,
            next_token=token,
            num_emitted=none + 1,
            betas=jnp.zeros((batch, 0), jnp.float32),
        )
        return loop.advance(
            state, token[:, None], info, rows.max_new_tokens, self.eos_id, cache, None
        )

    def run(
        self,
        keys: Key[Array, " B"],
        state: LoopState,
        params: Params,
        rows: RowSettings,
    ) -> LoopState:
        """Steps until every row is finished."""
        return loop.repeat(lambda state: self.step(keys, state, params, rows), state)
