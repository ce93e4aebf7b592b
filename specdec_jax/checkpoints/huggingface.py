"""T5 folders of Hugging Face: `config.json` and one or more safetensors files.

v1.0, v1.1, Flan-T5 and mT5. Kernels are stored as [out, in] and transposed when they
are read; the relative bias is [buckets, heads].
"""

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from flax import traverse_util

from specdec_jax.checkpoints import safetensors_file
from specdec_jax.checkpoints.native import CONFIG_FILE, WEIGHTS_FILE, read_json
from specdec_jax.checkpoints.weights import (
    Checkpoint,
    Tensor,
    one_line,
    parameter_shapes,
)
from specdec_jax.errors import CheckpointError
from specdec_jax.models.t5 import T5Config
from specdec_jax.typing import Params

INDEX_FILE = "model.safetensors.index.json"
MODEL_TYPES = ("t5", "mt5")

_ACTIVATIONS = {
    "relu": ("relu",),
    "gated-gelu": ("gelu", "linear"),
}
_TOP = {
    "token_embedder/embedding": "shared",
    "encoder/relpos_bias/rel_embedding": (
        "encoder.block.0.layer.0.SelfAttention.relative_attention_bias"
    ),
    "decoder/relpos_bias/rel_embedding": (
        "decoder.block.0.layer.0.SelfAttention.relative_attention_bias"
    ),
    "encoder/encoder_norm/scale": "encoder.final_layer_norm",
    "decoder/decoder_norm/scale": "decoder.final_layer_norm",
    "decoder/logits_dense/kernel": "lm_head",
}
_LAYER = {
    "encoder": {
        "attention": "layer.0.SelfAttention",
        "pre_attention_layer_norm": "layer.0.layer_norm",
        "mlp": "layer.1.DenseReluDense",
        "pre_mlp_layer_norm": "layer.1.layer_norm",
    },
    "decoder": {
        "self_attention": "layer.0.SelfAttention",
        "pre_self_attention_layer_norm": "layer.0.layer_norm",
        "encoder_decoder_attention": "layer.1.EncDecAttention",
        "pre_cross_attention_layer_norm": "layer.1.layer_norm",
        "mlp": "layer.2.DenseReluDense",
        "pre_mlp_layer_norm": "layer.2.layer_norm",
    },
}
_KERNELS = {"query": "q", "key": "k", "value": "v", "out": "o"}
# Copies of the shared embedding, and a bias of early checkpoints that nobody uses.
_IGNORED = {
    "encoder.embed_tokens.weight",
    "decoder.embed_tokens.weight",
    "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight",
}


def tensor_name(name: str) -> str:
    """The name that Hugging Face has for a parameter.

    "decoder/layers_3/self_attention/query/kernel" ->
    "decoder.block.3.layer.0.SelfAttention.q.weight"
    """
    if name in _TOP:
        return f"{_TOP[name]}.weight"
    if "/" not in name:
        return name  # already theirs: a tensor that no parameter has
    stack, layer, module, *kernel, _ = name.split("/")
    number = layer.removeprefix("layers_")
    path = [stack, "block", number, _LAYER[stack][module]]
    path += [_KERNELS.get(k, k) for k in kernel]
    return ".".join([*path, "weight"])


def is_transposed(name: str) -> bool:
    """Whether Hugging Face stores a parameter with its axes reversed."""
    return name.endswith(("/kernel", "/rel_embedding"))


def open_folder(folder: str | os.PathLike) -> Checkpoint:
    """Opens a folder.

    Raises:
      CheckpointError: a file is missing or corrupt, or it is not of a T5.
    """
    folder = Path(folder)
    config = _config(folder / CONFIG_FILE, read_json(folder / CONFIG_FILE))
    found = _read_tensors(folder)
    ignored = set(_IGNORED)
    if config.logits_via_embedding:
        ignored.add("lm_head.weight")  # the embedding again
    if "shared.weight" not in found and "encoder.embed_tokens.weight" in found:
        found["shared.weight"] = found["encoder.embed_tokens.weight"]
    ours = {tensor_name(name): name for name in parameter_shapes(config)}
    tensors = {}
    for theirs, tensor in found.items():
        if theirs in ignored:
            continue
        name = ours.get(theirs, theirs)
        tensors[name] = (
            safetensors_file.transposed(tensor) if is_transposed(name) else tensor
        )
    return Checkpoint(str(folder), "huggingface", config, tensors, tensor_name)


def save(
    folder: str | os.PathLike,
    config: T5Config,
    params: Params,
    dtype: str = "float32",
) -> None:
    """Writes a folder that `transformers.T5ForConditionalGeneration` loads.

    Raises:
      CheckpointError: Hugging Face's T5 has no place for a bias of each layer.
    """
    if not config.shared_relative_bias:
        raise CheckpointError(
            "a T5 with a relative bias of each layer has no Hugging Face format"
        )
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    tied = config.logits_via_embedding
    activations = {ours: theirs for theirs, ours in _ACTIVATIONS.items()}
    fields = {
        "architectures": ["T5ForConditionalGeneration"],
        "model_type": "t5",
        "vocab_size": config.padded_vocab_size,
        "d_model": config.emb_dim,
        "num_heads": config.num_heads,
        "d_kv": config.head_dim,
        "d_ff": config.mlp_dim,
        "num_layers": config.num_encoder_layers,
        "num_decoder_layers": config.num_decoder_layers,
        "feed_forward_proj": activations[config.mlp_activations],
        "relative_attention_num_buckets": config.relative_attention_num_buckets,
        "relative_attention_max_distance": config.relative_attention_max_distance,
        "dropout_rate": config.dropout_rate,
        "layer_norm_epsilon": 1e-6,
        "tie_word_embeddings": tied,
        "scale_decoder_outputs": tied,
        "is_encoder_decoder": True,
        "pad_token_id": 0,
        "eos_token_id": 1,
        "decoder_start_token_id": 0,
        "torch_dtype": dtype,
    }
    (folder / CONFIG_FILE).write_text(json.dumps(fields, indent=2) + "\n", "utf-8")
    safetensors_file.write(folder / WEIGHTS_FILE, dict(_their_tensors(params, dtype)))


def _their_tensors(params: Params, dtype: str) -> Iterator[tuple[str, np.ndarray]]:
    for name, value in traverse_util.flatten_dict(params, sep="/").items():
        array = np.asarray(value, np.dtype(dtype))
        yield tensor_name(name), array.T if is_transposed(name) else array


def _read_tensors(folder: Path) -> dict[str, Tensor]:
    """The tensors of all files, by Hugging Face's names."""
    if (folder / WEIGHTS_FILE).exists():
        return safetensors_file.read(folder / WEIGHTS_FILE)
    if (folder / INDEX_FILE).exists():
        places = read_json(folder / INDEX_FILE).get("weight_map", {})
        files = {
            file: safetensors_file.read(folder / file) for file in set(places.values())
        }
        for name, file in places.items():
            if name not in files[file]:
                raise CheckpointError(f"{folder / file} lacks tensor {name}")
        return {name: files[file][name] for name, file in places.items()}
    other = sorted(p.name for p in folder.glob("*.bin"))
    raise CheckpointError(
        f"{folder} has neither {WEIGHTS_FILE} nor {INDEX_FILE}"
        + (
            f", only {other[0]}: load it with transformers and save it with "
            "save_pretrained(FOLDER, safe_serialization=True)"
            if other
            else ""
        )
    )


def _config(path: Path, fields: Mapping[str, Any]) -> T5Config:
    kind = fields.get("model_type")
    if kind not in MODEL_TYPES:
        raise CheckpointError(
            f"{path} says model_type {kind!r}; known are {', '.join(MODEL_TYPES)}"
        )
    activation = fields.get("feed_forward_proj", "relu")
    if activation not in _ACTIVATIONS:
        raise CheckpointError(
            f"{path} says feed_forward_proj {activation!r}; known are "
            f"{', '.join(_ACTIVATIONS)}"
        )
    # Current transformers tie the names in every T5 and scale only where logits are
    # really tied; before, the one field said both.
    tied = fields.get("scale_decoder_outputs", fields.get("tie_word_embeddings", True))
    try:
        return T5Config(
            vocab_size=fields["vocab_size"],
            padded_vocab_size=fields["vocab_size"],
            emb_dim=fields["d_model"],
            num_heads=fields["num_heads"],
            head_dim=fields["d_kv"],
            mlp_dim=fields["d_ff"],
            num_encoder_layers=fields["num_layers"],
            num_decoder_layers=fields.get("num_decoder_layers", fields["num_layers"]),
            mlp_activations=_ACTIVATIONS[activation],
            logits_via_embedding=bool(tied),
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
