"""Unigrams, bigrams and longer n-grams: look-ups of what followed in a text.

`training/ngram.py` fits the tables, `checkpoints/ngram.py` keeps them in a file.
"""

import dataclasses
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from specdec_jax.decoding.contracts import Commit, Draw, Prompt, Proposal
from specdec_jax.drafters.base import RuleBasedDrafter
from specdec_jax.sampling import Warp, standardize_rows
from specdec_jax.typing import Array, Float32, Int32, PyTree, record

NOTHING = -1  # before the first token of a row


@record
class NGramTable:
    """What followed each context of one length: C contexts and X successors.

    Context i's successors are at first[i] .. first[i + 1] - 1. The arrays of successors
    end in `max_successors` unused places, so that a slice of that size always fits.
    """

    keys: Array  # uint32 [C], ascending: `context_key` of each context
    first: Int32[Array, " C+1"]
    tokens: Array  # uint16 or int32 [X + max_successors]
    probs: Float32[Array, " X+max_successors"]  # those of a context sum to at most 1


@record
class NGramParams:
    """An n-gram's parameters. A unigram has no tables."""

    unigram: Float32[Array, " V"]  # a distribution; without padding
    tables: tuple[NGramTable, ...]  # of contexts of 1, 2, ... order - 1 tokens
    max_successors: int = struct.field(pytree_node=False)  # the most of any context

    @classmethod
    def from_arrays(
        cls, unigram: np.ndarray, tables: Sequence[NGramTable]
    ) -> "NGramParams":
        """On the device, from numpy arrays without unused places."""
        widest = max((int(np.diff(table.first).max()) for table in tables), default=0)
        dtype = np.uint16 if len(unigram) <= 2**16 else np.int32

        def ready(table):
            return NGramTable(
                keys=jnp.asarray(table.keys, np.uint32),
                first=jnp.asarray(table.first, np.int32),
                tokens=jnp.asarray(np.pad(table.tokens, (0, widest)), dtype),
                probs=jnp.asarray(np.pad(table.probs, (0, widest)), np.float32),
            )

        return cls(
            unigram=jnp.asarray(unigram, np.float32),
            tables=tuple(map(ready, tables)),
            max_successors=widest,
        )

    @property
    def order(self) -> int:
        """n; 1 is the unigram, 2 the bigram."""
        return len(self.tables) + 1


def context_key(tokens: Array | np.ndarray) -> Array | np.ndarray:
    """Where a context is found: a 32-bit hash of its tokens, over the last axis.

    Contexts of one token have unlike keys, for each step is one-to-one. Longer ones may
    share a key, and then their counts too: that costs a little alpha, and no exactness.

    Args:
      tokens: [..., n] int32, ids or `NOTHING`.

    Returns:
      [...] uint32.
    """
    key = (0 * tokens[..., 0]).astype(np.uint32)
    for i in range(tokens.shape[-1]):
        key = (key ^ tokens[..., i].astype(np.uint32)) * np.uint32(0x9E3779B1)
        key = key ^ (key >> np.uint32(15))
    return key


def next_probs(
    params: NGramParams, history: Int32[Array, " K"]
) -> Float32[Array, " V"]:
    """P(x | history) of each id x, backed off from long contexts to shorter ones.

      P_1(x) = unigram(x)
      P_n(x | h) = table(x | h) + (1 - sum_y table(y | h)) P_{n-1}(x | h')

    with h' being h without its oldest token; a context that is not in its table has
    nothing there. With a unigram of .5 .25 .25 and a table that gives id 2 a
    probability of .5 after some token, P_2 after that token is .25 .125 .625.

    Args:
      params: the n-gram's.
      history: the newest order - 1 tokens, `NOTHING` before a row's first.
    """
    probs = params.unigram
    for n, table in enumerate(params.tables, 1):
        key = context_key(history[history.shape[0] - n :])
        tokens, seen = _successors(table, key, params.max_successors)
        left = jnp.maximum(1.0 - jnp.sum(seen), 0.0)
        probs = (left * probs).at[tokens].add(seen)
    return probs


def _successors(
    table: NGramTable, key: Array, size: int
) -> tuple[Int32[Array, " X"], Float32[Array, " X"]]:
    """Ids and probabilities of a context's successors, the latter 0 past the last."""
    i = jnp.minimum(jnp.searchsorted(table.keys, key), table.keys.shape[0] - 1)
    start, end = table.first[i], table.first[i + 1]
    count = jnp.where(table.keys[i] == key, end - start, 0)
    tokens = jax.lax.dynamic_slice(table.tokens, (start,), (size,))
    probs = jax.lax.dynamic_slice(table.probs, (start,), (size,))
    return tokens.astype(jnp.int32), jnp.where(jnp.arange(size) < count, probs, 0.0)


@dataclasses.dataclass(frozen=True)
class NGramDrafter(RuleBasedDrafter):
    """Draws from an n-gram of any order, standardized as the target is.

    Its parameters are `NGramParams`, its state the newest order - 1 tokens of each row.
    """

    def init(
        self,
        params: NGramParams,
        inputs: PyTree,
        context: PyTree,
        prompt: Prompt,
        prompt_features: Array | None,
        slots: int,
    ) -> Int32[Array, "B K"]:
        size = params.order - 1
        before = ((0, 0), (size, 0))
        padded = jnp.pad(prompt.tokens, before, constant_values=NOTHING)
        return _slices(padded, prompt.lengths, size)

    def propose(
        self,
        params: NGramParams,
        state: Int32[Array, "B K"],
        draw: Draw,
        warp: Warp,
        gamma: Int32[Array, " B"],
    ) -> tuple[Proposal, Int32[Array, "B K"]]:
        """Draws x_i ~ q_i one after the other, up to the largest gamma of any row."""
        batch, width = gamma.shape[0], draw.max_gamma
        padding = ((0, 0), (0, self.padded_vocab_size - self.vocab_size))

        def body(i, carry):
            history, tokens, probs = carry
            seen = jax.vmap(next_probs, (None, 0))(params, history)
            logits = jnp.log(jnp.pad(seen, padding))[:, None]
            q = standardize_rows(logits, warp, self.vocab_size)
            token = draw(q[:, 0], i)[:, None]
            return (
                jnp.concatenate([history, token], axis=1)[:, 1:],
                jax.lax.dynamic_update_slice(tokens, token, (0, i)),
                jax.lax.dynamic_update_slice(probs, q, (0, i, 0)),
            )

        tokens = jnp.zeros((batch, width), jnp.int32)
        probs = jnp.zeros((batch, width, self.padded_vocab_size), jnp.float32)
        carry = (state, tokens, probs)
        _, tokens, probs = jax.lax.fori_loop(0, gamma.max(), body, carry)
        return Proposal(tokens, probs, num_drafted=gamma), state

    def commit(
        self, params: NGramParams, state: Int32[Array, "B K"], commit: Commit
    ) -> Int32[Array, "B K"]:
        grown = jnp.concatenate([state, commit.tokens], axis=1)
        newest = _slices(grown, commit.num_accepted + 1, state.shape[1])
        return jnp.where(commit.active[:, None], newest, state)


def _slices(
    tokens: Int32[Array, "B T"], start: Int32[Array, " B"], size: int
) -> Int32[Array, "B K"]:
    """`size` tokens of each row, from its own start on."""
    return jax.vmap(lambda row, i: jax.lax.dynamic_slice(row, (i,), (size,)))(
        tokens, start
    )
