"""The encoder and the decoder of a T5: their layers and their attention biases."""

import flax.linen as nn
import jax.numpy as jnp

from specdec_jax.models import attention
from specdec_jax.models.config import ModelConfig
from specdec_jax.models.layers import Dense, Dropout, FeedForward, RMSNorm
from specdec_jax.typing import Array, Callable


class EncoderLayer(nn.Module):
    config: ModelConfig

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
    config: ModelConfig

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
    config: ModelConfig

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
        biases = _layer_biases(
            self, lambda relative: attention.encoder_bias(relative, length) + padding
        )
        x = self.dropout(x, deterministic)
        for layer, bias in zip(self.layers, biases, strict=True):
            x = layer(x, bias, deterministic)
        return self.output_dropout(self.encoder_norm(x), deterministic)


class Decoder(nn.Module):
    config: ModelConfig

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
                c.lowering,
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
        one_hot = self.config.lowering.one_hot_bias
        biases = _layer_biases(
            self,
            lambda relative: attention.decoder_bias(
                relative, positions, slots, one_hot
            ),
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


def _relative_bias(config: ModelConfig, bidirectional: bool):
    return attention.RelativeBias(
        num_heads=config.num_heads,
        bidirectional=bidirectional,
        num_buckets=config.relative_attention_num_buckets,
        max_distance=config.relative_attention_max_distance,
    )


def _layer_biases(stack: Encoder | Decoder, bias: Callable) -> list[Array]:
    """The bias of each layer of a stack; computed once if they share it."""
    if stack.config.shared_relative_bias:
        return [bias(stack.relpos_bias)] * len(stack.layers)
    return [bias(layer.relpos_bias) for layer in stack.layers]


def _attention_sizes(config: ModelConfig) -> dict:
    return {
        "width": config.emb_dim,
        "num_heads": config.num_heads,
        "head_size": config.head_dim,
        "dropout_rate": config.dropout_rate,
        "dtype": jnp.dtype(config.dtype),
        "lowering": config.lowering,
    }


def _feed_forward_sizes(config: ModelConfig) -> dict:
    return {
        "width": config.emb_dim,
        "hidden": config.mlp_dim,
        "activations": config.mlp_activations,
        "dropout_rate": config.dropout_rate,
        "dtype": jnp.dtype(config.dtype),
        "lowering": config.lowering,
    }
