"""Attention with a cache, and what is added to its logits.

T5's is not scaled by the head size, and one relative bias serves all layers; GPT's is
scaled, and its mask is all that is added.
"""

from collections.abc import Sequence

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from specdec_jax.axes import constrain
from specdec_jax.models import cache as kv
from specdec_jax.models.layers import Dense, DenseGroup, Dropout, padded
from specdec_jax.models.lowering import Lowering, precision_of
from specdec_jax.typing import Array, Bool, Float, Float32, Int32

# What is added to the attention logits of places that must not be seen. Finite, as in
# T5X: a row that may see nothing (padding) stays finite too.
MASKED = -1e10

# T5X's initializer of attention kernels, whose tails are not truncated.
attention_init = nn.initializers.variance_scaling(1.0, "fan_in", "normal")


def relative_buckets(
    distance: np.ndarray, bidirectional: bool, num_buckets: int, max_distance: int
) -> np.ndarray:
    """T5's bucket of each distance query position - key position.

    Half of the buckets are single distances, the others grow logarithmically up to
    `max_distance`; both directions share them in the encoder, and only the past has
    any in the decoder. Distances are known when a program is traced, so this is numpy.

    Args:
      distance: any shape, int; positive where the key is before the query.
      bidirectional: encoder (True) or decoder (False).
      num_buckets: in all.
      max_distance: from here on all distances share the last bucket.

    Returns:
      int32 of the same shape, in [0, num_buckets).
    """
    bucket = np.zeros_like(distance)
    if bidirectional:
        num_buckets //= 2
        bucket = np.where(distance < 0, num_buckets, 0)
        distance = np.abs(distance)
    else:
        distance = np.maximum(distance, 0)
    exact = num_buckets // 2
    # float32 throughout: the edges between buckets are part of the trained weights.
    ratio = np.maximum(distance, 1).astype(np.float32) / np.float32(exact)
    growth = np.log(ratio) / np.float32(np.log(max_distance / exact))
    logarithmic = exact + (growth * np.float32(num_buckets - exact)).astype(np.int32)
    logarithmic = np.minimum(logarithmic, num_buckets - 1)
    return (bucket + np.where(distance < exact, distance, logarithmic)).astype(np.int32)


class RelativeBias(nn.Module):
    """The learnt attention bias of a stack, shared by its layers."""

    num_heads: int
    bidirectional: bool
    num_buckets: int
    max_distance: int

    def setup(self):
        self.rel_embedding = self.param(
            "rel_embedding",
            nn.initializers.variance_scaling(1.0, "fan_avg", "uniform"),
            (self.num_heads, self.num_buckets),
            jnp.float32,
        )

    def by_distance(self, distances: np.ndarray) -> Float[Array, "N K"]:
        """Float32 bias of each head at each of K distances (numpy, known early)."""
        buckets = self._buckets(distances)
        return jnp.take(self.rel_embedding.astype(jnp.float32), buckets, axis=1)

    def by_one_hot(self, distance: Int32[Array, "B T S"]) -> Float[Array, "B N T S"]:
        """The same of a decoder at any distances, as a product.

        Buckets of the past grow with the distance, so that each has a first and a last.
        """
        buckets = self._buckets(np.arange(self.max_distance + 1))
        first = np.searchsorted(buckets, np.arange(self.num_buckets + 1))
        first[first > self.max_distance] = np.iinfo(np.int32).max
        first = first.astype(np.int32)[None, None, None]
        distance = jnp.maximum(distance, 0)[..., None]
        # [B, T, S, K]: whether a distance is in a bucket.
        is_in = (first[..., :-1] <= distance) & (distance < first[..., 1:])
        # Exact: a sum of one value and zeros.
        return jnp.einsum(
            "nk,btsk->bnts",
            self.rel_embedding,
            is_in.astype(self.rel_embedding.dtype),
            precision=precision_of(self.rel_embedding.dtype),
            preferred_element_type=jnp.float32,
        )

    def _buckets(self, distances: np.ndarray) -> np.ndarray:
        return relative_buckets(
            distances, self.bidirectional, self.num_buckets, self.max_distance
        )


def encoder_bias(bias: RelativeBias, length: int) -> Float[Array, "1 N E E"]:
    """Bias between every two of `length` encoder positions."""
    distances = np.arange(length)[:, None] - np.arange(length)[None, :]
    flat = bias.by_distance(distances.reshape(-1))
    return flat.reshape(1, -1, length, length)


def decoder_bias(
    bias: RelativeBias,
    positions: Int32[Array, "B T"],
    slots: int,
    one_hot: bool = False,
) -> Float[Array, "B N T S"]:
    """Causal bias of queries at any positions to every cache slot.

    A slot holds the token of its own position, so slots after a query's position, the
    leftovers of a rejected block among them, are masked here and nowhere else.

    Args:
      bias: of the stack.
      positions: of the queries.
      slots: S.
      one_hot: see `Lowering.one_hot_bias`.
    """
    distance = positions[:, :, None] - jnp.arange(slots, dtype=jnp.int32)[None, None]
    if one_hot:
        seen = bias.by_one_hot(distance)
    else:
        by_distance = bias.by_distance(np.arange(slots))  # N S
        heads_first = jnp.take(by_distance, jnp.clip(distance, 0, slots - 1), axis=1)
        seen = jnp.moveaxis(heads_first, 0, 1)
    return jnp.where(distance[:, None] >= 0, seen, MASKED)


def causal_bias(
    positions: Int32[Array, "B T"], slots: int
) -> Float32[Array, "B 1 T S"]:
    """Hides every slot after a query's position, as `decoder_bias` does."""
    slot = jnp.arange(slots, dtype=jnp.int32)[None, None]
    seen = slot <= positions[:, :, None]
    return jnp.where(seen, 0.0, MASKED).astype(jnp.float32)[:, None]


def padding_bias(mask: Bool[Array, "B E"]) -> Float[Array, "B 1 1 E"]:
    """Hides padded encoder positions from every query."""
    return jnp.where(mask, 0.0, MASKED).astype(jnp.float32)[:, None, None, :]


def tapped(
    outputs: Sequence[Float[Array, "B T D"]], taps: Sequence[int]
) -> Float[Array, "B T K D"] | None:
    """The outputs of the layers of a stack that are wanted, in the order of `taps`."""
    return jnp.stack([outputs[tap] for tap in taps], axis=2) if taps else None


class Attention(nn.Module):
    """What self- and cross-attention share: sizes, kernels and the mixing.

    T5's products have no biases and its logits are not scaled; GPT's have and are.
    """

    width: int
    num_heads: int
    head_size: int
    dropout_rate: float
    dtype: jnp.dtype
    lowering: Lowering = Lowering()
    use_bias: bool = False
    scaled: bool = False  # attention logits, by H^-0.5

    def groups(self) -> list[DenseGroup]:
        """The kernels before the attention, grouped by the input they share."""
        raise NotImplementedError

    def setup(self):
        def query_init(*args):
            # T5 has no 1/sqrt(head size) in attention: its initializer has it.
            drawn = attention_init(*args)
            return drawn if self.scaled else drawn / np.sqrt(self.head_size)

        inits = {"query": query_init, "key": attention_init, "value": attention_init}
        for group in self.groups():
            group.declare(self, self.dtype, inits)
        self.out = Dense(
            self.width,
            self.dtype,
            self.lowering,
            attention_init,
            use_bias=self.use_bias,
        )
        # One mask for all queries, as in T5X.
        self.dropout = Dropout(self.dropout_rate)

    def _group(self, *names: str) -> DenseGroup:
        width = self.num_heads * self.head_size
        return DenseGroup(names, width, self.lowering, self.use_bias)

    def _project(self, group: DenseGroup, x: Array) -> list[Float[Array, "B N T H"]]:
        split = (*x.shape[:2], self.num_heads, self.head_size)
        return [
            constrain(jnp.swapaxes(y.reshape(split), 1, 2), *kv.AXES)
            for y in group.apply(self, x)
        ]

    def _mix(
        self,
        query: Float[Array, "B N T H"],
        seen: kv.KeyValues,
        bias: Float32[Array, "..."],
        deterministic: bool,
    ) -> Float[Array, "B T D"]:
        precision = precision_of(self.dtype)
        batch, _, length, _ = query.shape
        logits = jnp.einsum(
            "bnth,bnsh->bnts",
            padded(query, self.lowering.least_rows, axis=2),
            seen.keys,
            precision=precision,
            preferred_element_type=jnp.float32,
        )[:, :, :length]
        if self.scaled:
            logits = logits * self.head_size**-0.5
        weights = jax.nn.softmax(logits + bias, axis=-1).astype(self.dtype)
        weights = self.dropout(weights, deterministic)
        mixed = jnp.einsum(
            "bnts,bnsh->bnth",
            padded(weights, self.lowering.least_rows, axis=2),
            seen.values,
            precision=precision,
        )[:, :, :length]
        out = self.out(jnp.swapaxes(mixed, 1, 2).reshape(batch, length, -1))
        return constrain(out, "batch", "length", "embed")


class SelfAttention(Attention):
    """Attention of a block to itself, or to a cache that the block joins."""

    def groups(self):
        return [self._group("query", "key", "value")]

    def __call__(
        self,
        x: Float[Array, "B T D"],
        bias: Float32[Array, "..."],
        deterministic: bool,
        cache: kv.KeyValues | None = None,
        lengths: Int32[Array, " B"] | None = None,
    ) -> tuple[Float[Array, "B T D"], kv.KeyValues]:
        """Returns the output and the keys and values that were attended to."""
        query, keys, values = self._project(self.groups()[0], x)
        seen = kv.KeyValues(keys, values)
        if cache is not None:
            seen = kv.overwrite(cache, seen, lengths, self.lowering.cache_write)
        return self._mix(query, seen, bias, deterministic), seen


class CrossAttention(Attention):
    """Attention to the encoder, whose keys and values are computed once an input."""

    def groups(self):
        return [self._group("query"), self._group("key", "value")]

    def keys_values(self, encoded: Float[Array, "B E D"]) -> kv.KeyValues:
        """What every later call attends to."""
        return kv.KeyValues(*self._project(self.groups()[1], encoded))

    def __call__(
        self,
        x: Float[Array, "B T D"],
        encoded: kv.KeyValues,
        bias: Float32[Array, "B 1 1 E"],
        deterministic: bool,
    ) -> Float[Array, "B T D"]:
        (query,) = self._project(self.groups()[0], x)
        return self._mix(query, encoded, bias, deterministic)
