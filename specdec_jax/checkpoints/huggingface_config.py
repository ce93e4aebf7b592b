"""A `T5Config` out of Hugging Face's `config.json`, or an error that names a field."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from specdec_jax.errors import CheckpointError, one_line
from specdec_jax.models.t5 import T5Config

MODEL_TYPES = ("t5", "mt5")
ACTIVATIONS = {
    "relu": ("relu",),
    "gated-gelu": ("gelu", "linear"),
}
LAYER_NORM_EPSILON = 1e-6  # which the model has built in
# The tokenizer's special ids, as Hugging Face calls them.
SPECIAL_IDS = {
    "start_id": "decoder_start_token_id",
    "eos_id": "eos_token_id",
    "pad_id": "pad_token_id",
}


def check_fields(path: Path, fields: Mapping[str, Any]) -> None:
    """Checks what can be without the weights.

    Raises:
      CheckpointError: it is of another model, or a field asks for what is not known
        here.
    """
    kind = fields.get("model_type")
    if kind not in MODEL_TYPES:
        raise CheckpointError(
            f"{path} says model_type {kind!r}; known are {', '.join(MODEL_TYPES)}"
        )
    activation = fields.get("feed_forward_proj", "relu")
    if not isinstance(activation, str) or activation not in ACTIVATIONS:
        raise CheckpointError(
            f"{path} says feed_forward_proj {activation!r}; known are "
            f"{', '.join(ACTIVATIONS)}"
        )
    epsilon = fields.get("layer_norm_epsilon")
    if epsilon is not None and epsilon != LAYER_NORM_EPSILON:
        raise CheckpointError(
            f"{path} says layer_norm_epsilon {epsilon!r}; only {LAYER_NORM_EPSILON} is "
            "known"
        )


def read_special_ids(path: Path, fields: Mapping[str, Any]) -> dict[str, int]:
    """The special ids that `config.json` says, by its own names for them.

    Raises:
      CheckpointError: one is not an integer, or there are several ends.
    """
    said = {}
    for name in SPECIAL_IDS.values():
        value = fields.get(name)
        if name == "eos_token_id" and isinstance(value, list) and len(value) == 1:
            (value,) = value
        if value is None:
            continue
        if not isinstance(value, int) or isinstance(value, bool):
            raise CheckpointError(f"{path} says {name} {value!r}; it must be one id")
        said[name] = value
    return said


def read_config(path: Path, fields: Mapping[str, Any], own_head: bool) -> T5Config:
    """The sizes of a T5.

    Args:
      path: of the fields, for error messages.
      fields: of `config.json`, which `check_fields` has seen.
      own_head: whether the weights have logits that are not the embedding again.

    Raises:
      CheckpointError: a field is missing or of the wrong type, or it is not told
        whether logits are tied and scaled.
    """
    activation = fields.get("feed_forward_proj", "relu")
    decoder_layers = fields.get("num_decoder_layers")
    try:
        return T5Config(
            vocab_size=fields["vocab_size"],
            padded_vocab_size=fields["vocab_size"],
            emb_dim=fields["d_model"],
            num_heads=fields["num_heads"],
            head_dim=fields["d_kv"],
            mlp_dim=fields["d_ff"],
            num_encoder_layers=fields["num_layers"],
            num_decoder_layers=(
                fields["num_layers"] if decoder_layers is None else decoder_layers
            ),
            mlp_activations=ACTIVATIONS[activation],
            logits_via_embedding=_is_tied(path, fields, own_head),
            relative_attention_num_buckets=fields["relative_attention_num_buckets"],
            relative_attention_max_distance=fields.get(
                "relative_attention_max_distance", 128
            ),
            dropout_rate=fields.get("dropout_rate", 0.1),
        )
    except KeyError as error:
        raise CheckpointError(f"{path} lacks {error}") from error
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"{path}: {one_line(error)}") from error


def says_tied(fields: Mapping[str, Any]) -> Any:
    """What the fields alone say of logits: tied to the embedding, and scaled.

    Current transformers tie the names in every T5 and scale only where logits are
    really tied; before, the one field said both. It is True or False, if the file is
    as it should be.
    """
    return fields.get("scale_decoder_outputs", fields.get("tie_word_embeddings", True))


def _is_tied(path: Path, fields: Mapping[str, Any], own_head: bool) -> Any:
    tied = says_tied(fields)
    scale_is_told = "scale_decoder_outputs" in fields
    mt5 = fields["model_type"] == "mt5"
    if tied is True and own_head:
        # Current transformers say of every T5 that its names are tied, and of mT5 not
        # that it does not scale. Whoever has a gate has logits of its own.
        gated = fields.get("feed_forward_proj") == "gated-gelu"
        if not scale_is_told and (mt5 or gated):
            return False
        raise CheckpointError(
            f"{path} says that logits are tied to the embedding and scaled, and the "
            "weights have another lm_head.weight: set tie_word_embeddings and "
            "scale_decoder_outputs to false if that is the one to use, or remove it"
        )
    if tied is True and mt5 and not scale_is_told:
        raise CheckpointError(
            f"{path} says that logits are tied to the embedding and not whether they "
            "are scaled, which releases of transformers do and do not for an mT5: set "
            "scale_decoder_outputs"
        )
    return tied
