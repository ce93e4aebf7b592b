"""Tensors of a safetensors file, memory-mapped."""

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

import ml_dtypes
import numpy as np
import safetensors
import safetensors.numpy

from specdec_jax.checkpoints.tensors import StoredArray, Tensor
from specdec_jax.errors import CheckpointError, one_line

_DTYPES = {
    "F64": np.float64,
    "F32": np.float32,
    "F16": np.float16,
    "BF16": ml_dtypes.bfloat16,
    "I64": np.int64,
    "I32": np.int32,
    "I16": np.int16,
    "I8": np.int8,
    "U32": np.uint32,
    "U16": np.uint16,
    "U8": np.uint8,
    "BOOL": np.bool_,
}


def read(path: str | os.PathLike) -> dict[str, Tensor]:
    """The tensors of a file, by its own names.

    Raises:
      CheckpointError: it is missing or corrupt.
    """
    try:
        file = safetensors.safe_open(path, framework="numpy")
        slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, safetensors.SafetensorError) as error:
        raise CheckpointError(
            f"cannot read weights from {path}: {one_line(error)}"
        ) from error
    return {
        name: Tensor.from_array(
            StoredArray(
                shape=tuple(part.get_shape()),
                dtype=np.dtype(_DTYPES.get(part.get_dtype(), np.void)),
                read=lambda index, part=part: part[index],
            )
        )
        for name, part in slices.items()
    }


def write(path: str | os.PathLike, tensors: Mapping[str, np.ndarray]) -> None:
    """Writes a file that everyone may read, atomically; makes its folder.

    Raises:
      CheckpointError: it cannot be written.
    """
    path = Path(path)
    unfinished = path.with_name(path.name + ".unfinished")
    contiguous = {name: np.ascontiguousarray(t) for name, t in tensors.items()}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        safetensors.numpy.save_file(contiguous, unfinished)
        mask = os.umask(0)
        os.umask(mask)
        unfinished.chmod(0o666 & ~mask)
        unfinished.replace(path)
    except (OSError, safetensors.SafetensorError) as error:
        with contextlib.suppress(OSError):
            unfinished.unlink()
        raise CheckpointError(f"cannot write {path}: {one_line(error)}") from error
