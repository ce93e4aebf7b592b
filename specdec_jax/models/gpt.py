"""GPT: the paper's decoder-only family, in Flax linen.

Of its GPT-like models the paper says the sizes and that they use GELU. The rest is as
in GPT-2: norms before each part of a layer, biases, learnt positions. The parameters
are named like those of the decoder in `models.t5`.
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
from specdec_jax.models.inputs import NoInputs, go_on
from specdec_jax.models.layers import Dense, Dropout, Embed, FeedForward, LayerNorm
from specdec_jax.models.lowering import Lowering
from specdec_jax.typing import Array, Float, Float32, Int32, self_checked

Past = tuple[kv.KeyValues, ...]

POSITION_DEVIATION = 0.1  # before training; that of the tokens' embeddings is 1


@self_checked
class GPTConfig(ModelConfig):
    """The sizes of a GPT, named like a T5's.

    Attributes:
      vocab_size: ids that a tokenizer can give; logits past them are never drawn.
      padded_vocab_size: rows of the embedding and of the logits, V.
      emb_dim, num_heads, head_dim, mlp_dim: D, N, H, F.
      num_layers: L.
      max_length: positions that it knows: start token, prompt and output together.
      mlp_activations: ("gelu",), the tanh form.
      logits_via_embedding: whether logits are tied to the embedding.
      dropout_rate: in training.
      dtype: "float32" or "bfloat16", of weights and activations; norms, attention
        softmax and logits are float32 in both.
      lowering: as in `T5Config`.
    """

    vocab_size: int
    padded_vocab_size: int
    emb_dim: int
    num_heads: int
    head_dim: int
    mlp_dim: int
    num_layers: int
    max_length: int
    mlp_activations: Sequence[str] = ("gelu",)
    logits_via_embedding: bool = False
    dropout_rate: float = 0.1
    dtype: str = "float32"
    lowering: Lowering = Lowering()

    family = "GPT"
    format = "specdec_jax.gpt"
    decoder_only = True
    sizes = (
        "padded_vocab_size",
        "emb_dim",
        "num_heads",
        "head_dim",
        "mlp_dim",
        "num_layers",
        "max_length",
        "mlp_activations",
        "logits_via_embedding",
    )
    parameter_axes = (
        *COMMON_AXES,
        ("position_embedder/embedding", ("positions", "embed")),
    )
    packing_groups = (
        ("self_attention", ("query", "key", "value")),
        ("mlp", ("wi_0", "wi_1")),
    )
    step_kernels = 4
    step_sums = 2

    def __post_init__(self):
        check_network(self)
        object.__setattr__(self, "mlp_activations", tuple(self.mlp_activations))
        if self.max_length < 2:
            raise ValueError(f"max_length must be at least 2, not {self.max_length}")

    @property
    def decoder_layers(self) -> int:
        return self.num_layers

    @property
    def positions(self) -> int:
        return self.max_length

    def network(self) -> "GPT":
        return GPT(self)

    def example(self) -> tuple[Array]:
        return (jnp.zeros((1, 1), jnp.int32),)

    def batch(
        self, encoded: Sequence[Sequence[int]], ids: SpecialIds
    ) -> tuple[NoInputs, Prompt]:
        return go_on(encoded, ids)


class GPTLayer(nn.Module):
    config: GPTConfig

    def setup(self):
        c = self.config
        dtype = jnp.dtype(c.dtype)
        self.pre_self_attention_layer_norm = LayerNorm(dtype)
        self.self_attention = attention.SelfAttention(
            width=c.emb_dim,
            num_heads=c.num_heads,
            head_size=c.head_dim,
            dropout_rate=c.dropout_rate,
            dtype=dtype,
            lowering=c.lowering,
            use_bias=True,
            scaled=True,
        )
        self.pre_mlp_layer_norm = LayerNorm(dtype)
        self.mlp = FeedForward(
            width=c.emb_dim,
            hidden=c.mlp_dim,
            activations=c.mlp_activations,
            dropout_rate=c.dropout_rate,
            dtype=dtype,
            lowering=c.lowering,
            use_bias=True,
        )
        self.dropout = Dropout(c.dropout_rate)

    def __call__(self, x, bias, deterministic, cache=None, lengths=None):
        h, past = self.self_attention(
            self.pre_self_attention_layer_norm(x), bias, deterministic, cache, lengths
        )
        x = x + self.dropout(h, deterministic)
        h = self.mlp(self.pre_mlp_layer_norm(x), deterministic)
        return x + self.dropout(h, deterministic), past


class GPTDecoder(nn.Module):
    config: GPTConfig

    def setup(self):
        c = self.config
        dtype = jnp.dtype(c.dtype)
        self.layers = [GPTLayer(c) for _ in range(c.num_layers)]
        self.decoder_norm = LayerNorm(dtype)
        self.dropout = Dropout(c.dropout_rate)
        if not c.logits_via_embedding:
            self.logits_dense = Dense(
                c.padded_vocab_size, dtype, c.lowering, out_dtype=jnp.dtype(jnp.float32)
            )

    def __call__(
        self, x, positions, slots, deterministic, past=None, lengths=None, taps=()
    ):
        """The output [B, T, D], the cache with the block, and the tapped layers'."""
        bias = attention.causal_bias(positions, slots)
        x = self.dropout(x, deterministic)
        seen, outputs = [], []
        for layer, own in zip(
            self.layers, past or [None] * len(self.layers), strict=True
        ):
            x, own = layer(x, bias, deterministic, own, lengths)
            seen.append(own)
            outputs.append(x)
        return self.decoder_norm(x), tuple(seen), attention.tapped(outputs, taps)


class GPT(nn.Module):
    """Embeddings, decoder and logits of one GPT."""

    config: GPTConfig

    def setup(self):
        c = self.config
        dtype = jnp.dtype(c.dtype)
        # Tied, it also has to give logits of a reasonable size.
        deviation = c.emb_dim**-0.5 if c.logits_via_embedding else 1.0
        self.token_embedder = Embed(
            c.padded_vocab_size, c.emb_dim, dtype, c.lowering, deviation
        )
        self.position_embedder = Embed(
            c.max_length, c.emb_dim, dtype, c.lowering, POSITION_DEVIATION
        )
        self.decoder = GPTDecoder(c)

    def __call__(
        self, tokens: Int32[Array, "B T"], deterministic: bool = True
    ) -> Float32[Array, "B T V"]:
        """Teacher forcing: logits of the token after each position.

        Args:
          tokens: the text shifted right, from the start token on; T <= max_length.
          deterministic: False for dropout, which needs a "dropout" rng.
        """
        batch, length = tokens.shape
        if length > self.config.max_length:
            raise ValueError(
                f"{length} tokens in a row and max_length is {self.config.max_length}"
            )
        positions = self._positions(jnp.zeros(batch, jnp.int32), length)
        x = self._embed(tokens, positions)
        output, _, _ = self.decoder(x, positions, length, deterministic)
        return self._logits(output)

    def start_cache(self, inputs: NoInputs, slots: int) -> tuple[Past, None]:
        """The cache of rows that have no token yet, S = slots; and no context."""
        c, batch = self.config, inputs.rows.shape[0]
        dtype = jnp.dtype(c.dtype)
        past = tuple(
            kv.empty(batch, c.num_heads, slots, c.head_dim, dtype)
            for _ in range(c.num_layers)
        )
        return past, None

    def extend(
        self,
        cache: Past,
        tokens: Int32[Array, "B T"],
        lengths: Int32[Array, " B"],
        taps: tuple[int, ...] = (),
    ) -> tuple[Float32[Array, "B T V"], Float[Array, "B T K D"] | None, Past]:
        """Scores T tokens put at each row's own length.

        Draft tokens past `max_length` are scored as if at the last position;
        callers see to it that none of them is kept.

        Returns:
          Logits of the token after each of them, the outputs of the tapped layers, and
          the cache with the T tokens written at lengths .. lengths + T - 1.
        """
        positions = self._positions(lengths, tokens.shape[1])
        output, cache, features = self.decoder(
            self._embed(tokens, positions),
            positions,
            cache[0].keys.shape[2],
            True,
            cache,
            lengths,
            taps,
        )
        return self._logits(output), features, cache

    def _positions(self, lengths, width):
        return lengths[:, None] + jnp.arange(width, dtype=jnp.int32)[None]

    def _embed(self, tokens, positions):
        # A place out of its table would be read as NaN, and stay in the cache.
        known = jnp.minimum(positions, self.config.max_length - 1)
        return self.token_embedder(tokens) + self.position_embedder(known)

    def _logits(self, output):
        if self.config.logits_via_embedding:
            logits = self.token_embedder.attend(output)
        else:
            logits = self.decoder.logits_dense(output)
        return constrain(logits, "batch", "length", "vocab")
