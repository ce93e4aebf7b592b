"""Speculative decoding in JAX: faster generation with exactly the target's output.

import specdec_jax as sd
pair = sd.load_pair("demo_ende")
out = sd.generate(pair, ["A man rides a bicycle."], gamma=4)
out.show()
"""

from specdec_jax._version import __version__
from specdec_jax.decoding.contracts import Drafter, Proposal
from specdec_jax.decoding.settings import DecodeSettings
from specdec_jax.drafters.base import RuleBasedDrafter, WrappedDrafter
from specdec_jax.errors import (
    CheckpointError,
    DataError,
    PairError,
    SettingsError,
    SpecdecError,
)
from specdec_jax.generation import Generated, generate
from specdec_jax.loading import load_pair
from specdec_jax.pair import Pair
from specdec_jax.sampling import Block, Noise, Rule, TokenRule, Verdict

__all__ = [
    "Block",
    "CheckpointError",
    "DataError",
    "DecodeSettings",
    "Drafter",
    "Generated",
    "Noise",
    "Pair",
    "PairError",
    "Proposal",
    "Rule",
    "RuleBasedDrafter",
    "SettingsError",
    "SpecdecError",
    "TokenRule",
    "Verdict",
    "WrappedDrafter",
    "__version__",
    "generate",
    "load_pair",
]


def __dir__() -> list[str]:
    return __all__
