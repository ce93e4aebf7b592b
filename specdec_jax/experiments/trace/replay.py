"""p and q at every token of one decode: q as the drafter declared it, p in one pass."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np

from specdec_jax.data.batching import bucketed
from specdec_jax.decoding.contracts import (
    Commit,
    Drafter,
    Draw,
    LanguageModel,
    Prompt,
    Proposal,
)
from specdec_jax.decoding.speculative import Speculative
from specdec_jax.decoding.state import DecodeResult
from specdec_jax.experiments.measure.acceptance import OUTPUT_BUCKET, logits_along
from specdec_jax.job import Job
from specdec_jax.sampling import Warp, standardize_rows
from specdec_jax.typing import Array, Float32, Int32, Params, PyTree, record


@record
class Recorded:
    """A drafter's state, and the q of every block so far."""

    state: PyTree
    step: Int32[Array, " B"]  # blocks so far, the same for all rows
    draft_probs: Float32[Array, "B M G V"]


@dataclasses.dataclass(frozen=True)
class RecordingDrafter:
    """Any drafter, whose q is kept for each block.

    Attributes:
      drafter: what drafts.
      steps: blocks there may be, at most.
      max_gamma: G.
      width: V, padding included.
    """

    drafter: Drafter
    steps: int
    max_gamma: int
    width: int

    @property
    def vocab_size(self) -> int:
        return self.drafter.vocab_size

    @property
    def max_length(self) -> int | None:
        return self.drafter.max_length

    @property
    def taps(self) -> tuple[int, ...]:
        return self.drafter.taps

    def init(
        self,
        params: Params,
        inputs: PyTree,
        context: PyTree,
        prompt: Prompt,
        prompt_features: Array | None,
        slots: int,
    ) -> Recorded:
        batch = prompt.lengths.shape[0]
        return Recorded(
            state=self.drafter.init(
                params, inputs, context, prompt, prompt_features, slots
            ),
            step=jnp.zeros(batch, jnp.int32),
            draft_probs=jnp.zeros((batch, self.steps, self.max_gamma, self.width)),
        )

    def propose(
        self,
        params: Params,
        state: Recorded,
        draw: Draw,
        warp: Warp,
        gamma: Int32[Array, " B"],
    ) -> tuple[Proposal, Recorded]:
        proposal, inner = self.drafter.propose(params, state.state, draw, warp, gamma)
        probs = jax.vmap(lambda all_, q, step: all_.at[step].set(q))(
            state.draft_probs, proposal.probs, state.step
        )
        return proposal, Recorded(inner, state.step + 1, probs)

    def commit(self, params: Params, state: Recorded, commit: Commit) -> Recorded:
        inner = self.drafter.commit(params, state.state, commit)
        return state.replace(state=inner)


def decode_recorded(job: Job) -> tuple[DecodeResult, np.ndarray | None]:
    """Decodes as `job.decode` does, to the same tokens, and keeps q.

    Args:
      job: of `prepare`.

    Returns:
      The result, and q, [B, M, G, V], by step and place in its block; None if nothing
      is drafted.
    """
    if not isinstance(job.decoder, Speculative):
        return job.decode(), None
    decoder = job.decoder
    recording = RecordingDrafter(
        decoder.drafter,
        steps=decoder.max_new_tokens,
        max_gamma=decoder.max_gamma,
        width=decoder.target.padded_vocab_size,
    )
    job = dataclasses.replace(
        job, decoder=dataclasses.replace(decoder, drafter=recording)
    )
    state = job.run(job.begin())
    draft_probs = np.asarray(state.draft_state.draft_probs)
    return job.finish(state), draft_probs


def target_probs(job: Job, tokens: np.ndarray) -> np.ndarray:
    """p, [T, V], at every place of the first row's output.

    Args:
      job: that decoded it.
      tokens: [T], the output.
    """
    width = bucketed(len(tokens), OUTPUT_BUCKET)
    batch = job.prompt.lengths.shape[0]
    padded = np.tile(np.pad(tokens, (0, width - len(tokens))), (batch, 1))
    params = job.params
    if isinstance(job.decoder, Speculative):
        model, params = job.decoder.target, params.target
    else:
        model = job.decoder.model
    probs = _teacher_forced(
        model, params, job.inputs, job.prompt, jnp.asarray(padded), job.rows.warp
    )
    return np.asarray(probs)[0]


@functools.partial(jax.jit, static_argnums=0)
def _teacher_forced(
    model: LanguageModel,
    params: Params,
    inputs: PyTree,
    prompt: Prompt,
    tokens: Int32[Array, "B T"],
    warp: Warp,
) -> Float32[Array, "B T V"]:
    """The distribution that each token was, or would be, drawn from."""
    logits = logits_along(model, params, inputs, prompt, tokens)
    return standardize_rows(logits, warp, model.vocab_size)
