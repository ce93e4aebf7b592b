"""p against q at each token of outputs that are known, for any drafter.

The target scores all tokens of an output in one pass. The drafter goes along it through
its own contract: at each token it proposes one draft token, its q is compared with p,
and then it is told that the draft token was rejected and the output's token came
instead. So a drafter with a network, with tables or with rules is measured alike, and
in no other way than the loop uses it.

What q is at a place may depend on where a block began, as for prompt lookup: here every
token begins a block.
"""

import dataclasses
import functools
from collections.abc import Iterator, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from specdec_jax.data import batching
from specdec_jax.decoding.contracts import (
    Commit,
    Drafter,
    Draw,
    LanguageModel,
    Prompt,
)
from specdec_jax.decoding.loop import at_index, prefill, slots_needed
from specdec_jax.decoding.settings import DecodeSettings
from specdec_jax.decoding.speculative import PairParams
from specdec_jax.job import prepare_tokens
from specdec_jax.pair import Pair
from specdec_jax.sampling import TokenRule, Warp, position_keys, standardize_rows
from specdec_jax.sampling import lenience as lenient
from specdec_jax.sampling.keys import row_keys, seed_key
from specdec_jax.typing import Array, Bool, Float32, Int32, Params, PyTree, record

DECIMALS = 6  # of what is kept of a float32
OUTPUT_BUCKET = 16  # outputs are padded to a multiple, so that few shapes compile


@record
class Scores:
    """What `score` finds at every token, K leniences at once."""

    betas: Float32[Array, "B T K"]  # sum_x min(p/l, q), 0 where nothing is drafted
    accept_probs: Float32[Array, "B T"]  # min(1, q/p) of the token that came
    rejection_probs: Float32[Array, "B T"]  # sum_x p min_x' q/p
    drafted: Bool[Array, "B T"]


@dataclasses.dataclass(frozen=True)
class Acceptance:
    """One output of T tokens.

    Attributes:
      betas: [T, K], the chance that a draft token at this place is accepted,
        sum_x min(p/l, q), by lenience l; 0 where the drafter proposes none. At
        temperature 0 it is 0 or 1.
      accept_probs: [T], the chance that it was accepted, now that the output's token y
        is known: min(1, q(y)/p(y)). Its mean over y is beta at l = 1. Given an output,
        draft tokens are accepted independently of each other with these chances, so
        that what the loop needs for it follows from them exactly
        (`theory.expected_target_calls_along`).
      rejection_probs: [T], the chance that rejection sampling (A.2) would accept it,
        never above beta at l = 1; 0 where there is none.
      drafted: [T], whether the drafter proposes a token there.
    """

    betas: np.ndarray
    accept_probs: np.ndarray
    rejection_probs: np.ndarray
    drafted: np.ndarray


@functools.partial(jax.jit, static_argnums=(0, 1))
def score(
    target: LanguageModel,
    drafter: Drafter,
    params: PairParams,
    inputs: PyTree,
    prompt: Prompt,
    tokens: Int32[Array, "B T"],
    warp: Warp,
    leniences: Float32[Array, " K"],
) -> Scores:
    """p against q at each token of B outputs.

    Args:
      target, drafter, params: of a pair.
      inputs, prompt: what both go on from, as a decoder's `init` takes them.
      tokens: [B, T], the outputs; what follows a row's end does not matter.
      warp: [B], how p and q are standardized.
      leniences: [K], in (0, 1].
    """
    batch, width = tokens.shape
    slots = slots_needed(prompt, width, 1)
    begun = prefill(target, params.target, inputs, prompt, slots, drafter.taps)
    last = at_index(prompt.tokens, prompt.lengths - 1)
    seen = jnp.concatenate([last[:, None], tokens[:, :-1]], axis=1)
    logits, features, _ = target.extend(
        params.target, begun.cache, seen, prompt.lengths - 1, drafter.taps
    )
    one, draw = jnp.ones(batch, jnp.int32), _no_chance(batch)

    def step(state, at):
        token_b, logits_bv, features_bkd = at
        proposal, state = drafter.propose(params.drafter, state, draw, warp, one)
        draft_token, q = proposal.tokens[:, 0], proposal.probs[:, 0]
        drafted = proposal.num_drafted > 0
        p = standardize_rows(logits_bv[:, None], warp, target.vocab_size)[:, 0]
        at_lenience = functools.partial(
            _betas, p, q, draft_token, logits_bv, warp.temperature, target.vocab_size
        )
        betas = jax.vmap(at_lenience, out_axes=1)(leniences)
        commit = Commit(
            tokens=jnp.stack([token_b, token_b], axis=1),
            num_accepted=jnp.zeros_like(token_b),
            gamma=proposal.num_drafted,
            active=jnp.ones(batch, bool),
            features=jax.tree.map(lambda x: jnp.stack([x, x], axis=1), features_bkd),
        )
        scores = Scores(
            betas=jnp.where(drafted[:, None], betas, 0.0),
            accept_probs=jnp.where(drafted, _ratio_at(token_b, p, q), 0.0),
            rejection_probs=jnp.where(drafted, _least_ratio(p, q), 0.0),
            drafted=drafted,
        )
        return drafter.commit(params.drafter, state, commit), scores

    state = drafter.init(
        params.drafter, inputs, begun.context, prompt, begun.features, slots
    )
    by_token = (tokens, logits, features)
    by_token = jax.tree.map(lambda x: jnp.moveaxis(x, 1, 0), by_token)
    _, scores = jax.lax.scan(step, state, by_token)
    return jax.tree.map(lambda x: jnp.moveaxis(x, 0, 1), scores)


@functools.partial(jax.jit, static_argnums=0)
def logits_along(
    model: LanguageModel,
    params: Params,
    inputs: PyTree,
    prompt: Prompt,
    tokens: Int32[Array, "B T"],
) -> Float32[Array, "B T V"]:
    """The logits that each token of B outputs was, or would be, drawn from.

    Args:
      model, params: that decoded them, or could have.
      inputs, prompt, tokens: as in `score`.
    """
    slots = prompt.tokens.shape[1] + tokens.shape[1]
    cache = prefill(model, params, inputs, prompt, slots).cache
    last = at_index(prompt.tokens, prompt.lengths - 1)
    before = jnp.concatenate([last[:, None], tokens[:, :-1]], axis=1)
    logits, _, _ = model.extend(params, cache, before, prompt.lengths - 1)
    return logits


def along_outputs(
    pair: Pair,
    inputs: Sequence[Sequence[int]],
    outputs: Sequence[Sequence[int]],
    settings: DecodeSettings,
    leniences: Sequence[float] = (1.0,),
) -> Iterator[Acceptance]:
    """`score` for a batch of outputs that the target made, or could have made.

    Args:
      pair: a target and any drafter.
      inputs: ids of what the outputs answer.
      outputs: their tokens, EOS included.
      settings: temperature, top-k and top-p.
      leniences: K of them, whatever the settings' own is.

    Yields:
      One for each output, in order; chances are rounded to `DECIMALS` places.
    """
    job = prepare_tokens(pair, inputs, settings, 0, "autoregressive")
    rows = job.prompt.lengths.shape[0]  # a mesh may need more than were asked for
    width = batching.bucketed(max(map(len, outputs)), OUTPUT_BUCKET)
    scores = score(
        pair.target,
        pair.drafter,
        pair.params,
        job.inputs,
        job.prompt,
        jnp.asarray(batching.pad(outputs, width, pair.tokenizer.pad_id, rows)),
        job.rows.warp,
        jnp.asarray(leniences, jnp.float32),
    )
    kept = {
        field.name: np.asarray(getattr(scores, field.name))
        for field in dataclasses.fields(Acceptance)
    }
    for name in ("betas", "accept_probs", "rejection_probs"):
        kept[name] = kept[name].astype(np.float64).round(DECIMALS)
    for row, output in enumerate(outputs):
        yield Acceptance(**{name: x[row, : len(output)] for name, x in kept.items()})


def sample_outputs(
    pair: Pair,
    inputs: Sequence[Sequence[int]],
    settings: DecodeSettings,
    seed: int,
    row_ids: Sequence[int],
    leniences: Sequence[float] = (1.0,),
) -> list[tuple[list[int], Acceptance]]:
    """The target generates an output for each input, and the drafter is scored on it.

    Args:
      pair, inputs, settings, leniences: as in `along_outputs`.
      seed, row_ids: of the draws, as in `generate`.

    Returns:
      For each input the tokens, EOS included, and how draft tokens fare along them.
    """
    job = prepare_tokens(pair, inputs, settings, seed, "autoregressive", row_ids)
    result = job.decode()
    lengths = np.asarray(result.lengths).tolist()
    tokens = [row[:n] for row, n in zip(result.tokens.tolist(), lengths, strict=True)]
    scored = along_outputs(pair, inputs, tokens, settings, leniences)
    return list(zip(tokens, scored, strict=True))


def _no_chance(batch: int) -> Draw:
    """Draws the first token of any mass: what is drafted here is never emitted."""
    keys = row_keys(seed_key(0), jnp.zeros(batch, jnp.int32))
    keys = position_keys(keys, jnp.zeros((batch, 1), jnp.int32))
    return Draw(jnp.zeros((batch, 1)), keys, TokenRule())


def _betas(p, q, draft_token, logits_bv, temperature, vocab_size, lenience):
    """[B]: beta at a lenience, at most 1 whatever the rounding."""

    def one_row(p_v, q_v, token, logits_v, temperature):
        near = lenient.near_argmax(
            logits_v[None], token[None], temperature, lenience, vocab_size
        )
        return lenient.betas(p_v[None], q_v[None], near, lenience)[0]

    found = jax.vmap(one_row)(p, q, draft_token, logits_bv, temperature)
    return jnp.minimum(found, 1.0)


def _ratio_at(token_b, p, q):
    """[B]: min(1, q/p) of a token; 0 where p has none."""
    p, q = (at_index(x, token_b) for x in (p, q))
    ratio = q / jnp.where(p > 0, p, 1.0)
    return jnp.where(p > 0, jnp.minimum(ratio, 1.0), 0.0)


def _least_ratio(p, q):
    """[B]: min q/p, over the ids that p has."""
    ratio = jnp.where(p > 0, q / jnp.where(p > 0, p, 1.0), jnp.inf)
    return jnp.min(ratio, axis=1)
