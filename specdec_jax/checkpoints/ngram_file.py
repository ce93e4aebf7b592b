"""An n-gram in one safetensors file, with the vocabulary that it was fitted for."""

import dataclasses
import os
from collections.abc import Mapping

import numpy as np

from specdec_jax.checkpoints import safetensors_file
from specdec_jax.checkpoints.tensors import Tensor
from specdec_jax.data.tokenizer import Tokenizer
from specdec_jax.drafters.ngram import NGramParams, NGramTable
from specdec_jax.errors import CheckpointError, PairError, one_line

DIGEST = "tokenizer_sha256"
# Of a table's arrays, with their types; table n is of contexts of n tokens.
FIELDS = {
    "keys": ("uint32",),
    "first": ("int32",),
    "tokens": ("uint16", "int32"),
    "probs": ("float32",),
}


def save(
    path: str | os.PathLike, params: NGramParams, tokenizer: Tokenizer | None = None
) -> None:
    """Writes an n-gram, atomically.

    Args:
      path: of the file.
      params: from `training.fit_ngram.fit_ngram`.
      tokenizer: whose ids it was fitted to; a target of another is then refused.
    """
    tensors = {"unigram": np.asarray(params.unigram)}
    for n, table in enumerate(params.tables, 1):
        for field in FIELDS:
            tensors[f"{n}/{field}"] = np.asarray(getattr(table, field))
        for field in ("tokens", "probs"):  # without the unused entries
            name = f"{n}/{field}"
            tensors[name] = tensors[name][: tensors[f"{n}/first"][-1]]
    if tokenizer is not None:
        tensors[DIGEST] = np.frombuffer(tokenizer.digest, np.uint8)
    safetensors_file.write(path, tensors)


def load(path: str | os.PathLike, tokenizer: Tokenizer) -> NGramParams:
    """Reads an n-gram for a target.

    Args:
      path: of the file.
      tokenizer: the target's.

    Raises:
      CheckpointError: the file is missing, corrupt, or of something else.
      PairError: it was fitted for another vocabulary.
    """
    file = _File(os.fspath(path), safetensors_file.read(path))
    unigram = file.read("unigram", "float32")
    if not (np.all(unigram >= 0) and np.isclose(unigram.sum(), 1, atol=1e-3)):
        raise CheckpointError(f"{path}: tensor unigram is no distribution")
    _check_vocabulary(file, unigram.shape[0], tokenizer)
    unknown = set(file.tensors) - {"unigram", DIGEST}
    tables = []
    while unknown:
        n = len(tables) + 1
        tables.append(_read_table(file, n, unigram.shape[0]))
        unknown -= {f"{n}/{field}" for field in FIELDS}
    return NGramParams.from_arrays(unigram, tables)


@dataclasses.dataclass(frozen=True)
class _File:
    """An open file that says what is wrong with it."""

    path: str
    tensors: Mapping[str, Tensor]

    def read(self, name: str, *dtypes: str) -> np.ndarray:
        """A tensor of one axis, which must be there, of one of these types."""
        if name not in self.tensors:
            raise CheckpointError(f"{self.path} is no n-gram: tensor {name} is missing")
        tensor = self.tensors[name]
        if len(tensor.shape) != 1 or tensor.dtype not in dtypes:
            raise CheckpointError(
                f"{self.path}: tensor {name} is {tensor.dtype} {tensor.shape} and must "
                f"be {' or '.join(dtypes)} of one axis"
            )
        try:
            return tensor.read((slice(None),))
        except (OSError, ValueError) as error:
            raise CheckpointError(
                f"{self.path}: tensor {name} cannot be read: {one_line(error)}"
            ) from error


def _read_table(file: _File, n: int, vocab_size: int) -> NGramTable:
    arrays = {name: file.read(f"{n}/{name}", *types) for name, types in FIELDS.items()}
    table = NGramTable(**arrays)
    keys = table.keys.astype(np.int64)
    is_consistent = (
        len(table.first) == len(keys) + 1 > 1
        and np.all(np.diff(keys) > 0)
        and table.first[0] == 0
        and np.all(np.diff(table.first) > 0)
        and len(table.tokens) == len(table.probs) == table.first[-1]
        and np.all((table.tokens >= 0) & (table.tokens < vocab_size))
        and np.all((table.probs >= 0) & (table.probs <= 1))
    )
    if not is_consistent:
        raise CheckpointError(
            f"{file.path}: the tensors {n}/{', '.join(FIELDS)} do not fit each other"
        )
    return table


def _check_vocabulary(file: _File, vocab_size: int, tokenizer: Tokenizer) -> None:
    if vocab_size != tokenizer.vocab_size:
        raise PairError(
            f"the n-gram {file.path} was fitted for {vocab_size} ids and the target "
            f"({tokenizer.path}) has {tokenizer.vocab_size}: fit it for as many"
        )
    if DIGEST not in file.tensors:
        return
    if file.read(DIGEST, "uint8").tobytes() != tokenizer.digest:
        raise PairError(
            f"the n-gram {file.path} was fitted to the ids of another tokenizer than "
            f"the target's ({tokenizer.path})"
        )
