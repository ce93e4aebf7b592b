"""Translating many texts in large batches, for BLEU and for what a drafter learns."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from specdec_jax.data import batching
from specdec_jax.data.tokenizer import SpecialIds, Tokenizer
from specdec_jax.decoding import compiled
from specdec_jax.decoding.autoregressive import Autoregressive
from specdec_jax.decoding.contracts import Prompt
from specdec_jax.decoding.settings import DecodeSettings
from specdec_jax.models.adapters import language_model
from specdec_jax.models.inputs import EncoderInputs
from specdec_jax.models.t5 import T5Config
from specdec_jax.sampling import row_keys
from specdec_jax.typing import Params

BATCH = 128
MAX_NEW_TOKENS = 80
SOURCE_BUCKET = 16  # sources are padded to a multiple


def translate(
    config: T5Config,
    params: Params,
    special_ids: SpecialIds,
    sources: Sequence[Sequence[int]],
    temperatures: Sequence[float] | float = 0.0,
    row_ids: Sequence[int] | None = None,
    seed: int = 0,
    max_new_tokens: int = MAX_NEW_TOKENS,
) -> list[list[int]]:
    """Ids -> ids, with EOS where it came; rows of like lengths are decoded together.

    Args:
      config, params: of a T5.
      special_ids: of the tokenizer.
      sources: ids of the inputs.
      temperatures: one for all, or one a row.
      row_ids: what each row's draws are derived from; its place if not given.
      seed: of the draws.
      max_new_tokens: of each output.
    """
    decoder = Autoregressive(language_model(config), max_new_tokens, special_ids.eos_id)
    start = Prompt(
        jnp.full((BATCH, 1), special_ids.start_id, jnp.int32),
        jnp.ones(BATCH, jnp.int32),
    )
    temperatures = np.broadcast_to(np.asarray(temperatures, float), len(sources))
    ids = np.arange(len(sources)) if row_ids is None else np.asarray(row_ids)
    outputs: list = [None] * len(sources)
    order = np.argsort([len(source) for source in sources], kind="stable")
    for first in range(0, len(order), BATCH):
        rows = order[first : first + BATCH]
        # The last batch is filled up with its first row, to keep one shape.
        filled = np.concatenate([rows, np.repeat(rows[:1], BATCH - len(rows))])
        batch = [sources[i] for i in filled]
        width = batching.bucketed(max(map(len, batch)), SOURCE_BUCKET)
        settings = DecodeSettings(
            temperature=temperatures[filled].tolist(), max_new_tokens=max_new_tokens
        )
        result = compiled.decode(
            decoder,
            row_keys(jax.random.key(seed), jnp.asarray(ids[filled], jnp.int32)),
            params,
            EncoderInputs(
                jnp.asarray(batching.pad(batch, width, special_ids.pad_id)),
                jnp.asarray(batching.lengths_mask(batch, width, BATCH)),
            ),
            start,
            settings.rows(BATCH),
        )
        tokens, lengths = np.asarray(result.tokens), np.asarray(result.lengths)
        for i, row, length in zip(rows, tokens, lengths, strict=False):
            outputs[i] = row[:length].tolist()
    return outputs


def bleu(
    config: T5Config,
    params: Params,
    tokenizer: Tokenizer,
    pairs: Sequence[tuple[str, str]],
) -> float:
    """sacreBLEU of greedy translations: cased, detokenized, 13a."""
    import sacrebleu  # of the extra "train"; nothing else here needs it

    sources = [tokenizer.encode(source) for source, _ in pairs]
    outputs = translate(config, params, tokenizer.special_ids, sources)
    texts = [tokenizer.decode(tokens) for tokens in outputs]
    return sacrebleu.corpus_bleu(texts, [[target for _, target in pairs]]).score
