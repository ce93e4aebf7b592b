"""The files of `golden/make_t5_golden.py`, and calls of the network with them."""

import dataclasses
import functools
import json
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
from flax import traverse_util

from specdec_jax.models.packing import pack
from specdec_jax.models.t5 import T5, T5Config

GOLDEN = pathlib.Path(__file__).parent / "golden"
CASES = ("t5_v1_1", "t5_v1_0")
TOLERANCE = {"rtol": 1e-4, "atol": 1e-4}

# Every decoding test begins with one block of this size, in a cache of one size, so
# that a block of any one size is compiled once for a network.
PREFIX = 9


@dataclasses.dataclass(frozen=True, eq=False)
class Golden:
    """A file of `golden/make_t5_golden.py`: B rows, and jitted calls of the network."""

    model: T5
    variables: dict
    encoder_tokens: jax.Array
    encoder_mask: jax.Array
    decoder_tokens: jax.Array
    logits: np.ndarray

    @functools.cached_property
    def extend(self):
        return jax.jit(functools.partial(self.model.apply, method="extend"))

    @functools.cached_property
    def start_cache(self):
        start = functools.partial(self.model.apply, method="start_cache")
        return jax.jit(start, static_argnums=3)

    def with_config(self, **changes):
        """The same weights in a network with another config."""
        model = T5(dataclasses.replace(self.model.config, **changes))
        variables = self.variables
        if model.config.packed and not self.model.config.packed:
            variables = {"params": pack(variables["params"])}
        return dataclasses.replace(self, model=model, variables=variables)

    def teacher_forced(self):
        return jax.jit(self.model.apply)(
            self.variables, self.encoder_tokens, self.encoder_mask, self.decoder_tokens
        )


@functools.cache
def load(case: str) -> Golden:
    with np.load(GOLDEN / f"{case}.npz") as file:
        data = dict(file)
    params = {
        name.removeprefix("params/"): jnp.asarray(data[name], jnp.float32)
        for name in data
        if name.startswith("params/")
    }
    return Golden(
        model=T5(T5Config(**json.loads(str(data["config"])))),
        variables={"params": traverse_util.unflatten_dict(params, sep="/")},
        encoder_tokens=jnp.asarray(data["encoder_tokens"]),
        encoder_mask=jnp.asarray(data["encoder_mask"]),
        decoder_tokens=jnp.asarray(data["decoder_tokens"]),
        logits=data["logits"],
    )


def start(golden: Golden):
    slots = golden.decoder_tokens.shape[1] + PREFIX
    return golden.start_cache(
        golden.variables, golden.encoder_tokens, golden.encoder_mask, slots
    )
