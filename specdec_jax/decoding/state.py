"""The types of a loop: what it is set to, what it carries, what it gives back."""

from specdec_jax.sampling import Warp
from specdec_jax.typing import Array, Bool, Cache, Float32, Int32, PyTree, record


@record
class RowSettings:
    """How each row is decoded: traced, [B] each, so that sweeps do not recompile."""

    warp: Warp  # temperature, top-k, top-p
    gamma: Int32[Array, " B"]  # draft tokens a block, at most the loop's static G
    lenience: Float32[Array, " B"]  # l in (0, 1]; 1 is exact
    max_new_tokens: Int32[Array, " B"]  # at least 1, at most the loop's static M


@record
class StepInfo:
    """What one target call did, a row each; a finished row's step emitted nothing.

    All statistics and the pictures of a trace are made from these. G is 0 for the
    baseline, which drafts nothing. In a `DecodeResult` they are stacked, steps first.
    """

    drafted: Int32[Array, "B G"]  # the draft tokens; 0 past gamma
    gamma: Int32[Array, " B"]  # how many of them were in force
    num_accepted: Int32[Array, " B"]  # n of Algorithm 1
    next_token: Int32[Array, " B"]  # the target's own: correction or bonus
    num_emitted: Int32[Array, " B"]  # n + 1, or fewer if EOS or the cap came first
    betas: Float32[Array, "B G"]  # `lenience.betas` of each draft token; 0 past gamma


@record
class LoopState:
    """All that a loop carries from step to step."""

    # Evolving: what the next step needs.
    step: Int32[Array, ""]  # target calls so far
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
