"""Random pairs small enough to make in a test, in the folders that users have."""

from pathlib import Path

import jax

from specdec_jax.checkpoints import native
from specdec_jax.data.tokenizer import TOKENIZER_FILE, train_tokenizer
from specdec_jax.models import parameters
from specdec_jax.models.config import ModelConfig
from specdec_jax.models.gpt import GPTConfig
from specdec_jax.models.t5 import T5Config

SENTENCES = (
    "a dog runs over the green grass",
    "two men play music in the street",
    "a woman in a red dress is dancing",
    "three children sit on a bench in the park",
    "a boy jumps into the cold water",
)
VOCAB_SIZE = 50
PADDED_VOCAB_SIZE = 56


def tiny_config(width: int = 32, layers: int = 2, **changes) -> T5Config:
    """A T5 of a few thousand parameters."""
    sizes = {
        "vocab_size": VOCAB_SIZE,
        "padded_vocab_size": PADDED_VOCAB_SIZE,
        "emb_dim": width,
        "num_heads": 2,
        "head_dim": 8,
        "mlp_dim": 2 * width,
        "num_encoder_layers": layers,
        "num_decoder_layers": layers,
    }
    return T5Config(**(sizes | changes))


def tiny_gpt_config(width: int = 32, layers: int = 2, **changes) -> GPTConfig:
    """A GPT of a few thousand parameters."""
    sizes = {
        "vocab_size": VOCAB_SIZE,
        "padded_vocab_size": PADDED_VOCAB_SIZE,
        "emb_dim": width,
        "num_heads": 2,
        "head_dim": 8,
        "mlp_dim": 2 * width,
        "num_layers": layers,
        "max_length": 96,
    }
    return GPTConfig(**(sizes | changes))


def random_params(config: ModelConfig, seed: int):
    """Random weights, the logits' a few times larger, so that outputs vary."""
    params = parameters.random_params(config, jax.random.key(seed))
    if not config.logits_via_embedding:
        params["decoder"]["logits_dense"]["kernel"] *= 3.0
    return params


def make_pair(folder: Path, config=tiny_config) -> Path:
    """Writes a pair folder: `target/`, `drafter/`, `spiece.model`."""
    train_tokenizer(SENTENCES * 4, folder / TOKENIZER_FILE, VOCAB_SIZE)
    for side, sizes in (("target", config(32, 2)), ("drafter", config(16, 1))):
        native.save(folder / side, sizes, random_params(sizes, len(side)), "float32")
    return folder


def make_gpt_pair(folder: Path) -> Path:
    """The same, of GPTs."""
    return make_pair(folder, tiny_gpt_config)
