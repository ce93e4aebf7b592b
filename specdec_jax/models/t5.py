"""T5, v1.1 (gated GELU, untied logits) and v1.0 (ReLU, tied), in Flax linen.

The parameter tree has the names and shapes of T5X's `examples/t5`, so that its
checkpoints load without renaming. What decoding needs is here as methods: `encode`
once, `cross_keys_values` once, `extend` for each block of tokens.
"""

from collections.abc import Sequence

import flax.linen as nn
import jax.numpy as jnp

from specdec_jax.axes import constrain
from specdec_jax.models import attention
from specdec_jax.models import cache as kv
from specdec_jax.models.config import check_network
from specdec_jax.models.layers import (
    Dense,
    Dropout,
    Embed,
    FeedForward,
    RMSNorm,
)
from specdec_jax.typing import (
    Array,
    Bool,
    Callable,
    Float,
    Float32,
    Int32,
    record,
    self_checked,
)


@self_checked
class T5Config:
    """The sizes of a T5, with T5X's names.

    Attributes:
      vocab_size: ids that a tokenizer can give; logits past them are never drawn.
      padded_vocab_size: rows of the embedding and of the logits, V.
      emb_dim, num_heads, head_dim, mlp_dim: D, N, H, F.
      num_encoder_layers, num_decoder_layers: L of each stack.
      mlp_activations: ("gelu", "linear") in v1.1, ("relu",) in v1.0.
      logits_via_embedding: tied logits, scaled by D^-0.5 (v1.0).
      shared_relative_bias: one bias for all layers of a stack; False for one a layer,
        as T5X's `scalable_t5` has it.
      dropout_rate: in training.
      dtype: "float32" or "bfloat16", of weights and activations; norms, attention
        softmax and logits are float32 in both. float16 overflows in T5.
      packed: whether kernels that share an input are stored as one. Weights are drawn
        unpacked, and packed by `packing.pack`.
    """

    vocab_size: int
    padded_vocab_size: int
    emb_dim: int
    num_heads: int
    head_dim: int
    mlp_dim: int
    num_encoder_layers: int
    num_decoder_layers: int
    mlp_activations: Sequence[str] = ("gelu", "linear")
    logits_via_embedding: bool = False
    shared_relative_bias: bool = True
    relative_attention_num_buckets: int = 32
    relative_attention_max_distance: int = 128
    dropout_rate: float = 0.1
    dtype: str = "float32"
    packed: bool = False

    def __post_init__(self):
        check_network(self, ("num_encoder_layers", "num_decoder_layers"))
        object.__setattr__(self, "mlp_activations", tuple(self.mlp_activations))


@record
class DecoderCache:
    """All that a decoder remembers: its own past, and the input.

    Attributes:
      past: self-attention keys and values of each layer, S slots.
      encoded: cross-attention keys and values of each layer, E positions.
      encoder_bias: [B, 1, 1, E], hides padded encoder positions.
    """

    past: tuple[kv.KeyValues, ...]
    encoded: tuple[kv.KeyValues, ...]
    encoder_bias: Float32[Array, "B 1 1 E"]


class EncoderLayer(nn.Module):
    config: T5Config

    def setup(self):
        c = self.config
        dtype = jnp.dtype(c.dtype)
        if not c.shared_relative_bias:
            self.relpos_bias = _relative_bias(c, bidirectional=True)
        self.pre_attention_layer_norm = RMSNorm(dtype)
        self.attention = attention.SelfAttention(**_attention_sizes(c))
        self.pre_mlp_layer_norm = RMSNorm(dtype)
        self.mlp = FeedForward(**_feed_forward_sizes(c))
        self.dropout = Dropout(c.dropout_rate)

    def __call__(self, x, bias, deterministic):
        h, _ = self.attention(self.pre_attention_layer_norm(x), bias, deterministic)
        x = x + self.dropout(h, deterministic)
        h = self.mlp(self.pre_mlp_layer_norm(x), deterministic)
        return x + self.dropout(h, deterministic)


class DecoderLayer(nn.Module):
    config: T5Config

    def setup(self):
        c = self.config
        dtype = jnp.dtype(c.dtype)
        if not c.shared_relative_bias:
            self.relpos_bias = _relative_bias(c, bidirectional=False)
        self.pre_self_attention_layer_norm = RMSNorm(dtype)
        self.self_attention = attention.SelfAttention(**_attention_sizes(c))
        self.pre_cross_attention_layer_norm = RMSNorm(dtype)
        self.encoder_decoder_attention = attention.CrossAttention(**_attention_sizes(c))
        self.pre_mlp_layer_norm = RMSNorm(dtype)
        self.mlp = FeedForward(**_feed_forward_sizes(c))
        self.dropout = Dropout(c.dropout_rate)

    def cross_keys_values(self, encoded):
        return self.encoder_decoder_attention.keys_values(encoded)

    def __call__(
        self, x, bias, encoded, encoder_bias, deterministic, cache=None, lengths=None
    ):
        h, past = self.self_attention(
            self.pre_self_attention_layer_norm(x), bias, deterministic, cache, lengths
        )
        x = x + self.dropout(h, deterministic)
        h = self.encoder_decoder_attention(
            self.pre_cross_attention_layer_norm(x), encoded, encoder_bias, deterministic
        )
        x = x + self.dropout(h, deterministic)
        h = self.mlp(self.pre_mlp_layer_norm(x), deterministic)
        return x + self.dropout(h, deterministic), past


class Encoder(nn.Module):
    config: T5Config

    def setup(self):
        c = self.config
        if c.shared_relative_bias:
            self.relpos_bias = _relative_bias(c, bidirectional=True)
        self.layers = [EncoderLayer(c) for _ in range(c.num_encoder_layers)]
        self.encoder_norm = RMSNorm(jnp.dtype(c.dtype))
        self.dropout = Dropout(c.dropout_rate)
        # The one dropout of T5X with a mask of its own for each position.
        self.output_dropout = nn.Dropout(c.dropout_rate)

    def __call__(self, x, mask, deterministic):
        padding, length = attention.padding_bias(mask), x.shape[1]
        biases = _of_layers(
            self, lambda relative: attention.encoder_bias(relative, length) + padding
        )
        x = self.dropout(x, deterministic)
        for layer, bias in zip(self.layers, biases, strict=True):
            x = layer(x, bias, deterministic)
        return self.output_dropout(self.encoder_norm(x), deterministic)


class Decoder(nn.Module):
    config: T5Config

    def setup(self):
        c = self.config
        if c.shared_relative_bias:
            self.relpos_bias = _relative_bias(c, bidirectional=False)
        self.layers = [DecoderLayer(c) for _ in range(c.num_decoder_layers)]
        self.decoder_norm = RMSNorm(jnp.dtype(c.dtype))
        self.dropout = Dropout(c.dropout_rate)
        if not c.logits_via_embedding:
            self.logits_dense = Dense(
                c.padded_vocab_size,
                jnp.dtype(c.dtype),
                out_dtype=jnp.dtype(jnp.float32),
            )

    def cross_keys_values(self, encoded):
        return tuple(layer.cross_keys_values(encoded) for layer in self.layers)

    def __call__(
        self, x, encoded, encoder_bias, deterministic, past=None, lengths=None, taps=()
    ):
        """The output [B, T, D], the cache with the block, and the tapped layers'."""
        block = jnp.arange(x.shape[1], dtype=jnp.int32)[None, :]
        if past is None:
            positions, slots = block, x.shape[1]
            past = [None] * len(self.layers)
        else:
            positions, slots = lengths[:, None] + block, past[0].keys.shape[2]
        biases = _of_layers(
            self, lambda relative: attention.decoder_bias(relative, positions, slots)
        )
        x = self.dropout(x, deterministic)
        seen, outputs = [], []
        for layer, bias, cross, own in zip(
            self.layers, biases, encoded, past, strict=True
        ):
            x, own = layer(x, bias, cross, encoder_bias, deterministic, own, lengths)
            seen.append(own)
            outputs.append(x)
        x = self.dropout(self.decoder_norm(x), deterministic)
        return x, tuple(seen), attention.tapped(outputs, taps)


class T5(nn.Module):
    """Encoder, decoder and logits of one T5."""

    config: T5Config

    def setup(self):
        c = self.config
        self.token_embedder = Embed(c.padded_vocab_size, c.emb_dim, jnp.dtype(c.dtype))
        self.encoder = Encoder(c)
        self.decoder = Decoder(c)

    def __call__(
        self,
        encoder_tokens: Int32[Array, "B E"],
        encoder_mask: Bool[Array, "B E"],
        decoder_tokens: Int32[Array, "B T"],
        deterministic: bool = True,
    ) -> Float32[Array, "B T V"]:
        """Teacher forcing: logits of the token after each decoder position.

        Args:
          encoder_tokens: the input.
          encoder_mask: True at its tokens, False at padding.
          decoder_tokens: the output shifted right, from the start token 0 on.
          deterministic: False for dropout, which needs a "dropout" rng.
        """
        encoded = self.encode(encoder_tokens, encoder_mask, deterministic)
        output, _, _ = self.decoder(
            self.token_embedder(decoder_tokens),
            self.decoder.cross_keys_values(encoded),
            attention.padding_bias(encoder_mask),
            deterministic,
        )
        return self._logits(output)

    def encode(
        self,
        tokens: Int32[Array, "B E"],
        mask: Bool[Array, "B E"],
        deterministic: bool = True,
    ) -> Float[Array, "B E D"]:
        """The encoder's output, once for an input."""
        return self.encoder(self.token_embedder(tokens), mask, deterministic)

    def start_cache(
        self, tokens: Int32[Array, "B E"], mask: Bool[Array, "B E"], slots: int
    ) -> tuple[DecoderCache, Float[Array, "B E D"]]:
        """Encodes an input; the cache of a decoder that has seen no token of its own.

        Args:
          tokens, mask: the input, as in `encode`.
          slots: S, how many decoder tokens the cache has room for.

        Returns:
          The cache, and the encoder's output.
        """
        context = self.encode(tokens, mask)
        encoded = self.decoder.cross_keys_values(context)
        c = self.config
        past = tuple(
            kv.empty(
                tokens.shape[0], c.num_heads, slots, c.head_dim, jnp.dtype(c.dtype)
            )
            for _ in range(c.num_decoder_layers)
        )
        return DecoderCache(past, encoded, attention.padding_bias(mask)), context

    def extend(
        self,
        cache: DecoderCache,
        tokens: Int32[Array, "B T"],
        lengths: Int32[Array, " B"],
        taps: tuple[int, ...] = (),
    ) -> tuple[Float32[Array, "B T V"], Float[Array, "B T K D"] | None, DecoderCache]:
        """Scores T tokens put at each row's own length.

        Returns:
          Logits of the token after each of them, the outputs of the tapped decoder
          layers, and the cache with the T tokens written at lengths .. lengths + T - 1.
        """
        output, past, features = self.decoder(
            self.token_embedder(tokens),
            cache.encoded,
            cache.encoder_bias,
            True,
            cache.past,
            lengths,
            taps,
        )
        return self._logits(output), features, cache.replace(past=past)

    def _logits(self, output):
        if self.config.logits_via_embedding:
            # Scaled last: the scale would cost bfloat16 output a rounding.
            logits = self.token_embedder.attend(output) * self.config.emb_dim**-0.5
        else:
            logits = self.decoder.logits_dense(output)
        return constrain(logits, "batch", "length", "vocab")


def _relative_bias(config: T5Config, bidirectional: bool):
    return attention.RelativeBias(
        num_heads=config.num_heads,
        bidirectional=bidirectional,
        num_buckets=config.relative_attention_num_buckets,
        max_distance=config.relative_attention_max_distance,
    )


def _of_layers(stack: Encoder | Decoder, bias: Callable) -> list[Array]:
    """The bias of each layer of a stack; computed once if they share it."""
    if stack.config.shared_relative_bias:
        return [bias(stack.relpos_bias)] * len(stack.layers)
    return [bias(layer.relpos_bias) for layer in stack.layers]


def _attention_sizes(config: T5Config) -> dict:
    return {
        "width": config.emb_dim,
        "num_heads": config.num_heads,
        "head_size": config.head_dim,
        "dropout_rate": config.dropout_rate,
        "dtype": jnp.dtype(config.dtype),
        "packed": config.packed,
    }


def _feed_forward_sizes(config: T5Config) -> dict:
    return {
        "width": config.emb_dim,
        "hidden": config.mlp_dim,
        "activations": config.mlp_activations,
        "dropout_rate": config.dropout_rate,
        "dtype": jnp.dtype(config.dtype),
        "packed": config.packed,
    }
