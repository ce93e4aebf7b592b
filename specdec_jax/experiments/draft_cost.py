"""What a guess costs, for drafters with a network and for those without."""

import functools
from collections.abc import Mapping

import jax.numpy as jnp
import numpy as np

from specdec_jax.decoding.autoregressive import Autoregressive
from specdec_jax.decoding.compiled import Decoder
from specdec_jax.decoding.contracts import LanguageModel
from specdec_jax.decoding.speculative import PairParams, Speculative
from specdec_jax.drafters.constant import ConstantDrafter
from specdec_jax.drafters.neural import NeuralDrafter
from specdec_jax.pair import Pair
from specdec_jax.typing import Any


def draft_loops(
    pair: Pair, gamma: int, steps: int, eos_id: int
) -> dict[str, tuple[Decoder, Any, int]]:
    """The loops to time: decoders with their parameters and gamma, by name.

    A network's guess is a step of its own decoding. Without a network there is no such
    loop, and a guess is cheap: two speculative loops over a target that costs nothing,
    one with the drafter and one with a constant, differ by nothing but the guesses.

    Args:
      pair: to measure.
      gamma: guesses a step of the latter.
      steps: tokens of each loop.
      eos_id: ends a loop.
    """
    drafter, params = pair.drafter, pair.params.drafter
    if isinstance(drafter, NeuralDrafter):
        return {"draft": (Autoregressive(drafter.model, steps, eos_id), params, 0)}
    sizes = pair.target.vocab_size, pair.target.padded_vocab_size

    def loop(drafter, params):
        decoder = Speculative(_free_target(*sizes), drafter, gamma, steps, eos_id)
        return decoder, PairParams(target={}, drafter=params), gamma

    return {
        "drafting": loop(drafter, params),
        "idle": loop(ConstantDrafter(*sizes), {}),
    }


def seconds_per_guess(times: Mapping[str, np.ndarray], gamma: int) -> np.ndarray:
    """From the seconds of a step of each of the `draft_loops`, one a measurement."""
    if "draft" in times:
        return times["draft"]
    return np.maximum(times["drafting"] - times["idle"], 0.0) / gamma


@functools.cache
def _free_target(vocab_size: int, padded_vocab_size: int) -> LanguageModel:
    """A target to which all tokens are alike."""

    def start(params, inputs, slots):
        return {}

    def extend(params, cache, tokens, lengths):
        logits = jnp.zeros((*tokens.shape, padded_vocab_size))
        return logits, logits[..., :1], cache

    return LanguageModel(vocab_size, padded_vocab_size, start, extend)
