"""One output, and for every token tested on the way: p, q, the ratio and the draw.

The loop keeps none of these; they are computed again. A draft token that was tested has
a position in the output: its own if it was accepted, else that of the token in its
place. So one pass of each model over the output gives p and q at every draft token. The
draws come from their address, (seed, row, step, use).
"""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np

from specdec_jax import display
from specdec_jax.data.batching import bucketed
from specdec_jax.decoding.settings import DecodeSettings
from specdec_jax.decoding.state import StepInfo
from specdec_jax.display import Fate
from specdec_jax.experiments.measure.distributions import (
    LENGTH_BUCKET,
    drafter_model,
    score,
)
from specdec_jax.generation import collect
from specdec_jax.job import Job, prepare
from specdec_jax.pair import Pair
from specdec_jax.sampling import Use, uniforms
from specdec_jax.typing import Any

ALTERNATIVES = 5  # tokens listed at each position, those of the largest p or q


def explain(
    pair: Pair,
    text: str,
    *,
    gamma: int,
    temperature: float,
    seed: int,
    max_new_tokens: int = 64,
) -> dict[str, Any]:
    """Decodes one text, and tells all that decided on each of its tokens.

    Args:
      pair: whose drafter has a network.
      text: the input.
      gamma, temperature, max_new_tokens: as in `DecodeSettings`.
      seed: of the draws.

    Returns:
      A record of kind "trace": "lines" has, for each target call, the number of draft
      tokens ("gamma") and of accepted ones ("accepted"), and "tokens". Each of these
      has its "piece"; its "fate": accepted, rejected, correction or bonus; "p" and "q",
      its probabilities (q is None where nothing was drafted); "draw", the uniform
      number that decided; for the target's own also "chance", its probability in what
      it was drawn from, norm(max(0, p - q)) or p; and "alternatives", the likeliest
      [piece, p, q] at its position.
    """
    settings = DecodeSettings(
        gamma=gamma, temperature=temperature, max_new_tokens=max_new_tokens
    )
    job = prepare(pair, [text], settings, seed)
    out = collect(pair, job.decode())
    tokens = out.tokens[0, : out.lengths[0]]
    p, q = _probabilities(pair, job, tokens)
    lines, place = [], 0
    for step, line in enumerate(display.steps(out.infos, 0)):
        told = []
        for index, token in enumerate(line):
            told.append(
                _token(pair, token.token, p[place], q[place])
                | _decision(job, out.infos, step, index, token, p[place], q[place])
            )
            place += token.fate is not Fate.REJECTED
        lines.append(
            {
                "gamma": int(out.infos.gamma[step, 0]),
                "accepted": sum(token.fate is Fate.ACCEPTED for token in line),
                "tokens": told,
            }
        )
    return {
        "pair": pair.name,
        "text": text,
        "gamma": gamma,
        "temperature": temperature,
        "seed": seed,
        "max_new_tokens": max_new_tokens,
        "output": out.texts[0],
        "tokens": len(tokens),
        "lines": lines,
    }


def _probabilities(pair: Pair, job: Job, tokens: np.ndarray) -> list[np.ndarray]:
    """p and q, [T, V] each, at every position of one output."""
    width = bucketed(len(tokens), LENGTH_BUCKET)
    padded = jnp.asarray(np.pad(tokens, (0, width - len(tokens))))[None]
    sides = (
        (pair.target, job.params.target),
        (drafter_model(pair), job.params.drafter),
    )
    return [
        np.asarray(score(model, params, job.inputs, padded, job.rows.warp, job.prompt))[
            0
        ]
        for model, params in sides
    ]


def _token(pair: Pair, token: int, p_v: np.ndarray, q_v: np.ndarray) -> dict[str, Any]:
    likeliest = np.argsort(-np.maximum(p_v, q_v), kind="stable")[:ALTERNATIVES]
    return {
        "piece": pair.tokenizer.piece(token),
        "p": float(p_v[token]),
        "q": float(q_v[token]),
        "alternatives": [
            [pair.tokenizer.piece(int(i)), float(p_v[i]), float(q_v[i])]
            for i in likeliest
            if max(p_v[i], q_v[i]) > 0
        ],
    }


def _decision(
    job: Job,
    infos: StepInfo,
    step: int,
    index: int,
    token: display.TraceToken,
    p_v: np.ndarray,
    q_v: np.ndarray,
) -> dict[str, Any]:
    """What became of a token and the number that decided it."""
    if token.fate is not Fate.TARGET:
        draws = _uniforms(job, Use.ACCEPT, step, infos.drafted.shape[-1:])
        return {"fate": token.fate.name.lower(), "draw": float(draws[index])}
    draw = float(_uniforms(job, Use.CORRECT, step, ()))
    if infos.num_accepted[step, 0] == infos.gamma[step, 0]:
        # After its last draft token the drafter was not called.
        chance = float(p_v[token.token])
        return {"fate": "bonus", "draw": draw, "q": None, "chance": chance}
    residual_v = np.maximum(p_v - q_v, 0.0)
    chance = float(residual_v[token.token] / residual_v.sum())
    return {"fate": "correction", "draw": draw, "chance": chance}


def _uniforms(job: Job, use: Use, step: int, shape: Sequence[int]) -> np.ndarray:
    """The numbers that the loop drew in a step, of `shape`."""
    steps = jnp.full(1, step, jnp.int32)
    return np.asarray(uniforms(job.keys, use, steps, tuple(shape))[0])
