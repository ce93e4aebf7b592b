"""The families that there are; a new one is a file with its configuration."""

from specdec_jax.models.config import ModelConfig
from specdec_jax.models.gpt import GPTConfig
from specdec_jax.models.t5 import T5Config

FAMILIES: tuple[type[ModelConfig], ...] = (T5Config, GPTConfig)
