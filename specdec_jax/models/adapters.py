"""A network and its configuration -> the functions that a loop calls."""

import dataclasses
import functools

import jax.numpy as jnp

from specdec_jax.decoding.contracts import LanguageModel
from specdec_jax.models.families import ModelConfig
from specdec_jax.models.gpt import GPT, GPTConfig
from specdec_jax.models.t5 import T5, T5Config
from specdec_jax.typing import Array, Bool, Int32, record


@record
class EncoderInputs:
    """The source text of an encoder-decoder model."""

    tokens: Int32[Array, "B E"]
    mask: Bool[Array, "B E"]  # False at padding


@record
class NoInputs:
    """What a decoder-only model conditions on besides its prompt: nothing, B times."""

    rows: Bool[Array, " B"]


def source_tokens(inputs: EncoderInputs) -> Int32[Array, "B E"]:
    """The source's ids, -1 at padding: what prompt lookup may copy from."""
    return jnp.where(inputs.mask, inputs.tokens, -1)


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


@functools.cache
def t5_language_model(config: T5Config) -> LanguageModel:
    """A T5 for the loops; its `inputs` are `EncoderInputs`. One object a config."""
    model = T5(config)

    def start(params, inputs, slots):
        return model.apply(
            {"params": params}, inputs.tokens, inputs.mask, slots, method="start_cache"
        )

    def extend(params, cache, tokens, lengths, taps=()):
        given = (cache, tokens, lengths, taps)
        return model.apply({"params": params}, *given, method="extend")

    return LanguageModel(
        config.vocab_size,
        config.padded_vocab_size,
        start,
        extend,
        num_layers=config.num_decoder_layers,
    )


@functools.cache
def gpt_language_model(config: GPTConfig) -> LanguageModel:
    """A GPT for the loops; its `inputs` are `NoInputs`. One object a config."""
    model = GPT(config)

    def start(params, inputs, slots):
        batch = inputs.rows.shape[0]
        cache = model.apply({"params": params}, batch, slots, method="start_cache")
        return cache, None

    def extend(params, cache, tokens, lengths, taps=()):
        given = (cache, tokens, lengths, taps)
        return model.apply({"params": params}, *given, method="extend")

    return LanguageModel(
        config.vocab_size,
        config.padded_vocab_size,
        start,
        extend,
        max_length=config.max_length,
        num_layers=config.num_layers,
    )


def language_model(config: ModelConfig) -> LanguageModel:
    """A network of any family for the loops. One object a config."""
    if isinstance(config, GPTConfig):
        return gpt_language_model(config)
    return t5_language_model(config)
