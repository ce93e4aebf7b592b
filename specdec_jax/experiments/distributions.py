"""Real p and q: what target and drafter gave to the target's own tokens.

The target generates; then each model scores the same tokens in one pass, so that p and
q of every position stand side by side. From them come the paper's Table 5 (lenience)
and appendix A.2 (rejection sampling), without decoding anything again.
"""

import dataclasses
import functools
from collections.abc import Iterator, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from specdec_jax.data.batching import bucketed
from specdec_jax.data.tokenizer import PAD_ID
from specdec_jax.decoding.contracts import LanguageModel, Prompt
from specdec_jax.decoding.settings import DecodeSettings
from specdec_jax.decoding.state import at_index, prefill
from specdec_jax.errors import PairError
from specdec_jax.generate import encode, prepare_tokens
from specdec_jax.models.adapters import EncoderInputs, NoInputs
from specdec_jax.pair import Pair
from specdec_jax.sampling import Warp, standardize_rows, theory
from specdec_jax.typing import Array, Float32, Int32, Params

BATCH = 24
LENGTH_BUCKET = 16  # outputs are padded to a multiple, so that few shapes compile
NORMAL_95 = 1.959964  # of a normal's mass, 95% lies so many deviations around its mean


@dataclasses.dataclass(frozen=True)
class Distributions:
    """p and q at the N tokens of some sequences.

    Attributes:
      p, q: [N, V].
      sequence: [N], which sequence each position is of.
    """

    p: np.ndarray
    q: np.ndarray
    sequence: np.ndarray


@functools.partial(jax.jit, static_argnums=0)
def score(
    model: LanguageModel,
    params: Params,
    inputs: EncoderInputs | NoInputs,
    tokens: Int32[Array, "B T"],
    warp: Warp,
    prompt: Prompt | None = None,
) -> Float32[Array, "B T V"]:
    """The distribution that each token was, or would be, drawn from: teacher forcing.

    Args:
      model, params: of either family.
      inputs: its source texts, if it has any.
      tokens: [B, T], outputs; what follows a row's end does not matter.
      warp: [B], how it is standardized.
      prompt: what outputs go on from; the start token if not given, as an
        encoder-decoder's do.
    """
    batch, width = tokens.shape
    if prompt is None:
        if not isinstance(inputs, EncoderInputs):
            raise ValueError("outputs of a decoder-only model go on from a prompt")
        start = jnp.full((batch, 1), PAD_ID, jnp.int32)
        prompt = Prompt(tokens=start, lengths=jnp.ones(batch, jnp.int32))
    cache = prefill(model, params, inputs, prompt, prompt.tokens.shape[1] + width)
    last = at_index(prompt.tokens, prompt.lengths - 1)
    before = jnp.concatenate([last[:, None], tokens[:, :-1]], axis=1)
    logits, _, _ = model.extend(params, cache, before, prompt.lengths - 1)
    return standardize_rows(logits, warp, model.vocab_size)


def drafter_model(pair: Pair) -> LanguageModel:
    """The network that drafts.

    Raises:
      PairError: the pair's drafter has none.
    """
    model = getattr(pair.drafter, "model", None)
    if not isinstance(model, LanguageModel):
        raise PairError(
            f"the drafter of {pair.name!r} has no network, whose q could be had by "
            "teacher forcing: give a pair with one"
        )
    return model


def collect_distributions(
    pair: Pair,
    texts: Sequence[str],
    *,
    temperature: float,
    seed: int,
    max_new_tokens: int = 64,
) -> Iterator[Distributions]:
    """p and q at every token that the target generates, EOS included.

    Args:
      pair: whose drafter has a network.
      texts: inputs, taken in batches.
      temperature: of generation, and of p and q. At 0, p and q are nevertheless those
        of temperature 1: one-hot they would say nothing, and lenience at temperature 0
        compares them before they are standardized (A.5).
      seed: of the draws.
      max_new_tokens: of each output.

    Yields:
      A batch's; `sequence` counts on over the batches.
    """
    drafter, encoded = drafter_model(pair), encode(pair, texts)
    settings = DecodeSettings(temperature=temperature, max_new_tokens=max_new_tokens)
    for start in range(0, len(encoded), BATCH):
        rows = encoded[start : start + BATCH]
        job = prepare_tokens(
            pair,
            rows,
            settings,
            seed,
            "autoregressive",
            range(start, start + len(rows)),
        )
        result = job.decode()
        lengths = np.asarray(result.lengths)
        width = min(max_new_tokens, bucketed(int(lengths.max()), LENGTH_BUCKET))
        tokens = result.tokens[:, :width]
        warp = Warp.of(np.full(len(rows), temperature or 1.0))
        is_token = np.arange(width) < lengths[:, None]
        p, q = (
            np.asarray(score(model, params, job.inputs, tokens, warp))[is_token]
            for model, params in (
                (pair.target, pair.params.target),
                (drafter, pair.params.drafter),
            )
        )
        yield Distributions(p, q, start + np.nonzero(is_token)[0])


def acceptance_rates(
    p: np.ndarray, q: np.ndarray, temperature: float, lenience: float
) -> np.ndarray:
    """The probability that a guess stands, at each position; their mean is alpha_l.

    Args:
      p, q: [N, V], as `collect_distributions` gives them for the temperature.
      temperature: 0 takes appendix A.5's rule for argmax, else sum_x min(p/l, q).
      lenience: l, in (0, 1]; 1 is exact.

    Returns:
      [N].
    """
    if temperature == 0:
        return np.asarray(theory.lenient_greedy_alpha(p, q, lenience))
    return np.asarray(theory.lenient_alpha(p, q, lenience))


def mean_with_interval(
    values: np.ndarray, sequence: np.ndarray
) -> tuple[float, tuple[float, float]]:
    """The mean over positions, and its 95% interval by sequences.

    Positions of a sequence are not independent, sequences are: the mean is a ratio of
    sums over sequences, with the variance of such a ratio,
    S/(S-1) sum_s (sum of s - mean n_s)^2 / N^2. Of one sequence the interval is all of
    [0, 1], in which the values lie.

    Args:
      values: [N], in [0, 1].
      sequence: [N], which sequence each is of.
    """
    _, index = np.unique(sequence, return_inverse=True)
    sums, counts = np.bincount(index, values), np.bincount(index)
    mean = float(sums.sum() / counts.sum())
    number = len(counts)
    if number < 2:
        return mean, (0.0, 1.0)
    variance = np.sum((sums - mean * counts) ** 2) * number / (number - 1)
    half = NORMAL_95 * float(np.sqrt(variance)) / counts.sum()
    return mean, (max(0.0, float(mean - half)), min(1.0, float(mean + half)))
