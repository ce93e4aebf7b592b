"""Objectives: references, and distillation of a drafter from a target."""

import dataclasses
from typing import runtime_checkable

import jax
import jax.numpy as jnp

from specdec_jax.data.batching import Seq2SeqBatch
from specdec_jax.models.gpt import GPT
from specdec_jax.models.t5 import T5
from specdec_jax.training import losses
from specdec_jax.typing import Array, Float32, Key, Params, Protocol


@runtime_checkable
class Objective(Protocol):
    """A loss over batches, with parameters of its own that are not trained."""

    frozen: Params

    def loss(
        self,
        params: Params,
        frozen: Params,
        batch: Seq2SeqBatch,
        dropout_key: Key[Array, ""] | None,
    ) -> tuple[Float32[Array, ""], dict[str, Float32[Array, ""]]]:
        """The loss, and metrics to report; without a key, without dropout."""


@dataclasses.dataclass(frozen=True)
class References:
    """Cross-entropy of references: translations, or the texts that a GPT learns."""

    model: T5 | GPT
    label_smoothing: float = 0.1
    frozen: Params = dataclasses.field(default_factory=dict)

    def loss(self, params, frozen, batch, dropout_key):
        logits = _teacher_forcing(self.model, params, batch, dropout_key)
        loss = losses.cross_entropy(
            logits, batch.decoder_targets, batch.weights, self.label_smoothing
        )
        nll = losses.cross_entropy(logits, batch.decoder_targets, batch.weights)
        return loss, {"nll": nll}


@dataclasses.dataclass(frozen=True)
class Distillation:
    """A drafter's distance to its target on the target's own sequences.

    The loss is (1 - variation_weight) KL(p || q) + variation_weight D_LK(p, q). D_LK is
    one minus the expected acceptance rate alpha, which is what speculative decoding
    gains from; its gradient is flat far from the target, so KL leads the way.

    Attributes:
      model: the drafter.
      target: the target.
      frozen: the target's parameters.
      variation_weight: in [0, 1].
    """

    model: T5 | GPT
    target: T5 | GPT
    frozen: Params
    variation_weight: float = 0.5

    def loss(self, params, frozen, batch, dropout_key):
        mask = self._valid_ids()
        target_logits = _teacher_forcing(self.target, frozen, batch, None)
        target_probs = jax.lax.stop_gradient(jax.nn.softmax(target_logits + mask))
        logits = _teacher_forcing(self.model, params, batch, dropout_key) + mask
        kl = losses.kl_divergence(logits, target_probs, batch.weights)
        variation = losses.total_variation(logits, target_probs, batch.weights)
        agree = (logits.argmax(-1) == target_probs.argmax(-1)).astype(jnp.float32)
        weight = self.variation_weight
        return (1 - weight) * kl + weight * variation, {
            "kl": kl,
            "alpha": 1 - variation,
            "alpha_greedy": losses.weighted_mean(agree, batch.weights),
        }

    def _valid_ids(self) -> Float32[Array, "1 1 V"]:
        config = self.target.config
        ids = jnp.arange(config.padded_vocab_size)
        return jnp.where(ids < config.vocab_size, 0.0, -1e9)[None, None]


def _teacher_forcing(model, params, batch, dropout_key):
    sources = (batch.encoder_tokens, batch.encoder_mask)
    return model.apply(
        {"params": params},
        *(() if model.config.decoder_only else sources),
        batch.decoder_inputs,
        deterministic=dropout_key is None,
        rngs=None if dropout_key is None else {"dropout": dropout_key},
    )
