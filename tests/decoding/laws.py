"""One batch of unlike groups of rows, drawn often, for tests of the output's law.

Row b belongs to group b % len(GROUPS): each group has settings and an input of its own,
and its neighbours are always of other groups.
"""

import dataclasses

import jax.numpy as jnp
import numpy as np

from specdec_jax.decoding.compiled import Decoder
from specdec_jax.decoding.settings import DecodeSettings
from specdec_jax.decoding.state import DecodeResult, RowSettings
from tests import reference
from tests import toy_models as toys

VOCAB, PADDED = 6, 8
MODEL = toys.table_model(VOCAB, PADDED)
LENGTH = 3  # tokens whose joint law is tested
MAX_NEW_TOKENS = 5  # more, so that a block of MAX_GAMMA fits at the first place
MAX_GAMMA = 3
ROWS = 2000  # of each group in a batch
BATCHES = 10
NEVER = -np.inf


@dataclasses.dataclass(frozen=True)
class Group:
    """Rows of one kind."""

    gamma: int = 3
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    lenience: float = 1.0
    max_new_tokens: int = MAX_NEW_TOKENS
    has_eos: bool = True

    @property
    def warp(self) -> dict:
        return {
            "temperature": self.temperature,
            "top_k": self.top_k,
            "top_p": self.top_p,
        }


GROUPS = {
    "plain": Group(has_eos=False),
    "EOS": Group(),
    "cold": Group(temperature=0.5, gamma=2),
    "hot, top-k": Group(temperature=1.7, top_k=3, has_eos=False),
    "top-p": Group(top_p=0.7, gamma=1),
    "all warps": Group(temperature=0.8, top_k=4, top_p=0.8),
    "gamma 0": Group(gamma=0),
    "argmax": Group(temperature=0.0),
    "cap": Group(max_new_tokens=2, temperature=1.3),
    "lenient": Group(lenience=0.6, has_eos=False),
    "lenient argmax": Group(lenience=0.3, temperature=0.0, has_eos=False),
}


def settings() -> RowSettings:
    """Of the whole batch."""
    fields = {
        name: [getattr(group, name) for group in GROUPS.values()] * ROWS
        for name in (field.name for field in dataclasses.fields(Group))
        if name != "has_eos"
    }
    settings = DecodeSettings(max_gamma=MAX_GAMMA, **fields)
    return settings.rows(ROWS * len(GROUPS))


def added(name: str) -> np.ndarray:
    """[V], the input of a group's rows, on top of both models' logits."""
    place = list(GROUPS).index(name)
    add = 0.5 * np.random.default_rng(100 + place).normal(size=VOCAB)
    if not GROUPS[name].has_eos:
        add[toys.EOS] = NEVER
    return add


def inputs() -> jnp.ndarray:
    add = np.stack([added(name) for name in GROUPS])
    add = np.pad(add, ((0, 0), (0, PADDED - VOCAB)))
    return jnp.asarray(np.tile(add, (ROWS, 1)), jnp.float32)


def sample(
    decoder: Decoder, params, batches: int = BATCHES
) -> tuple[dict[str, np.ndarray], DecodeResult]:
    """Counts of each group's first tokens over all batches, and the last result."""
    rows, add = settings(), inputs()
    size = ROWS * len(GROUPS)
    tokens = []
    for batch in range(batches):
        ids = batch * size + np.arange(size)
        result = toys.decode(decoder, params, add, rows, row_ids=ids)
        tokens.append(np.asarray(result.tokens)[:, :LENGTH])
    tokens = np.concatenate(tokens).reshape(-1, len(GROUPS), LENGTH)
    counts = {
        name: reference.count(tokens[:, place], VOCAB)
        for place, name in enumerate(GROUPS)
    }
    return counts, result


def next_law(name: str, table: np.ndarray) -> reference.NextLaw:
    """What a table model gives a group's rows after each prefix."""
    return reference.table_law(table, added(name), **GROUPS[name].warp)


def exact(name: str, law: reference.NextLaw) -> np.ndarray:
    """The law of what a group's rows hold in the first places of their output."""
    cap = GROUPS[name].max_new_tokens
    return reference.joint_law(law, [0], LENGTH, cap, toys.EOS)
