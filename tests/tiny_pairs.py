"""Random T5 pairs small enough to make in a test, in the folders that users have."""

from pathlib import Path

import jax
import jax.numpy as jnp

from specdec_jax.checkpoints import native
from specdec_jax.data.tokenizer import TOKENIZER_FILE, train_tokenizer
from specdec_jax.models.t5 import T5, T5Config

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


def random_params(config: T5Config, seed: int):
    """Random weights, the logits' a few times larger, so that outputs vary."""
    token = jnp.zeros((1, 1), jnp.int32)
    params = T5(config).init(jax.random.key(seed), token, token == 0, token)["params"]
    if not config.logits_via_embedding:
        params["decoder"]["logits_dense"]["kernel"] *= 3.0
    return params


def make_pair(folder: Path) -> Path:
    """Writes a pair folder: `target/`, `drafter/`, `spiece.model`."""
    train_tokenizer(SENTENCES * 4, folder / TOKENIZER_FILE, VOCAB_SIZE)
    for side, config in (
        ("target", tiny_config(32, 2)),
        ("drafter", tiny_config(16, 1)),
    ):
        native.save(folder / side, config, random_params(config, len(side)), "float32")
    return folder
