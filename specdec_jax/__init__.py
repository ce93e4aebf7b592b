"""Speculative decoding in JAX: faster generation with exactly the target's output."""

from specdec_jax._version import __version__
from specdec_jax.decoding.settings import DecodeSettings
from specdec_jax.errors import (
    CheckpointError,
    DataError,
    PairError,
    SettingsError,
    SpecdecError,
)
from specdec_jax.generation import Generated, generate
from specdec_jax.pair import Pair, load_pair

__all__ = [
    "__version__",
    "CheckpointError",
    "DataError",
    "DecodeSettings",
    "Generated",
    "Pair",
    "PairError",
    "SettingsError",
    "SpecdecError",
    "generate",
    "load_pair",
]
