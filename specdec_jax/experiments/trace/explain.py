"""One output, and for every token tested on the way: p, q, the ratio and the draw.

The loop keeps none of these; `replay` gets p and q back, for any drafter. The draws
come from their address, (seed, row, step, use).
"""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np

from specdec_jax import display
from specdec_jax.decoding.settings import DecodeSettings
from specdec_jax.decoding.state import StepInfo
from specdec_jax.display import Fate
from specdec_jax.experiments.kinds import Trace
from specdec_jax.experiments.record_file import RecordFile
from specdec_jax.experiments.trace.replay import decode_recorded, target_probs
from specdec_jax.generation import collect
from specdec_jax.job import Job, prepare
from specdec_jax.pair import Pair
from specdec_jax.runtime.progress import progress_bar
from specdec_jax.runtime.records import environment
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
) -> Trace:
    """Decodes one text, and tells all that decided on each of its tokens.

    Args:
      pair: a target and any drafter.
      text: the input.
      gamma, temperature, max_new_tokens: as in `DecodeSettings`.
      seed: of the draws.

    Returns:
      A record: "lines" has, for each target call, the draft tokens in force ("gamma"),
      how many were accepted ("accepted"), and "tokens". Each of these has its "piece";
      its "fate": accepted, rejected, correction or bonus; "p" and "q", its
      probabilities (q is None where nothing was drafted); "draw", the uniform number
      that decided; for the target's own also "chance", its probability in what it was
      drawn from, norm(max(0, p - q)) or p; and "alternatives", the likeliest
      [piece, p, q] at its place.
    """
    settings = DecodeSettings(
        gamma=gamma, temperature=temperature, max_new_tokens=max_new_tokens
    )
    job = prepare(pair, [text], settings, seed)
    result, draft_probs = decode_recorded(job)
    out = collect(pair, result)
    tokens = out.tokens[0, : out.lengths[0]]
    p, lines, place = target_probs(job, tokens), [], 0
    for step, line in enumerate(display.steps(out.infos, 0)):
        told = []
        for index, token in enumerate(line):
            # Of a correction it is the q of the draft token that was rejected there.
            in_block = min(index, int(out.infos.num_accepted[step, 0]))
            is_drafted = in_block < out.infos.gamma[step, 0]
            q_v = draft_probs[0, step, in_block] if is_drafted else None
            told.append(
                _token(pair, token.token, p[place], q_v)
                | _decision(job, out.infos, step, index, token, p[place], q_v)
            )
            place += token.fate is not Fate.REJECTED
        lines.append(
            {
                "gamma": int(out.infos.gamma[step, 0]),
                "accepted": sum(token.fate is Fate.ACCEPTED for token in line),
                "tokens": told,
            }
        )
    return Trace(
        **pair.about,
        text=text,
        gamma=gamma,
        temperature=temperature,
        seed=seed,
        max_new_tokens=max_new_tokens,
        output=out.texts[0],
        tokens=len(tokens),
        lines=lines,
        **environment(),
    )


def record_traces(
    pair: Pair,
    text: str,
    wanted: Sequence[tuple[int, float]],
    seed: int,
    records: RecordFile,
) -> None:
    """Traces of one text, those that are not on record.

    Args:
      pair: a target and any drafter.
      text: the input.
      wanted: the gamma and temperature of each.
      seed: of the draws.
      records: appended to, a record each.

    Raises:
      DataError: `records` are of another pair, text or seed.
    """
    identity = {**pair.about, "text": text, "seed": seed}
    before = records.of_run(Trace, identity)
    done = [(one.gamma, one.temperature) for one in before]
    with progress_bar("traces") as bar:
        task = bar.add_task("", total=len(wanted))
        for gamma, temperature in wanted:
            if (gamma, temperature) not in done:
                records.append(
                    explain(pair, text, gamma=gamma, temperature=temperature, seed=seed)
                )
            bar.update(task, advance=1)


def _token(
    pair: Pair, token: int, p_v: np.ndarray, q_v: np.ndarray | None
) -> dict[str, Any]:
    """A token's probabilities, and the likeliest tokens at its place."""
    largest = p_v if q_v is None else np.maximum(p_v, q_v)
    likeliest = np.argsort(-largest, kind="stable")[:ALTERNATIVES]

    def q_of(i):
        return None if q_v is None else float(q_v[i])

    return {
        "piece": pair.tokenizer.piece(token),
        "p": float(p_v[token]),
        "q": q_of(token),
        "alternatives": [
            [pair.tokenizer.piece(int(i)), float(p_v[i]), q_of(i)]
            for i in likeliest
            if largest[i] > 0
        ],
    }


def _decision(
    job: Job,
    infos: StepInfo,
    step: int,
    index: int,
    token: display.TraceToken,
    p_v: np.ndarray,
    q_v: np.ndarray | None,
) -> dict[str, Any]:
    """What became of a token and the number that decided it."""
    if token.fate is not Fate.TARGET:
        draws = _uniforms(job, Use.ACCEPT, step, infos.drafted.shape[-1:])
        return {"fate": token.fate.name.lower(), "draw": float(draws[index])}
    draw = float(_uniforms(job, Use.CORRECT, step, ()))
    if q_v is None:  # past its last draft token the drafter was not asked
        chance = float(p_v[token.token])
        return {"fate": "bonus", "draw": draw, "chance": chance}
    residual_v = np.maximum(p_v - q_v, 0.0)
    chance = float(residual_v[token.token] / residual_v.sum())
    return {"fate": "correction", "draw": draw, "chance": chance}


def _uniforms(job: Job, use: Use, step: int, shape: Sequence[int]) -> np.ndarray:
    """The numbers that the loop drew in a step, of `shape`."""
    steps = jnp.full(1, step, jnp.int32)
    return np.asarray(uniforms(job.keys, use, steps, tuple(shape))[0])
