"""A network and its configuration -> the functions that a loop calls."""

import dataclasses
import functools

import jax.numpy as jnp

from specdec_jax.decoding.contracts import LanguageModel
from specdec_jax.models.config import ModelConfig


@functools.cache
def language_model(config: ModelConfig) -> LanguageModel:
    """A network of any family for the loops. One object a configuration."""
    model = config.network()

    def start(params, inputs, slots):
        return model.apply({"params": params}, inputs, slots, method="start_cache")

    def extend(params, cache, tokens, lengths, taps=()):
        given = (cache, tokens, lengths, taps)
        return model.apply({"params": params}, *given, method="extend")

    return LanguageModel(
        config.vocab_size,
        config.padded_vocab_size,
        start,
        extend,
        max_length=config.positions,
        num_layers=config.decoder_layers,
    )


@functools.cache
def widened(model: LanguageModel, padded_vocab_size: int) -> LanguageModel:
    """The same model with more padding after its vocabulary; its logits are masked.

    Two models of one vocabulary may be padded differently, and a loop compares their
    distributions id by id.
    """
    more = padded_vocab_size - model.padded_vocab_size
    if more == 0:
        return model

    def extend(params, cache, tokens, lengths, taps=()):
        logits, features, cache = model.extend(params, cache, tokens, lengths, taps)
        return jnp.pad(logits, ((0, 0), (0, 0), (0, more))), features, cache

    return dataclasses.replace(
        model, padded_vocab_size=padded_vocab_size, extend=extend
    )
