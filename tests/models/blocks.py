"""Decoding golden tokens from a cache, in blocks of which rows forget some."""

import itertools

import jax.numpy as jnp
import numpy as np

# Every decoding test begins with one block of this size, in a cache of one size, so
# that a block of any one size is compiled once for a network.
PREFIX = 9


def decode(golden, chunk: int, starts, keep, junk_seed: int):
    """Feeds every row its decoder tokens in blocks; returns the logits of each.

    Each block begins with tokens that the row keeps and ends with junk that it forgets,
    as after rejected guesses.

    Args:
      golden: the network and its tokens, of a T5 or of a GPT.
      chunk: T of every call but the first.
      starts: [B], how many tokens each row keeps of the first call, 1 to PREFIX.
      keep: step -> [B], how many tokens of its block each row keeps, 1 to chunk.
      junk_seed: of the ids that fill what is left of a block.

    Returns:
      Logits [B, T, V] of all decoder tokens.
    """
    tokens = np.asarray(golden.decoder_tokens)
    batch, total = tokens.shape
    rng = np.random.default_rng(junk_seed)
    cache = golden.start()
    result = np.full(golden.logits.shape, np.nan, np.float32)
    lengths = np.zeros(batch, np.int32)
    for step in itertools.count():
        kept = starts if step == 0 else keep(step)
        kept = np.minimum(kept, total - lengths)
        width = PREFIX if step == 0 else chunk
        block = rng.integers(0, golden.model.config.vocab_size, (batch, width))
        for row, (old, count) in enumerate(zip(lengths, kept, strict=True)):
            block[row, :count] = tokens[row, old : old + count]
        logits, _, cache = golden.extend(
            golden.variables, cache, jnp.asarray(block, jnp.int32), jnp.asarray(lengths)
        )
        for row, (old, count) in enumerate(zip(lengths, kept, strict=True)):
            result[row, old : old + count] = np.asarray(logits)[row, :count]
        lengths = (lengths + kept).astype(np.int32)
        if (lengths == total).all():
            return result
