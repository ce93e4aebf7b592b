"""Which network a configuration is of."""

import jax.numpy as jnp

from specdec_jax.models.gpt import GPT, GPTConfig
from specdec_jax.models.t5 import T5, T5Config
from specdec_jax.typing import Array, Key, Params

ModelConfig = T5Config | GPTConfig


def family(config: ModelConfig) -> str:
    """What it is called in messages."""
    return "GPT" if isinstance(config, GPTConfig) else "T5"


def network(config: ModelConfig) -> T5 | GPT:
    """The Flax module of a configuration."""
    return GPT(config) if isinstance(config, GPTConfig) else T5(config)


def random_params(config: ModelConfig, key: Key[Array, ""]) -> Params:
    """What training starts from."""
    token = jnp.zeros((1, 1), jnp.int32)
    of_gpt = isinstance(config, GPTConfig)
    arguments = (token,) if of_gpt else (token, token == 0, token)
    return network(config).init(key, *arguments)["params"]
