"""This project's own model folders: `config.json` and `model.safetensors`.

The configuration is that of its network, whose family the format names; the tensors
have the parameter tree's paths, joined by "/", so that any tool that reads safetensors
can look inside.
"""

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from flax import traverse_util

from specdec_jax.checkpoints import safetensors_file
from specdec_jax.checkpoints.weights import Checkpoint
from specdec_jax.errors import CheckpointError, one_line
from specdec_jax.models.config import ModelConfig
from specdec_jax.models.families import FAMILIES
from specdec_jax.typing import Params

CONFIG_FILE = "config.json"
WEIGHTS_FILE = "model.safetensors"
FORMATS = {family.format: family for family in FAMILIES}


def save(
    folder: str | os.PathLike,
    config: ModelConfig,
    params: Params,
    dtype: str = "bfloat16",
) -> None:
    """Writes a model folder; the weights are cast to `dtype`, and never packed."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    flat = traverse_util.flatten_dict(params, sep="/")
    written = {"format": config.format, **dataclasses.asdict(config)}
    del written["lowering"], written["dtype"]  # how a model is run, not what it is
    (folder / CONFIG_FILE).write_text(json.dumps(written, indent=2) + "\n", "utf-8")
    safetensors_file.write(
        folder / WEIGHTS_FILE,
        {name: np.asarray(value, jnp.dtype(dtype)) for name, value in flat.items()},
    )


def open_folder(folder: str | os.PathLike) -> Checkpoint:
    """Opens a model folder, as written by `save`.

    Raises:
      CheckpointError: a file is missing or corrupt.
    """
    folder = Path(folder)
    config = _config(folder / CONFIG_FILE, read_json(folder / CONFIG_FILE))
    weights = folder / WEIGHTS_FILE
    return Checkpoint(str(weights), "native", config, safetensors_file.read(weights))


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file.

    Raises:
      CheckpointError: it is missing, or something else.
    """
    try:
        fields = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"cannot read {path}: {one_line(error)}") from error
    if not isinstance(fields, dict):
        raise CheckpointError(f"{path} holds no JSON object")
    return fields


def _config(path: Path, fields: dict[str, Any]) -> ModelConfig:
    fields = dict(fields)
    kind = FORMATS.get(fields.pop("format", None))
    if kind is None:
        raise CheckpointError(f'{path} has no "format" of {", ".join(FORMATS)}')
    try:
        return kind(**fields)
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"{path}: {one_line(error)}") from error
