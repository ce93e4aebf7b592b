"""One batch of inputs, checked and ready for the jitted programs."""

import dataclasses
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from specdec_jax.auto_gamma import choose
from specdec_jax.data.batching import bucketed
from specdec_jax.decoding import compiled
from specdec_jax.decoding.autoregressive import Autoregressive
from specdec_jax.decoding.contracts import Prompt
from specdec_jax.decoding.loop import finish, first_rows
from specdec_jax.decoding.settings import DecodeSettings
from specdec_jax.decoding.speculative import Speculative
from specdec_jax.decoding.state import DecodeResult, LoopState, RowSettings
from specdec_jax.errors import DataError, SettingsError
from specdec_jax.models.inputs import BUCKET
from specdec_jax.pair import Pair
from specdec_jax.partitioning.loops import Partition
from specdec_jax.runtime.validation import check_seed
from specdec_jax.sampling import row_keys
from specdec_jax.sampling.keys import seed_key
from specdec_jax.sampling.rules.check import check_rule
from specdec_jax.typing import Array, Params, PyTree

METHODS = ("speculative", "autoregressive")
MAX_INPUT_TOKENS = 512


@dataclasses.dataclass(frozen=True)
class Job:
    """Everything that the jitted programs take, for one batch of inputs.

    Attributes:
      decoder: what to do.
      keys, params, inputs, prompt, rows: what its `init` and `run` take.
      batch: how many rows were asked for; a mesh may need a few more.
      partition: the mesh that all is on, if there is one.
    """

    decoder: Autoregressive | Speculative
    keys: Array
    params: Params
    inputs: PyTree
    prompt: Prompt
    rows: RowSettings
    batch: int
    partition: Partition | None = None

    def begin(self) -> LoopState:
        """Encode and prefill."""
        return compiled.begin(self._program, self.params, self.inputs, self.prompt)

    def run(self, state: LoopState) -> LoopState:
        """The loop; consumes the state."""
        return compiled.run(self._program, self.keys, state, self.params, self.rows)

    def finish(self, state: LoopState) -> DecodeResult:
        """The rows that were asked for."""
        return first_rows(finish(state), self.batch)

    def decode(self) -> DecodeResult:
        """All three."""
        return self.finish(self.run(self.begin()))

    @property
    def _program(self) -> compiled.Decoder:
        if self.partition is None:
            return self.decoder
        return self.partition.decoder(self.decoder)


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
    """`prepare` for inputs that are ids already, as `encode` gives them."""
    if method not in METHODS:
        raise SettingsError(f"method must be one of {METHODS}, not {method!r}")
    batch = len(encoded)
    if settings.is_gamma_auto:
        longest = max(map(len, encoded))
        drafts = method == "speculative"
        gamma = choose(pair, settings, batch, longest) if drafts else 0
        settings = dataclasses.replace(settings, gamma=gamma)
    rows = settings.rows(batch)
    check_rule(settings.verification_rule, pair.vocab_size, pair.padded_vocab_size)
    inputs, prompt = pair.config.batch(encoded, pair.tokenizer.special_ids)
    _check_positions(pair, prompt, rows)
    if method == "speculative" and settings.static_gamma > 0:
        decoder = Speculative(
            pair.target,
            pair.drafter,
            settings.static_gamma,
            settings.buffer_size,
            pair.tokenizer.eos_id,
            settings.verification_rule,
        )
        params = pair.params
    else:
        decoder = Autoregressive(
            pair.target,
            settings.buffer_size,
            pair.tokenizer.eos_id,
            settings.verification_rule,
        )
        params = pair.params.target
    try:
        ids = np.arange(batch) if row_ids is None else np.asarray(row_ids)
    except ValueError:  # a ragged sequence
        ids = np.array(None)
    if ids.shape != (batch,) or not _are_integers(ids, 2**31):
        raise SettingsError(
            f"row_ids must be an integer from 0 to 2^31 - 1 for each of {batch} rows"
        )
    check_seed(seed)
    ids = jnp.asarray(ids, jnp.int32)
    given = (row_keys(seed_key(seed), ids), inputs, prompt, rows)
    if pair.partition is not None:
        given = pair.partition.deal(*given)
    keys, inputs, prompt, rows = given
    return Job(decoder, keys, params, inputs, prompt, rows, batch, pair.partition)


def bucket_lengths(pair: Pair, settings: DecodeSettings, longest: int) -> list[int]:
    """An input's length for each program that inputs of 1 to `longest` tokens need.

    Args:
      pair, settings: as in `generate`; with max_new_tokens a model's positions end.
      longest: the most tokens of an input.
    """
    for model in (pair.target, pair.drafter):
        if model.max_length is not None:
            longest = min(longest, model.max_length - settings.buffer_size)
    start = int(pair.decoder_only)  # of a GPT's prompt the start token is a part
    lengths = {bucketed(n + start, BUCKET): n for n in range(1, longest + 1)}
    return list(lengths.values())


def precompile(
    pair: Pair,
    settings: DecodeSettings,
    batch: int,
    length: int,
    method: str = "speculative",
) -> Job:
    """Compiles both programs of a job, and runs them for one token.

    Args:
      pair, settings, method: as in `generate`.
      batch: rows decoded together.
      length: tokens of the longest input.

    Returns:
      A job that has been decoded, of inputs that are nothing but EOS.
    """
    inputs = [[pair.tokenizer.eos_id] * length] * batch
    job = prepare_tokens(pair, inputs, settings, 0, method)
    caps = jnp.ones_like(np.asarray(job.rows.max_new_tokens))
    if job.partition is not None:
        caps = jax.device_put(caps, job.rows.max_new_tokens.sharding)
    job = dataclasses.replace(job, rows=job.rows.replace(max_new_tokens=caps))
    jax.block_until_ready(job.decode())
    return job


def _check_positions(pair: Pair, prompt: Prompt, rows: RowSettings) -> None:
    """Raises SettingsError if a row may come past the positions of a model."""
    models = {"target": pair.target, "drafter": pair.drafter}
    needed = np.asarray(prompt.lengths) + np.asarray(rows.max_new_tokens) - 1
    for side, model in models.items():
        if model.max_length is not None and needed.max() > model.max_length:
            row = int(needed.argmax())
            raise SettingsError(
                f"input {row} has {int(prompt.lengths[row])} tokens, the start token "
                f"among them, and max_new_tokens is {int(rows.max_new_tokens[row])}: "
                f"the {side} knows {model.max_length} positions, so set max_new_tokens "
                "lower, or give a shorter input"
            )


def _are_integers(values: np.ndarray, end: int) -> bool:
    """Whether all are integers in [0, end)."""
    return values.dtype.kind in "iu" and bool(np.all((values >= 0) & (values < end)))


def encode(pair: Pair, texts: Sequence[str]) -> list[list[int]]:
    """The ids of inputs; EOS ends those that are to be answered, not gone on from.

    Raises:
      DataError: no inputs, an empty one, or one over 512 tokens.
    """
    if isinstance(texts, str | bytes):
        raise DataError("give a list of inputs, [text] for one")
    try:
        texts = list(texts)
    except TypeError as error:
        raise DataError(f"give a list of inputs, not {texts!r}") from error
    if not texts:
        raise DataError("there is no input to decode")
    encoded = []
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise DataError(f"input {index} is not a string: {text!r}")
        if not (text.strip() or pair.decoder_only):
            raise DataError(f"input {index} is empty: give at least one word")
        ids = pair.tokenizer.encode(text)
        encoded.append(ids[:-1] if pair.decoder_only else ids)
        if len(encoded[-1]) > MAX_INPUT_TOKENS:
            raise DataError(
                f"input {index} has {len(encoded[-1])} tokens and at most "
                f"{MAX_INPUT_TOKENS} are taken: split it"
            )
    return encoded
