"""T5, v1.1 (gated GELU, untied logits) and v1.0 (ReLU, tied), in Flax linen.

The parameter tree has the names and shapes of T5X's `examples/t5`, so that its
checkpoints load without renaming. What decoding needs is here as methods: `encode`
once, `cross_keys_values` once, `extend` for each block of tokens.
"""

from collections.abc import Sequence

import flax.linen as nn
import jax.numpy as jnp

from specdec_jax.axes import constrain
from specdec_jax.data.tokenizer import SpecialIds
from specdec_jax.decoding.contracts import Prompt
from specdec_jax.models import attention
from specdec_jax.models import cache as kv
from specdec_jax.models.config import COMMON_AXES, ModelConfig, check_network
from specdec_jax.models.inputs import EncoderInputs, answer
from specdec_jax.models.layers import Embed
from specdec_jax.models.lowering import Lowering
from specdec_jax.models.t5_stacks import Decoder, Encoder
from specdec_jax.typing import (
    Array,
    Bool,
    Float,
    Float32,
    Int32,
    record,
    self_checked,
)


@self_checked
class T5Config(ModelConfig):
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
      lowering: how it is computed, not what. Weights are drawn unpacked, and packed
        by `packing.pack`.
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
    lowering: Lowering = Lowering()

    family = "T5"
    format = "specdec_jax.t5"
    decoder_only = False
    sizes = (
        "padded_vocab_size",
        "emb_dim",
        "num_heads",
        "head_dim",
        "mlp_dim",
        "num_encoder_layers",
        "num_decoder_layers",
        "mlp_activations",
        "logits_via_embedding",
    )
    parameter_axes = (
        *COMMON_AXES,
        ("relpos_bias/rel_embedding", ("heads", "buckets")),
    )
    packing_groups = (
        ("self_attention", ("query", "key", "value")),
        ("attention", ("query", "key", "value")),
        ("encoder_decoder_attention", ("key", "value")),
        ("mlp", ("wi_0", "wi_1")),
    )
    # Self-attention's four, and two of cross-attention: keys and values are made once.
    step_kernels = 6
    step_sums = 3

    def __post_init__(self):
        check_network(self, ("num_encoder_layers", "num_decoder_layers"))
        object.__setattr__(self, "mlp_activations", tuple(self.mlp_activations))

    @property
    def decoder_layers(self) -> int:
        return self.num_decoder_layers

    def network(self) -> "T5":
        return T5(self)

    def example(self) -> tuple[Array, Array, Array]:
        token = jnp.zeros((1, 1), jnp.int32)
        return token, token == 0, token

    def batch(
        self, encoded: Sequence[Sequence[int]], ids: SpecialIds
    ) -> tuple[EncoderInputs, Prompt]:
        return answer(encoded, ids)


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


class T5(nn.Module):
    """Encoder, decoder and logits of one T5."""

    config: T5Config

    def setup(self):
        c = self.config
        self.token_embedder = Embed(
            c.padded_vocab_size, c.emb_dim, jnp.dtype(c.dtype), c.lowering
        )
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
          decoder_tokens: the output shifted right, from the start token on.
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
        self, inputs: EncoderInputs, slots: int
    ) -> tuple[DecoderCache, Float[Array, "B E D"]]:
        """Encodes an input; the cache of a decoder that has seen no token of its own.

        Args:
          inputs: the source.
          slots: S, how many decoder tokens the cache has room for.

        Returns:
          The cache, and the encoder's output.
        """
        context = self.encode(inputs.tokens, inputs.mask)
        encoded = self.decoder.cross_keys_values(context)
        c = self.config
        past = tuple(
            kv.empty(
                len(inputs.tokens), c.num_heads, slots, c.head_dim, jnp.dtype(c.dtype)
            )
            for _ in range(c.num_decoder_layers)
        )
        bias = attention.padding_bias(inputs.mask)
        return DecoderCache(past, encoded, bias), context

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
