"""The records of a loop, and what every loop does alike: begin, emit, repeat, end."""

import jax
import jax.numpy as jnp

from specdec_jax.decoding.contracts import LanguageModel, Prompt
from specdec_jax.errors import SettingsError
from specdec_jax.sampling import Warp
from specdec_jax.typing import (
    Array,
    Bool,
    Cache,
    Callable,
    Float32,
    Int32,
    Params,
    PyTree,
    record,
)


@record
class RowSettings:
    """How each row is decoded: traced, [B] each, so that sweeps do not recompile."""

    warp: Warp  # temperature, top-k, top-p
    gamma: Int32[Array, " B"]  # guesses a block, at most the loop's static G
    lenience: Float32[Array, " B"]  # l in (0, 1]; 1 is exact
    max_new_tokens: Int32[Array, " B"]  # at least 1, at most the loop's static M


@record
class StepInfo:
    """What one target run did, a row each; a finished row's step emitted nothing.

    All statistics and the pictures of a trace are made from these. G is 0 for the
    baseline, which drafts nothing. In a `DecodeResult` they are stacked, steps first.
    """

    drafted: Int32[Array, "B G"]  # the guesses; 0 past gamma
    gamma: Int32[Array, " B"]  # how many of them were in force
    num_accepted: Int32[Array, " B"]  # n of Algorithm 1
    next_token: Int32[Array, " B"]  # the target's own: correction or bonus
    num_emitted: Int32[Array, " B"]  # n + 1, or fewer if EOS or the cap came first
    betas: Float32[Array, "B G"]  # sum_x min(p/l, q) at each guess; 0 past gamma


@record
class LoopState:
    """All that a loop carries from step to step."""

    # Evolving: what the next step needs.
    step: Int32[Array, ""]  # target runs so far
    last_token: Int32[Array, " B"]  # the newest token, which no cache holds yet
    lengths: Int32[Array, " B"]  # tokens in the target's cache
    active: Bool[Array, " B"]  # rows that are not finished
    target_cache: Cache
    draft_state: PyTree  # the drafter's own; None for the baseline
    # Statistics: what each step did, [M, ...]; the first `step` of them are filled.
    infos: StepInfo
    # Output buffers.
    tokens: Int32[Array, "B M+G+1"]  # G + 1 spare places: blocks are written whole
    num_emitted: Int32[Array, " B"]


@record
class DecodeResult:
    """What a loop produced."""

    tokens: Int32[Array, "B M"]  # generated tokens, EOS included; 0 past `lengths`
    lengths: Int32[Array, " B"]
    num_steps: Int32[Array, ""]  # steps until the last row was finished
    infos: StepInfo  # [M, ...]; the first `num_steps` are filled


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
    model: LanguageModel,
    params: Params,
    inputs: PyTree,
    prompt: Prompt,
    max_new_tokens: int,
    max_gamma: int,
    draft_state: PyTree,
) -> LoopState:
    """Encodes, prefills all of the prompt but its last token, and makes the buffers."""
    batch = prompt.tokens.shape[0]
    slots = slots_needed(prompt, max_new_tokens, max_gamma)

    def zeros(*shape, dtype=jnp.int32):
        return jnp.zeros(shape, dtype)

    return LoopState(
        step=zeros(),
        last_token=at_index(prompt.tokens, prompt.lengths - 1),
        lengths=prompt.lengths - 1,
        active=jnp.ones(batch, bool),
        target_cache=prefill(model, params, inputs, prompt, slots),
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


def at_index(x: Array, index: Int32[Array, " B"]) -> Array:
    """[B, T, ...] -> [B, ...]: x[b, index[b]] of every row.

    Written so that each row is seen to read from itself alone: rows that are spread
    over devices stay where they are.
    """
    index = index.reshape(-1, *[1] * (x.ndim - 1))
    return jnp.take_along_axis(x, index, axis=1)[:, 0]


def prefill(
    model: LanguageModel, params: Params, inputs: PyTree, prompt: Prompt, slots: int
) -> Cache:
    """A cache that has seen each row's prompt but for its last token.

    Shorter rows' padding is written too and does not count: lengths say so.
    """
    cache = model.start(params, inputs, slots)
    if prompt.tokens.shape[1] > 1:
        lengths = jnp.zeros_like(prompt.lengths)
        _, _, cache = model.extend(params, cache, prompt.tokens[:, :-1], lengths)
    return cache


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
    room = state.tokens.shape[1] - block.shape[1]  # M: a write past it would clamp
    max_new_tokens = jnp.minimum(max_new_tokens, room)
    place = jnp.arange(block.shape[1], dtype=jnp.int32)[None]
    is_eos = (block == eos_id) & (place < count[:, None])
    first_eos = jnp.where(is_eos, place, block.shape[1]).min(axis=1)
    count = jnp.minimum(count, first_eos + 1)
    count = jnp.minimum(count, max_new_tokens - state.num_emitted)
    count = jnp.where(state.active, count, 0)
    tokens = jax.vmap(jax.lax.dynamic_update_slice)(
        state.tokens, block, (state.num_emitted,)
    )
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
      block: of each row, its accepted guesses and the target's own token after them.
      info: of the step, `num_emitted` being what verification let through; EOS and
        the cap may cut it.
      max_new_tokens, eos_id: where rows end.
      target_cache, draft_state: after the step.

    Returns:
      The next state, and the info as it was recorded.
    """
    tokens, count, active = emit(state, block, info.num_emitted, max_new_tokens, eos_id)
    info = info.replace(num_emitted=count)
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
