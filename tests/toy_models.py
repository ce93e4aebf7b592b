"""Models small enough to know exactly, behind the same contract as the real ones.

A `table_model`'s next-token logits are a look-up by the last two tokens of its cache,
so a wrong cache shows at once, and the law of any output can be summed by hand
(`tests/reference.py`). `tiny_t5` and `tiny_gpt` are the real networks with random
weights.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np

from specdec_jax.decoding import compiled
from specdec_jax.decoding.contracts import Draw, LanguageModel, Prompt
from specdec_jax.decoding.state import DecodeResult, RowSettings
from specdec_jax.drafters.base import WrappedDrafter
from specdec_jax.models.adapters import language_model
from specdec_jax.models.config import ModelConfig
from specdec_jax.models.gpt import GPTConfig
from specdec_jax.models.inputs import EncoderInputs, NoInputs
from specdec_jax.models.parameters import random_params
from specdec_jax.models.t5 import T5Config
from specdec_jax.sampling import TokenRule, Warp, position_keys, row_keys

EOS = 1
NO_EOS = -1
PADDING_LOGIT = 9.0  # more than any real id's, so that a padded id would be drawn


@functools.cache
def table_model(vocab_size: int, padded: int | None = None) -> LanguageModel:
    """Logits of the token after (a, b) are params["table"][a, b] plus the row's input.

    `inputs` is [B, V] of logits added at every place. Its features are the logits
    themselves, of its one layer. The first token of a row has the token 0 before it.
    """

    def start(params, inputs, slots):
        empty = jnp.full((inputs.shape[0], slots), -1, jnp.int32)
        return {"tokens": empty, "add": inputs}, inputs

    def extend(params, cache, tokens, lengths, taps=()):
        write = jax.vmap(jax.lax.dynamic_update_slice)
        seen = write(cache["tokens"], tokens, (lengths,))
        place = lengths[:, None] + jnp.arange(tokens.shape[1], dtype=jnp.int32)[None]
        before = jnp.take_along_axis(seen, jnp.maximum(place - 1, 0), axis=1)
        before = jnp.where(place > 0, before, 0)
        logits = params["table"][before, tokens] + cache["add"][:, None]
        features = jnp.stack([logits] * len(taps), axis=2) if taps else None
        return logits, features, {"tokens": seen, "add": cache["add"]}

    width = padded or vocab_size
    return LanguageModel(vocab_size, width, start, extend, num_layers=1)


def table_params(table: np.ndarray, padded: int | None = None) -> dict:
    """Parameters of a `table_model` from [V, V, V] logits."""
    spare = (padded or table.shape[-1]) - table.shape[-1]
    table = np.pad(table, ((0, 0), (0, 0), (0, spare)), constant_values=PADDING_LOGIT)
    return {"table": jnp.asarray(table, jnp.float32)}


def random_table(seed: int, vocab_size: int, scale: float = 1.0) -> np.ndarray:
    """[V, V, V] logits; the larger the scale, the more certain."""
    random = np.random.default_rng(seed)
    return scale * random.normal(size=(vocab_size, vocab_size, vocab_size))


def similar_table(table: np.ndarray, seed: int, noise: float) -> np.ndarray:
    """A drafter's table: right at some places and wrong at others."""
    return table + noise * np.random.default_rng(seed).normal(size=table.shape)


def no_inputs(batch: int, vocab_size: int) -> jax.Array:
    """Inputs of a `table_model` that add nothing."""
    return jnp.zeros((batch, vocab_size), jnp.float32)


def random_inputs(seed: int, batch: int, vocab_size: int) -> jax.Array:
    """Inputs of a `table_model` that make each row another model."""
    values = np.random.default_rng(seed).normal(size=(batch, vocab_size))
    return jnp.asarray(values, jnp.float32)


@functools.cache
def tiny_t5(
    seed: int = 0,
    layers: int = 2,
    vocab_size: int = 30,
    padded: int = 32,
    dtype: str = "float32",
) -> tuple[LanguageModel, dict]:
    """A T5 of width 32 with random weights, and its parameters in float32."""
    config = T5Config(
        vocab_size=vocab_size,
        padded_vocab_size=padded,
        emb_dim=32,
        num_heads=2,
        head_dim=8,
        mlp_dim=32,
        num_encoder_layers=layers,
        num_decoder_layers=layers,
        dtype=dtype,
    )
    return language_model(config), lively_params(config, seed)


@functools.cache
def tiny_gpt(
    seed: int = 0,
    layers: int = 2,
    vocab_size: int = 30,
    padded: int = 32,
    max_length: int = 64,
) -> tuple[LanguageModel, dict]:
    """A GPT of width 32 with random weights, and its parameters in float32."""
    config = GPTConfig(vocab_size, padded, 32, 2, 8, 32, layers, max_length)
    return language_model(config), lively_params(config, seed)


def lively_params(config: ModelConfig, seed: int) -> dict:
    """Random weights with which outputs vary."""
    init = functools.partial(random_params, config)
    shapes = jax.eval_shape(init, jax.random.key(0))
    random = np.random.default_rng(seed)

    def weight(path, leaf):
        name, noise = path[-1].key, random.normal(size=leaf.shape)
        if name == "scale":
            values = 1 + 0.1 * noise
        elif name == "bias":
            values = 0.3 * noise
        elif name == "kernel":
            # Larger than usual: sure of itself, and unlike from token to token.
            values = 1.5 * noise / np.sqrt(leaf.shape[0])
        else:
            values = noise
        return jnp.asarray(values, jnp.float32)

    return jax.tree_util.tree_map_with_path(weight, shapes)


def similar_params(params: dict, seed: int, noise: float) -> dict:
    """A drafter's parameters: the target's, shaken."""
    random = np.random.default_rng(seed)

    def shaken(leaf):
        size = noise * np.std(np.asarray(leaf))
        return leaf + jnp.asarray(size * random.normal(size=leaf.shape), jnp.float32)

    return jax.tree.map(shaken, params)


def encoder_inputs(
    seed: int, lengths: tuple[int, ...], width: int, vocab_size: int = 30
) -> EncoderInputs:
    """Source texts of these lengths, padded to one width."""
    random = np.random.default_rng(seed)
    tokens = random.integers(2, vocab_size, (len(lengths), width))
    mask = np.arange(width)[None] < np.asarray(lengths)[:, None]
    return EncoderInputs(jnp.asarray(tokens * mask, jnp.int32), jnp.asarray(mask))


def only_prompts(batch: int) -> NoInputs:
    """Inputs of a decoder-only model."""
    return NoInputs(jnp.ones(batch, bool))


@dataclasses.dataclass(frozen=True)
class GreedyDrafter(WrappedDrafter):
    """Always drafts its model's likeliest token, and so declares a one-hot q."""

    def propose(self, params, state, draw, warp, gamma):
        argmax = Warp(jnp.zeros_like(warp.temperature), warp.top_k, warp.top_p)
        return self.inner.propose(params, state, draw, argmax, gamma)


@dataclasses.dataclass(frozen=True)
class HesitantDrafter(WrappedDrafter):
    """Stops after an odd token: a newest one, or one that it drafted.

    It decides on each draft token from what comes before it, as it must.
    """

    def propose(self, params, state, draw, warp, gamma):
        newest = jnp.take_along_axis(state.pending, state.num_pending[:, None] - 1, 1)
        proposal, state = self.inner.propose(params, state, draw, warp, gamma)
        before = jnp.concatenate([newest, proposal.tokens[:, :-1]], axis=1)
        bold = jnp.cumprod(1 - before % 2, axis=1).sum(axis=1)
        return proposal.replace(num_drafted=jnp.minimum(gamma, bold)), state


def draw_with(uniforms, rule=TokenRule()) -> Draw:
    """What a drafter draws with, from [B, G] uniform numbers."""
    uniforms = jnp.asarray(uniforms, jnp.float32)
    places = jnp.broadcast_to(
        jnp.arange(uniforms.shape[1], dtype=jnp.int32), uniforms.shape
    )
    return Draw(uniforms, position_keys(keys(len(uniforms)), places), rule)


def source_of(inputs) -> jax.Array:
    """Source tokens that differ from row to row: a `table_model`'s inputs, ranked."""
    return jnp.argsort(inputs, axis=1).astype(jnp.int32)


def start_prompt(batch: int) -> Prompt:
    """The start token 0 for every row, as a T5 has it."""
    return Prompt(jnp.zeros((batch, 1), jnp.int32), jnp.ones(batch, jnp.int32))


def prompt_of(*rows: list[int]) -> Prompt:
    """A prompt of unlike lengths; its padding is a token like any other."""
    width = max(map(len, rows))
    tokens = [row + [2] * (width - len(row)) for row in rows]
    lengths = [len(row) for row in rows]
    return Prompt(jnp.asarray(tokens, jnp.int32), jnp.asarray(lengths, jnp.int32))


def keys(batch: int, seed: int = 0, row_ids=None) -> jax.Array:
    ids = np.arange(batch) if row_ids is None else np.asarray(row_ids)
    return row_keys(jax.random.key(seed), jnp.asarray(ids, jnp.int32))


def decode(
    decoder: compiled.Decoder,
    params,
    inputs,
    rows: RowSettings,
    prompt: Prompt | None = None,
    seed: int = 0,
    row_ids=None,
) -> DecodeResult:
    """The jitted decode, from the start token if no prompt is given."""
    batch = rows.gamma.shape[0]
    return compiled.decode(
        decoder,
        keys(batch, seed, row_ids),
        params,
        inputs,
        start_prompt(batch) if prompt is None else prompt,
        rows,
    )
