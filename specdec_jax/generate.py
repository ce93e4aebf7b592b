"""Text in, text out: the package's front door."""

import dataclasses
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from specdec_jax.data import batching
from specdec_jax.data.tokenizer import EOS_ID, PAD_ID
from specdec_jax.decoding import compiled
from specdec_jax.decoding.autoregressive import Autoregressive
from specdec_jax.decoding.contracts import Prompt
from specdec_jax.decoding.settings import DecodeSettings
from specdec_jax.decoding.speculative import Speculative
from specdec_jax.decoding.state import DecodeResult, StepInfo
from specdec_jax.decoding.statistics import DecodeStats, statistics
from specdec_jax.errors import DataError, SettingsError
from specdec_jax.models.adapters import EncoderInputs
from specdec_jax.pair import Pair
from specdec_jax.sampling import row_keys
from specdec_jax.typing import Array, Params

METHODS = ("speculative", "autoregressive")
MAX_INPUT_TOKENS = 512
LENGTH_BUCKET = 8  # inputs are padded to a multiple


@dataclasses.dataclass(frozen=True)
class Generated:
    """What `generate` gives back, in the order of its texts.

    Attributes:
      texts: the output of each row.
      tokens: [B, M] ids, EOS included, 0 past `lengths`.
      lengths: [B].
      stats: counts of each row: `target_calls`, `acceptance_rate`, ...
      infos: what each step did, [steps, B, ...]; a trace is drawn from it.
    """

    texts: list[str]
    tokens: np.ndarray
    lengths: np.ndarray
    stats: DecodeStats
    infos: StepInfo


@dataclasses.dataclass(frozen=True)
class Job:
    """Everything that the jitted programs take, for one batch of texts."""

    decoder: compiled.Decoder
    keys: Array
    params: Params
    inputs: EncoderInputs
    prompt: Prompt
    rows: compiled.RowSettings

    def begin(self) -> compiled.LoopState:
        """Encode and prefill."""
        return compiled.begin(self.decoder, self.params, self.inputs, self.prompt)

    def run(self, state: compiled.LoopState) -> compiled.LoopState:
        """The loop; consumes the state."""
        return compiled.run(self.decoder, self.keys, state, self.params, self.rows)

    def decode(self) -> DecodeResult:
        """Both."""
        return compiled.finish(self.run(self.begin()))


def prepare(
    pair: Pair,
    texts: Sequence[str],
    settings: DecodeSettings,
    seed: int,
    method: str = "speculative",
    row_ids: Sequence[int] | None = None,
) -> Job:
    """Tokenizes, checks, and chooses the decoder; see `generate` for the arguments."""
    return prepare_tokens(pair, encode(pair, texts), settings, seed, method, row_ids)


def prepare_tokens(
    pair: Pair,
    encoded: Sequence[Sequence[int]],
    settings: DecodeSettings,
    seed: int,
    method: str = "speculative",
    row_ids: Sequence[int] | None = None,
) -> Job:
    """`prepare` for inputs that are ids already, EOS included."""
    if method not in METHODS:
        raise SettingsError(f"method must be one of {METHODS}, not {method!r}")
    batch = len(encoded)
    width = batching.bucketed(max(map(len, encoded)), LENGTH_BUCKET)
    inputs = EncoderInputs(
        tokens=jnp.asarray(batching.pad(encoded, width)),
        mask=jnp.asarray(batching.lengths_mask(encoded, width, batch)),
    )
    if method == "speculative" and settings.static_gamma > 0:
        decoder = Speculative(
            pair.target,
            pair.drafter,
            settings.static_gamma,
            settings.buffer_size,
            EOS_ID,
        )
        params = pair.params
    else:
        decoder = Autoregressive(pair.target, settings.buffer_size, EOS_ID)
        params = pair.params.target
    ids = jnp.arange(batch) if row_ids is None else jnp.asarray(row_ids, jnp.int32)
    return Job(
        decoder=decoder,
        keys=row_keys(jax.random.key(seed), ids),
        params=params,
        inputs=inputs,
        prompt=Prompt(
            tokens=jnp.full((batch, 1), PAD_ID, jnp.int32),
            lengths=jnp.ones(batch, jnp.int32),
        ),
        rows=settings.rows(batch),
    )


def generate(
    pair: Pair,
    texts: Sequence[str],
    settings: DecodeSettings = DecodeSettings(),
    *,
    seed: int,
    method: str = "speculative",
    row_ids: Sequence[int] | None = None,
) -> Generated:
    """Decodes texts as one batch.

    Args:
      pair: from `load_pair`.
      texts: the inputs, none empty.
      settings: for all rows, or one value a row.
      seed: of all draws; at temperature 0 it changes nothing.
      method: "speculative", or "autoregressive" for the baseline.
      row_ids: what each row's draws are derived from, with the seed; 0, 1, ... if not
        given. Give a text's place in a longer list to have its output not depend on
        how the list was cut into batches.

    Returns:
      Texts, tokens, counts and records.

    Raises:
      DataError: no texts, an empty one, or one over 512 tokens.
      SettingsError: unknown method, or settings that do not fit the batch.
    """
    job = prepare(pair, texts, settings, seed, method, row_ids)
    return collect(pair, job.decode())


def collect(pair: Pair, result: DecodeResult) -> Generated:
    """A decode's result on the host, with its texts and counts."""
    steps = int(result.num_steps)
    tokens, lengths = np.asarray(result.tokens), np.asarray(result.lengths)
    return Generated(
        texts=[
            pair.tokenizer.decode(row[:length])
            for row, length in zip(tokens, lengths, strict=True)
        ],
        tokens=tokens,
        lengths=lengths,
        stats=statistics(result),
        infos=jax.tree.map(lambda x: np.asarray(x)[:steps], result.infos),
    )


def encode(pair: Pair, texts: Sequence[str]) -> list[list[int]]:
    """The ids of texts, EOS included.

    Raises:
      DataError: no texts, an empty one, or one over 512 tokens.
    """
    if not texts:
        raise DataError("there is no text to decode")
    encoded = []
    for index, text in enumerate(texts):
        if not isinstance(text, str) or not text.strip():
            raise DataError(f"text {index} is empty: give at least one word")
        encoded.append(pair.tokenizer.encode(text))
        if len(encoded[-1]) > MAX_INPUT_TOKENS:
            raise DataError(
                f"text {index} has {len(encoded[-1])} tokens and at most "
                f"{MAX_INPUT_TOKENS} are taken: split it"
            )
    return encoded
