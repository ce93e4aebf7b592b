"""What every loop does alike: prefill, begin, emit, advance, repeat, finish."""

import jax
import jax.numpy as jnp

from specdec_jax.axes import constrain
from specdec_jax.decoding.contracts import LanguageModel, Prompt
from specdec_jax.decoding.state import DecodeResult, LoopState, StepInfo
from specdec_jax.errors import SettingsError
from specdec_jax.typing import (
    Array,
    Bool,
    Cache,
    Callable,
    Float,
    Int32,
    Params,
    PyTree,
    record,
)


def check_max_new_tokens(max_new_tokens: int) -> None:
    """Raises SettingsError unless the buffers have room for a token."""
    if max_new_tokens < 1:
        raise SettingsError(f"max_new_tokens must be at least 1, not {max_new_tokens}")


def slots_needed(prompt: Prompt, max_new_tokens: int, max_gamma: int) -> int:
    """S: cache slots such that no block of a row in progress reaches past the end.

    A cache write that reaches past the last slot is moved back over valid ones in
    silence, so there are max_gamma + 1 slots beyond prompt and new tokens.
    """
    return prompt.tokens.shape[1] + max_new_tokens + max_gamma + 1


def begin(
    prompt: Prompt,
    target_cache: Cache,
    draft_state: PyTree,
    max_new_tokens: int,
    max_gamma: int,
) -> LoopState:
    """The state before the first step.

    Args:
      prompt: what to go on from.
      target_cache: that has seen all of it but its last token: `prefill`'s.
      draft_state: the drafter's; None for the baseline.
      max_new_tokens, max_gamma: M and G, the sizes of the buffers.
    """
    batch = prompt.tokens.shape[0]

    def zeros(*shape, dtype=jnp.int32):
        return jnp.zeros(shape, dtype)

    return LoopState(
        step=zeros(),
        last_token=at_index(prompt.tokens, prompt.lengths - 1),
        lengths=prompt.lengths - 1,
        active=jnp.ones(batch, bool),
        target_cache=target_cache,
        draft_state=draft_state,
        infos=StepInfo(
            drafted=zeros(max_new_tokens, batch, max_gamma),
            gamma=zeros(max_new_tokens, batch),
            num_accepted=zeros(max_new_tokens, batch),
            next_token=zeros(max_new_tokens, batch),
            num_emitted=zeros(max_new_tokens, batch),
            betas=zeros(max_new_tokens, batch, max_gamma, dtype=jnp.float32),
        ),
        tokens=zeros(batch, max_new_tokens + max_gamma + 1),
        num_emitted=zeros(batch),
    )


def by_rows(x: Array) -> Array:
    """An array whose first axis is the batch, sharded as the loop's state is."""
    return constrain(x, "batch", *[None] * (x.ndim - 1))


def at_index(x: Array, index: Int32[Array, " B"]) -> Array:
    """[B, T, ...] -> [B, ...]: x[b, index[b]] of every row.

    Written so that each row is seen to read from itself alone: rows that are spread
    over devices stay where they are.
    """
    index = index.reshape(-1, *[1] * (x.ndim - 1))
    return jnp.take_along_axis(x, index, axis=1)[:, 0]


@record
class Prefilled:
    """A model that has seen each row's prompt but for its last token."""

    cache: Cache
    context: PyTree  # what its `start` made of the inputs
    features: Float[Array, "B P-1 K D"] | None  # at the taps; None if P is 1


def prefill(
    model: LanguageModel,
    params: Params,
    inputs: PyTree,
    prompt: Prompt,
    slots: int,
    taps: tuple[int, ...] = (),
) -> Prefilled:
    """Encodes, and scores all of the prompt but its last token.

    Shorter rows' padding is written too and does not count: lengths say so.

    Args:
      model, params: of either side.
      inputs: what its `start` takes.
      prompt: what to go on from.
      slots: S, of its cache.
      taps: layers whose outputs are wanted as features.
    """
    cache, context = model.start(params, inputs, slots)
    features = None
    if prompt.tokens.shape[1] > 1:
        lengths = jnp.zeros_like(prompt.lengths)
        _, features, cache = model.extend(
            params, cache, prompt.tokens[:, :-1], lengths, taps
        )
    return Prefilled(cache, context, features)


def emit(
    state: LoopState,
    block: Int32[Array, "B T"],
    count: Int32[Array, " B"],
    max_new_tokens: Int32[Array, " B"],
    eos_id: int,
) -> tuple[Int32[Array, "B W"], Int32[Array, " B"], Bool[Array, " B"]]:
    """Appends the first `count` tokens of each row's block to the output.

    A row ends at the first EOS, which is emitted, or at its cap, wherever in the block
    they come; and at M, should its cap be more. Places past the end hold leftovers
    until `finish` clears them.

    Returns:
      The output buffer, how many tokens each row emitted (0 if it was finished), and
      which rows are still active.
    """
    room = state.tokens.shape[1] - block.shape[1]  # M: past W nothing is written
    max_new_tokens = jnp.minimum(max_new_tokens, room)
    place = jnp.arange(block.shape[1], dtype=jnp.int32)[None]
    is_eos = (block == eos_id) & (place < count[:, None])
    first_eos = jnp.where(is_eos, place, block.shape[1]).min(axis=1)
    count = jnp.minimum(count, first_eos + 1)
    count = jnp.minimum(count, max_new_tokens - state.num_emitted)
    count = jnp.where(state.active, count, 0)
    # Not a slice for each row, of which a TPU makes a loop over rows.
    width = jnp.arange(state.tokens.shape[1], dtype=jnp.int32)
    # [B, W]: which token comes there.
    to = by_rows(width[None] - state.num_emitted[:, None])
    written = jnp.where(to[:, :, None] == place[:, None], block[:, None], 0).sum(axis=2)
    is_new = (to >= 0) & (to < block.shape[1])
    tokens = jnp.where(is_new, by_rows(written), state.tokens)
    ended = (first_eos < count) | (state.num_emitted + count >= max_new_tokens)
    return tokens, count, state.active & ~ended


def advance(
    state: LoopState,
    block: Int32[Array, "B T"],
    info: StepInfo,
    max_new_tokens: Int32[Array, " B"],
    eos_id: int,
    target_cache: Cache,
    draft_state: PyTree,
) -> tuple[LoopState, StepInfo]:
    """The end of every loop's step: emits, records, and moves on to the next.

    Args:
      state: before the step.
      block: of each row, its accepted draft tokens and the target's own token.
      info: of the step, `num_emitted` being n + 1; EOS and the cap may cut it.
      max_new_tokens, eos_id: where rows end.
      target_cache, draft_state: after the step.

    Returns:
      The next state, and the info as it was recorded.
    """
    block, info = jax.tree.map(by_rows, (block, info))
    tokens, count, active = emit(state, block, info.num_emitted, max_new_tokens, eos_id)
    info = info.replace(num_emitted=by_rows(count))
    grown = jnp.where(state.active, info.num_accepted + 1, 0)
    state = state.replace(
        step=state.step + 1,
        last_token=jnp.where(state.active, info.next_token, state.last_token),
        lengths=state.lengths + grown,
        active=active,
        target_cache=target_cache,
        draft_state=draft_state,
        infos=jax.tree.map(
            lambda all_, one: jax.lax.dynamic_update_index_in_dim(
                all_, one, state.step, 0
            ),
            state.infos,
            info,
        ),
        tokens=tokens,
        num_emitted=state.num_emitted + count,
    )
    return state, info


def repeat(
    step: Callable[[LoopState], tuple[LoopState, StepInfo]], state: LoopState
) -> LoopState:
    """Steps until every row is finished: the one `lax.while_loop`.

    It ends: a step emits at least one token of every active row, and rows have caps.
    """
    return jax.lax.while_loop(
        lambda state: state.active.any(), lambda state: step(state)[0], state
    )


def finish(state: LoopState) -> DecodeResult:
    """The output, cleared past each row's end."""
    max_new_tokens = state.infos.gamma.shape[0]
    tokens = state.tokens[:, :max_new_tokens]
    place = jnp.arange(max_new_tokens)[None]
    return DecodeResult(
        tokens=jnp.where(place < state.num_emitted[:, None], tokens, 0),
        lengths=state.num_emitted,
        num_steps=state.step,
        infos=state.infos,
    )


def first_rows(result: DecodeResult, batch: int) -> DecodeResult:
    """The first `batch` rows of a result; the same object if there are no more."""
    if result.lengths.shape[0] == batch:
        return result
    return DecodeResult(
        tokens=result.tokens[:batch],
        lengths=result.lengths[:batch],
        num_steps=result.num_steps,
        infos=jax.tree.map(lambda x: x[:, :batch], result.infos),
    )
