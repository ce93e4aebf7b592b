"""The files of `golden/`, and calls of the networks with them."""

import dataclasses
import functools
import json
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
from flax import traverse_util

from specdec_jax.models.gpt import GPT, GPTConfig
from specdec_jax.models.inputs import EncoderInputs, NoInputs
from specdec_jax.models.packing import pack
from specdec_jax.models.t5 import T5, T5Config
from tests.models.blocks import PREFIX

GOLDEN = pathlib.Path(__file__).parent / "golden"
CASES = ("t5_v1_1", "t5_v1_0")
GPT_CASES = ("gpt_untied", "gpt_tied")
TOLERANCE = {"rtol": 1e-4, "atol": 1e-4}


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
        extend = functools.partial(self.model.apply, method="extend")
        return jax.jit(extend, static_argnums=4)

    @functools.cached_property
    def start_cache(self):
        start = functools.partial(self.model.apply, method="start_cache")
        return jax.jit(start, static_argnums=2)

    def start(self):
        slots = self.decoder_tokens.shape[1] + PREFIX
        inputs = EncoderInputs(self.encoder_tokens, self.encoder_mask)
        return self.start_cache(self.variables, inputs, slots)[0]

    def with_config(self, **changes):
        """The same weights in a network with another config."""
        return _with_config(self, changes)

    def teacher_forced(self):
        return jax.jit(self.model.apply)(
            self.variables, self.encoder_tokens, self.encoder_mask, self.decoder_tokens
        )


@dataclasses.dataclass(frozen=True, eq=False)
class GPTGolden:
    """A file of `golden/make_gpt_golden.py`, as `Golden` is one of T5's."""

    model: GPT
    variables: dict
    decoder_tokens: jax.Array
    logits: np.ndarray

    @functools.cached_property
    def extend(self):
        extend = functools.partial(self.model.apply, method="extend")
        return jax.jit(extend, static_argnums=4)

    def start(self):
        batch, length = self.decoder_tokens.shape
        inputs = NoInputs(jnp.ones(batch, bool))
        return self.model.apply(
            self.variables, inputs, length + PREFIX, method="start_cache"
        )[0]

    def with_config(self, **changes):
        """The same weights in a network with another config."""
        return _with_config(self, changes)

    def teacher_forced(self):
        return jax.jit(self.model.apply)(self.variables, self.decoder_tokens)


def _with_config(golden, changes):
    old = golden.model.config
    config, variables = dataclasses.replace(old, **changes), golden.variables
    if config.lowering.packed and not old.lowering.packed:
        variables = {"params": pack(config, variables["params"])}
    model = type(golden.model)(config)
    return dataclasses.replace(golden, model=model, variables=variables)


def _read(case: str) -> tuple[dict, dict]:
    """A file's arrays, and its weights as variables."""
    with np.load(GOLDEN / f"{case}.npz") as file:
        data = dict(file)
    params = {
        name.removeprefix("params/"): jnp.asarray(data[name], jnp.float32)
        for name in data
        if name.startswith("params/")
    }
    return data, {"params": traverse_util.unflatten_dict(params, sep="/")}


@functools.cache
def load(case: str) -> Golden:
    data, variables = _read(case)
    return Golden(
        model=T5(T5Config(**json.loads(str(data["config"])))),
        variables=variables,
        encoder_tokens=jnp.asarray(data["encoder_tokens"]),
        encoder_mask=jnp.asarray(data["encoder_mask"]),
        decoder_tokens=jnp.asarray(data["decoder_tokens"]),
        logits=data["logits"],
    )


@functools.cache
def load_gpt(case: str) -> GPTGolden:
    data, variables = _read(case)
    return GPTGolden(
        model=GPT(GPTConfig(**json.loads(str(data["config"])))),
        variables=variables,
        decoder_tokens=jnp.asarray(data["tokens"]),
        logits=data["logits"],
    )
