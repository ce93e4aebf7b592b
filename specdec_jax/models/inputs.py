"""What a network conditions on besides its own tokens, and its prompts."""

from collections.abc import Sequence

import jax.numpy as jnp

from specdec_jax.data import batching
from specdec_jax.data.tokenizer import SpecialIds
from specdec_jax.decoding.contracts import Prompt
from specdec_jax.typing import Array, Bool, Int32, record

BUCKET = 8  # inputs are padded to a multiple

Encoded = Sequence[Sequence[int]]


@record
class EncoderInputs:
    """The source of an encoder-decoder model."""

    tokens: Int32[Array, "B E"]
    mask: Bool[Array, "B E"]  # False at padding


@record
class NoInputs:
    """What a decoder-only model conditions on besides its prompt: nothing, B times."""

    rows: Bool[Array, " B"]


def source_tokens(inputs: EncoderInputs) -> Int32[Array, "B E"]:
    """The source's ids, -1 at padding: what prompt lookup may copy from."""
    return jnp.where(inputs.mask, inputs.tokens, -1)


def answer(encoded: Encoded, ids: SpecialIds) -> tuple[EncoderInputs, Prompt]:
    """An encoder-decoder reads its inputs, and begins with the start token."""
    batch = len(encoded)
    width = batching.bucketed(max(map(len, encoded)), BUCKET)
    inputs = EncoderInputs(
        tokens=jnp.asarray(batching.pad(encoded, width, ids.pad_id)),
        mask=jnp.asarray(batching.lengths_mask(encoded, width, batch)),
    )
    start = jnp.full((batch, 1), ids.start_id, jnp.int32)
    return inputs, Prompt(tokens=start, lengths=jnp.ones(batch, jnp.int32))


def go_on(encoded: Encoded, ids: SpecialIds) -> tuple[NoInputs, Prompt]:
    """A decoder-only model's inputs come after the start token, of unlike lengths."""
    batch = len(encoded)
    started = [[ids.start_id, *tokens] for tokens in encoded]
    lengths = [len(tokens) for tokens in started]
    width = batching.bucketed(max(lengths), BUCKET)
    prompt = Prompt(
        tokens=jnp.asarray(batching.pad(started, width, ids.pad_id)),
        lengths=jnp.asarray(lengths, jnp.int32),
    )
    return NoInputs(rows=jnp.ones(batch, bool)), prompt
