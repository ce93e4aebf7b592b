"""What quantized weights change: the target's logits beside those of float weights.

Both score the same outputs, which the float target made at temperature 0.
"""

from collections.abc import Iterator, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from specdec_jax.data import batching
from specdec_jax.decoding.settings import DecodeSettings
from specdec_jax.errors import DataError
from specdec_jax.experiments.kinds import LogitsError
from specdec_jax.experiments.measure.acceptance import OUTPUT_BUCKET, logits_along
from specdec_jax.experiments.record_file import RecordFile
from specdec_jax.job import prepare_tokens
from specdec_jax.pair import Pair
from specdec_jax.runtime.progress import progress_bar
from specdec_jax.runtime.records import digest, environment
from specdec_jax.typing import Any

BATCH = 8  # outputs decoded and scored together


def measure_logits(
    pair: Pair,
    quantized: Pair,
    inputs: Sequence[Sequence[int]],
    max_new_tokens: int,
    records: RecordFile,
) -> None:
    """The error of a quantized target's logits, along outputs of the float one.

    Args:
      pair: of float weights.
      quantized: the same, with quantized ones.
      inputs: ids of what the target answers.
      max_new_tokens: of each output.
      records: appended to, unless it has this record.

    Raises:
      DataError: there are no inputs, or `records` are of others.
    """
    if not inputs:
        raise DataError("there is no input to measure on")
    identity = {
        **quantized.about,
        "inputs": len(inputs),
        "inputs_sha256": digest([list(map(int, row)) for row in inputs]),
        "max_new_tokens": max_new_tokens,
    }
    with records.alone():
        if not records.of_run(LogitsError, identity):
            found = _errors(pair, quantized, inputs, max_new_tokens)
            records.append(LogitsError(**identity, **found, **environment()))


def _errors(pair, quantized, inputs, max_new_tokens) -> dict[str, Any]:
    """The numbers of a record."""
    found = []
    with progress_bar("logits") as bar:
        task = bar.add_task("", total=len(inputs))
        for start in range(0, len(inputs), BATCH):
            rows = inputs[start : start + BATCH]
            found += _compared(pair, quantized, rows, max_new_tokens)
            bar.update(task, advance=len(rows))
    parts = zip(*found, strict=True)
    logits, errors, same, overlaps = (np.concatenate(part) for part in parts)
    deviation = np.sqrt(np.mean(np.square(logits)))
    return {
        "tokens": len(errors),
        "deviation": float(deviation),
        "mean_error": float(np.mean(errors) / deviation),
        "max_error": float(np.max(errors) / deviation),
        "same_argmax": float(np.mean(same)),
        "overlap": float(np.mean(overlaps)),
    }


def _compared(
    pair: Pair, quantized: Pair, rows: Sequence[Sequence[int]], max_new_tokens: int
) -> Iterator[tuple[np.ndarray, ...]]:
    """Of each output of T tokens.

    Yields:
      The float target's logits less each place's mean [T, V], how far the quantized
      one's are from them [T, V], whether both have one argmax [T], and the sum of
      min(p, p') over ids at temperature 1 [T].
    """
    settings = DecodeSettings(max_new_tokens=max_new_tokens)
    job = prepare_tokens(pair, rows, settings, 0, "autoregressive")
    result = job.decode()
    lengths = np.asarray(result.lengths).tolist()
    outputs = [row[:n] for row, n in zip(result.tokens.tolist(), lengths, strict=True)]
    width = batching.bucketed(max(lengths), OUTPUT_BUCKET)
    batch = job.prompt.lengths.shape[0]  # a mesh may need more than were asked for
    tokens = batching.pad(outputs, width, pair.tokenizer.pad_id, batch)
    exact, changed = (
        logits_along(
            one.target, one.params.target, job.inputs, job.prompt, jnp.asarray(tokens)
        )[..., : pair.vocab_size]
        for one in (pair, quantized)
    )
    p, p_changed = (jax.nn.softmax(logits, axis=-1) for logits in (exact, changed))
    overlaps = np.asarray(jnp.minimum(p, p_changed).sum(axis=-1))
    exact, changed = np.asarray(exact), np.asarray(changed)
    for row, length in enumerate(lengths):
        one, other = exact[row, :length], changed[row, :length]
        yield (
            one - one.mean(axis=-1, keepdims=True),
            np.abs(other - one),
            one.argmax(axis=-1) == other.argmax(axis=-1),
            np.minimum(overlaps[row, :length], 1.0),
        )
