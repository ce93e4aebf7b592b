"""Models small enough to know exactly, behind the same contract as the real ones.

A `table_model`'s next-token logits are a look-up by the last two tokens of its cache,
so a wrong cache shows at once, and the law of any output can be summed by hand.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from specdec_jax.decoding.contracts import LanguageModel, Prompt

EOS = 1


@functools.cache
def table_model(vocab_size: int, padded: int | None = None) -> LanguageModel:
    """Logits of the token after (a, b) are params["table"][a, b] plus the row's input.

    `inputs` is [B, V] of logits added at every place, or None. Its features are the
    logits themselves.
    """

    def start(params, inputs, slots):
        batch = params["batch"] if inputs is None else inputs.shape[0]
        add = jnp.zeros((batch, width())) if inputs is None else inputs
        return {"tokens": jnp.full((batch, slots), -1, jnp.int32), "add": add}

    def width():
        return padded or vocab_size

    def extend(params, cache, tokens, lengths):
        write = jax.vmap(jax.lax.dynamic_update_slice)
        seen = write(cache["tokens"], tokens, (lengths,))
        place = lengths[:, None] + jnp.arange(tokens.shape[1], dtype=jnp.int32)[None]
        before = jnp.take_along_axis(seen, jnp.maximum(place - 1, 0), axis=1)
        before = jnp.where(place > 0, before, 0)
        logits = params["table"][before, tokens] + cache["add"][:, None]
        return logits, logits, {"tokens": seen, "add": cache["add"]}

    return LanguageModel(vocab_size, width(), start, extend)


def random_table(seed: int, vocab_size: int, scale: float = 1.0) -> dict:
    """Parameters of a `table_model`; the larger the scale, the more certain it is."""
    random = np.random.default_rng(seed)
    table = scale * random.normal(size=(vocab_size, vocab_size, vocab_size))
    return {"table": jnp.asarray(table, jnp.float32)}


def start_prompt(batch: int) -> Prompt:
    """The start token 0 for every row, as a T5 has it."""
    return Prompt(jnp.zeros((batch, 1), jnp.int32), jnp.ones(batch, jnp.int32))


def no_inputs(batch: int, vocab_size: int) -> jax.Array:
    """Inputs of a `table_model` that add nothing."""
    return jnp.zeros((batch, vocab_size), jnp.float32)
