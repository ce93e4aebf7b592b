"""Prompt lookup: drafts what followed the last time the newest tokens occurred.

It needs no parameters and gains where an output repeats its source or itself: editing,
summaries, code, names. What is ours: it copies from a T5's source too.
"""

import dataclasses

import jax
import jax.numpy as jnp

from specdec_jax.decoding.contracts import Commit, Draw, Prompt, Proposal
from specdec_jax.drafters.base import RuleBasedDrafter
from specdec_jax.errors import SettingsError
from specdec_jax.sampling import Warp
from specdec_jax.typing import Array, Callable, Int32, Params, PyTree, record

NOTHING = -1  # no token: it matches none, and a copy ends at it


@record
class PromptLookupState:
    """All that a row can copy from: its source, then its prompt and output.

    C = max_match + E + 1 + S. `NOTHING` is before the source, so that a match never
    reaches past its beginning, in place of its padding, and once after it, so that
    neither a match nor a copy goes on from the source into the output.
    """

    context: Int32[Array, "B C"]
    ends: Int32[Array, " B"]  # places filled: the newest token is the last of them


@dataclasses.dataclass(frozen=True)
class PromptLookupDrafter(RuleBasedDrafter):
    """Drafts what came after an earlier occurrence of the newest tokens.

    Of all places, in the source and in what the row holds so far, where the newest
    tokens occurred before, it takes the one where most of them agree (`max_match` at
    most), the latest of several, and copies what followed. A copy that comes to the
    newest token goes on with its own draft tokens: after a b a b it drafts a b a b.
    Where fewer than `min_match` tokens agree nothing is drafted, and where the source
    ends nothing more: gamma falls, to 0 if need be, for that row and block.

    Nothing is drawn, so q is one-hot at every temperature.

    Attributes:
      vocab_size: of the target; other ids are not copied.
      padded_vocab_size: V, the width of the target's logits.
      source: inputs -> [B, E] int32, a source's ids with -1 in place of its padding;
        None if the target has no source, as a decoder-only model's.
      min_match: tokens that must agree, at least 1.
      max_match: tokens that are compared, at most.

    Raises:
      SettingsError: not 1 <= min_match <= max_match.
    """

    source: Callable[[PyTree], Array] | None = None
    min_match: int = 1
    max_match: int = 8

    def __post_init__(self):
        if not 1 <= self.min_match <= self.max_match:
            raise SettingsError(
                "prompt lookup needs 1 <= min_match <= max_match, not "
                f"{self.min_match} and {self.max_match}"
            )

    def init(
        self,
        params: Params,
        inputs: PyTree,
        context: PyTree,
        prompt: Prompt,
        prompt_features: Array | None,
        slots: int,
    ) -> PromptLookupState:
        batch, width = prompt.tokens.shape
        pieces = [jnp.full((batch, self.max_match), NOTHING, jnp.int32)]
        if self.source is not None:
            pieces.append(self.source(inputs))
        pieces.append(jnp.full((batch, 1), NOTHING, jnp.int32))
        before = sum(piece.shape[1] for piece in pieces)
        free = jnp.full((batch, slots - width), NOTHING, jnp.int32)
        return PromptLookupState(
            context=jnp.concatenate([*pieces, prompt.tokens, free], axis=1),
            ends=before + prompt.lengths,
        )

    def propose(
        self,
        params: Params,
        state: PromptLookupState,
        draw: Draw,
        warp: Warp,
        gamma: Int32[Array, " B"],
    ) -> tuple[Proposal, PromptLookupState]:
        copied = jax.vmap(self._copied, (0, 0, None))(
            state.context, state.ends, draw.max_gamma
        )
        is_token = (copied >= 0) & (copied < self.vocab_size)
        found = jnp.cumprod(is_token.astype(jnp.int32), axis=1).sum(axis=1)
        tokens = jnp.where(is_token, copied, 0)
        return self.one_hot(tokens, jnp.minimum(gamma, found)), state

    def commit(
        self, params: Params, state: PromptLookupState, commit: Commit
    ) -> PromptLookupState:
        """Appends the block; what it holds past its end is overwritten by the next."""
        context = jax.vmap(jax.lax.dynamic_update_slice)(
            state.context, commit.tokens, (state.ends,)
        )
        grown = jnp.where(commit.active, commit.num_accepted + 1, 0)
        return PromptLookupState(context=context, ends=state.ends + grown)

    def _copied(
        self, context_c: Int32[Array, " C"], end: Int32[Array, ""], width: int
    ) -> Int32[Array, " G"]:
        """What one row would draft next; `NOTHING` where there is nothing to copy."""
        size = context_c.shape[0]
        newest = end - 1
        place_c = jnp.arange(size, dtype=jnp.int32)
        agrees_c, match_c = place_c < newest, jnp.zeros(size, jnp.int32)
        for back in range(self.max_match):
            # Rolled round, the end of the buffer meets the `NOTHING` at its beginning,
            # where no match is in progress any more.
            token = context_c[newest - back]
            same_c = (jnp.roll(context_c, back) == token) & (token != NOTHING)
            agrees_c = agrees_c & same_c
            match_c = match_c + agrees_c.astype(jnp.int32)
        # The longest match; of several the latest.
        best = jnp.max(match_c * size + place_c)
        match, place = best // size, best % size
        period = jnp.maximum(newest - place, 1)  # without a match anything will do
        copied = context_c[place + 1 + jnp.arange(width) % period]
        return jnp.where(match >= self.min_match, copied, NOTHING)
