"""Real p and q of models with a network, by one pass over tokens that are known.

And the interval of a mean over tokens of several outputs.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from specdec_jax.data.tokenizer import PAD_ID
from specdec_jax.decoding.contracts import LanguageModel, Prompt
from specdec_jax.decoding.loop import at_index, prefill
from specdec_jax.errors import PairError
from specdec_jax.models.adapters import EncoderInputs, NoInputs
from specdec_jax.pair import Pair
from specdec_jax.sampling import Warp, standardize_rows
from specdec_jax.typing import Array, Float32, Int32, Params

LENGTH_BUCKET = 16  # outputs are padded to a multiple, so that few shapes compile
NORMAL_95 = 1.959964  # of a normal's mass, 95% lies so many deviations around its mean


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
    slots = prompt.tokens.shape[1] + width
    cache = prefill(model, params, inputs, prompt, slots).cache
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


def mean_with_interval(
    values: np.ndarray, sequence: np.ndarray
) -> tuple[float, tuple[float, float]]:
    """The mean over positions, and its 95% interval by sequences: `ratio_of_sums`.

    Args:
      values: [N], in [0, 1].
      sequence: [N], which sequence each is of.
    """
    if not len(values):
        return 0.0, (0.0, 1.0)
    _, index = np.unique(sequence, return_inverse=True)
    return ratio_of_sums(np.bincount(index, values), np.bincount(index))


def ratio_of_sums(
    sums: np.ndarray, counts: np.ndarray
) -> tuple[float, tuple[float, float]]:
    """The mean over all positions of sequences, and its 95% interval.

    Positions of a sequence are not independent, sequences are: the mean is a ratio of
    sums over sequences, with the variance of such a ratio,
    S/(S-1) sum_s (sum of s - mean n_s)^2 / N^2. Of one sequence the interval is all of
    [0, 1], in which the values lie; and so it is of nothing, with a mean of 0.

    Args:
      sums: [S], of the values of each sequence, each value in [0, 1].
      counts: [S], n_s, how many they are.
    """
    sums, counts = sums[counts > 0], counts[counts > 0]
    if not len(counts):
        return 0.0, (0.0, 1.0)
    mean = float(sums.sum() / counts.sum())
    number = len(counts)
    if number < 2:
        return mean, (0.0, 1.0)
    variance = np.sum((sums - mean * counts) ** 2) * number / (number - 1)
    half = NORMAL_95 * float(np.sqrt(variance)) / counts.sum()
    return mean, (max(0.0, float(mean - half)), min(1.0, float(mean + half)))
