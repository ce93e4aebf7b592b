"""T5 folders of Hugging Face: `config.json` and one or more safetensors files.

v1.0, v1.1, Flan-T5 and mT5. Kernels are stored as [out, in] and transposed when they
are read; the relative bias is [buckets, heads].
"""

import dataclasses
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from flax import traverse_util

from specdec_jax.checkpoints import safetensors_file
from specdec_jax.checkpoints.huggingface_config import (
    ACTIVATIONS,
    LAYER_NORM_EPSILON,
    SPECIAL_IDS,
    check_fields,
    read_config,
    read_special_ids,
    says_tied,
)
from specdec_jax.checkpoints.native import CONFIG_FILE, WEIGHTS_FILE, read_json
from specdec_jax.checkpoints.reading import BLOCK_BYTES
from specdec_jax.checkpoints.tensors import Tensor
from specdec_jax.checkpoints.weights import Checkpoint
from specdec_jax.data.tokenizer import T5_IDS, SpecialIds
from specdec_jax.errors import CheckpointError, one_line
from specdec_jax.models.parameters import parameter_shapes
from specdec_jax.models.t5 import T5Config
from specdec_jax.typing import Params

INDEX_FILE = "model.safetensors.index.json"
FAMILY = "T5"  # which it holds
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
    fields = read_json(folder / CONFIG_FILE)
    check_fields(folder / CONFIG_FILE, fields)
    found = _read_tensors(folder)
    if "shared.weight" not in found and "encoder.embed_tokens.weight" in found:
        found["shared.weight"] = found["encoder.embed_tokens.weight"]
    own_head = says_tied(fields) is True and _has_own_head(folder, found)
    config = read_config(folder / CONFIG_FILE, fields, own_head)
    ignored = set(_IGNORED)
    if config.logits_via_embedding:
        ignored.add("lm_head.weight")  # the embedding again
    ours = {tensor_name(name): name for name in parameter_shapes(config)}
    tensors = {}
    for theirs, tensor in found.items():
        if theirs in ignored:
            continue
        name = ours.get(theirs, theirs)
        tensors[name] = tensor.transposed() if is_transposed(name) else tensor
    said = read_special_ids(folder / CONFIG_FILE, fields)
    return Checkpoint(
        str(folder),
        "huggingface",
        config,
        tensors,
        tensor_name,
        {ours: (said[t], t) for ours, t in SPECIAL_IDS.items() if t in said},
    )


def save(
    folder: str | os.PathLike,
    config: T5Config,
    params: Params,
    dtype: str = "float32",
    special_ids: SpecialIds = T5_IDS,
) -> None:
    """Writes a folder that `transformers.T5ForConditionalGeneration` loads.

    Raises:
      CheckpointError: Hugging Face's T5 has no place for a bias of each layer, or no
        name for the activations.
    """
    activations = {ours: theirs for theirs, ours in ACTIVATIONS.items()}
    if config.mlp_activations not in activations:
        raise CheckpointError(
            f"a T5 with mlp_activations {config.mlp_activations} has no Hugging Face "
            "format"
        )
    if not config.shared_relative_bias:
        raise CheckpointError(
            "a T5 with a relative bias of each layer has no Hugging Face format"
        )
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    tied = config.logits_via_embedding
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
        "tie_word_embeddings": tied,
        "scale_decoder_outputs": tied,
        "is_encoder_decoder": True,
        "layer_norm_epsilon": LAYER_NORM_EPSILON,
        **{SPECIAL_IDS[k]: v for k, v in dataclasses.asdict(special_ids).items()},
        "torch_dtype": dtype,
    }
    (folder / CONFIG_FILE).write_text(json.dumps(fields, indent=2) + "\n", "utf-8")
    safetensors_file.write(folder / WEIGHTS_FILE, dict(_their_tensors(params, dtype)))


def _has_own_head(folder: Path, found: Mapping[str, Tensor]) -> bool:
    """Whether there are logits' weights that are not the embedding again."""
    head, shared = found.get("lm_head.weight"), found.get("shared.weight")
    if head is None or shared is None:
        return False
    if head.shape != shared.shape or len(head.shape) != 2:
        return True
    rows = max(1, BLOCK_BYTES // max(1, head.shape[1] * head.dtype.itemsize))
    try:
        return not all(
            np.array_equal(head.read(part), shared.read(part))
            for start in range(0, head.shape[0], rows)
            for part in [(slice(start, min(start + rows, head.shape[0])), slice(None))]
        )
    except Exception as error:  # the library has its own
        raise CheckpointError(
            f"{folder}: tensor lm_head.weight or shared.weight cannot be read: "
            f"{one_line(error)}"
        ) from error


def _their_tensors(params: Params, dtype: str) -> Iterator[tuple[str, np.ndarray]]:
    for name, value in traverse_util.flatten_dict(params, sep="/").items():
        array = np.asarray(value, np.dtype(dtype))
        yield tensor_name(name), array.T if is_transposed(name) else array


def _read_tensors(folder: Path) -> dict[str, Tensor]:
    """The tensors of all files, by Hugging Face's names."""
    if (folder / WEIGHTS_FILE).exists():
        return safetensors_file.read(folder / WEIGHTS_FILE)
    if (folder / INDEX_FILE).exists():
        places = read_json(folder / INDEX_FILE).get("weight_map")
        if not isinstance(places, dict) or not all(
            isinstance(file, str) for file in places.values()
        ):
            raise CheckpointError(
                f"{folder / INDEX_FILE} has no weight_map from tensors to files"
            )
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
