"""This project's own model folders: `config.json` and `model.safetensors`.

The configuration is a `T5Config`; the tensors have the parameter tree's paths, joined
by "/", so that any tool that reads safetensors can look inside.
"""

import dataclasses
import json
import os
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import safetensors
import safetensors.numpy
from flax import traverse_util

from specdec_jax.data.tokenizer import Tokenizer
from specdec_jax.errors import CheckpointError
from specdec_jax.models.t5 import T5, T5Config
from specdec_jax.typing import Params

CONFIG_FILE = "config.json"
WEIGHTS_FILE = "model.safetensors"
TOKENIZER_FILE = "spiece.model"
FORMAT = "specdec_jax.t5"


def save_model(
    folder: str | os.PathLike, config: T5Config, params: Params, dtype=jnp.bfloat16
) -> None:
    """Writes a model folder; the weights are cast to `dtype`, and never packed."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    flat = traverse_util.flatten_dict(params, sep="/")
    tensors = {name: np.asarray(value, dtype) for name, value in flat.items()}
    written = {"format": FORMAT, **dataclasses.asdict(config)}
    del written["packed"], written["dtype"]  # how a model is run, not what it is
    (folder / CONFIG_FILE).write_text(json.dumps(written, indent=2) + "\n", "utf-8")
    safetensors.numpy.save_file(tensors, folder / WEIGHTS_FILE)


def load_model(
    folder: str | os.PathLike, dtype: str = "float32"
) -> tuple[T5Config, Params]:
    """Reads a model folder.

    Args:
      folder: as written by `save_model`.
      dtype: what the parameters are cast to, and the configuration's dtype.

    Returns:
      The configuration and the parameters, unpacked.

    Raises:
      CheckpointError: a file is missing or corrupt, or a tensor is missing, misshapen
        or not the configuration's; the message names it.
    """
    folder = Path(folder)
    config = dataclasses.replace(_read_config(folder / CONFIG_FILE), dtype=dtype)
    expected = parameter_shapes(config)
    path = folder / WEIGHTS_FILE
    flat = {}
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            names = set(file.keys())
            _check_names(path, names, set(expected))
            for name, shape in expected.items():
                tensor = file.get_tensor(name)
                if tensor.shape != shape:
                    raise CheckpointError(
                        f"{path}: tensor {name} has shape {list(tensor.shape)} and "
                        f"{CONFIG_FILE} asks for {list(shape)}"
                    )
                flat[name] = jnp.asarray(tensor, dtype)
    except (OSError, safetensors.SafetensorError) as error:
        raise CheckpointError(f"cannot read weights from {path}: {error}") from error
    return config, traverse_util.unflatten_dict(flat, sep="/")


def find_tokenizer(folder: Path) -> Tokenizer:
    """The SentencePiece model in a model folder, or beside it.

    Raises:
      CheckpointError: there is none.
    """
    for place in (folder, folder.parent):
        if (place / TOKENIZER_FILE).is_file():
            return Tokenizer(place / TOKENIZER_FILE)
    raise CheckpointError(f"no {TOKENIZER_FILE} in {folder} or in the folder above it")


def parameter_shapes(config: T5Config) -> dict[str, tuple[int, ...]]:
    """The shape of every parameter, by its path joined by "/"."""
    token = jax.ShapeDtypeStruct((1, 1), jnp.int32)
    mask = jax.ShapeDtypeStruct((1, 1), jnp.bool_)
    tree = jax.eval_shape(T5(config).init, jax.random.key(0), token, mask, token)
    flat = traverse_util.flatten_dict(tree["params"], sep="/")
    return {name: leaf.shape for name, leaf in flat.items()}


def _read_config(path: Path) -> T5Config:
    try:
        fields = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"cannot read {path}: {error}") from error
    if not isinstance(fields, dict) or fields.pop("format", None) != FORMAT:
        raise CheckpointError(f'{path} does not say "format": "{FORMAT}"')
    try:
        return T5Config(**fields)
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"{path}: {error}") from error


def _check_names(path: Path, found: set[str], expected: set[str]) -> None:
    for what, names in (
        ("lacks tensor", expected - found),
        ("has a tensor that the configuration does not know:", found - expected),
    ):
        if names:
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            raise CheckpointError(f"{path} {what} {min(names)}{more}")
