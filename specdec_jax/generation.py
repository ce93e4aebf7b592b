"""Text in, text out: the package's front door."""

import dataclasses
import textwrap
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from specdec_jax import display
from specdec_jax.data import batching
from specdec_jax.data.tokenizer import EOS_ID, PAD_ID
from specdec_jax.decoding import compiled
from specdec_jax.decoding.autoregressive import Autoregressive
from specdec_jax.decoding.contracts import Prompt
from specdec_jax.decoding.loop import finish, first_rows
from specdec_jax.decoding.settings import DecodeSettings
from specdec_jax.decoding.speculative import Speculative
from specdec_jax.decoding.state import DecodeResult, LoopState, RowSettings, StepInfo
from specdec_jax.decoding.statistics import DecodeStats, statistics
from specdec_jax.errors import DataError, SettingsError
from specdec_jax.models.adapters import EncoderInputs, NoInputs
from specdec_jax.pair import Pair
from specdec_jax.partitioning import layouts
from specdec_jax.partitioning.loops import Partition
from specdec_jax.runtime.validation import check_seed
from specdec_jax.sampling import row_keys
from specdec_jax.sampling.keys import seed_key
from specdec_jax.typing import Array, Params, PyTree

METHODS = ("speculative", "autoregressive")
MAX_INPUT_TOKENS = 512
LENGTH_BUCKET = 8  # inputs are padded to a multiple
SHOWN_ROWS = 8  # of a result, where it is shown unasked


@dataclasses.dataclass(frozen=True, repr=False)
class Generated:
    """What `generate` gives back, in the order of its texts.

    Attributes:
      texts: the output of each row, without what it goes on from.
      tokens: [B, M] ids, EOS included, 0 past `lengths`.
      lengths: [B].
      stats: counts of each row: `target_calls`, `acceptance_rate`, ...
      infos: what each step did, [steps, B, ...]; a trace is drawn from it.
      piece: the text of one id, as a trace shows it.
    """

    texts: list[str]
    tokens: np.ndarray
    lengths: np.ndarray
    stats: DecodeStats
    infos: StepInfo
    piece: Callable[[int], str]

    def show(self, row: int | None = None) -> None:
        """Shows the trace of a row, or of all: a line for each target call.

        In colour in a terminal or a notebook; with marks where there is no colour.
        """
        rows = range(len(self.texts)) if row is None else [row]
        traces = [(self.texts[i], display.steps(self.infos, i)) for i in rows]
        display.show(traces, self.piece)

    def __repr__(self) -> str:
        """A line for each row; of many rows the first."""
        rows = [self._summary(i) for i in range(min(len(self.texts), SHOWN_ROWS))]
        more = len(self.texts) - len(rows)
        rows += [f"... and {more} more"] if more else []
        return "\n".join(rows)

    def _repr_html_(self) -> str:
        """The traces, as a notebook shows them; of many rows the first."""
        rows = range(min(len(self.texts), SHOWN_ROWS))
        return "".join(
            display.as_html(display.steps(self.infos, i), self.piece, self._summary(i))
            for i in rows
        )

    def _summary(self, row: int) -> str:
        counts = self.stats.row(row)
        summary = (
            f"{textwrap.shorten(self.texts[row], 60, placeholder=' ...')!r}: "
            f"{counts['tokens']} tokens in {counts['target_calls']} target calls"
        )
        if counts["beta_count"]:
            summary += f", acceptance rate {self.stats.acceptance_rate[row]:.2f}"
        return summary


@dataclasses.dataclass(frozen=True)
class Job:
    """Everything that the jitted programs take, for one batch of texts.

    Attributes:
      decoder: what to do.
      keys, params, inputs, prompt, rows: what its `init` and `run` take.
      batch: how many rows were asked for; a mesh may need a few more.
      partition: the mesh that all is on, if there is one.
    """

    decoder: Autoregressive | Speculative
    keys: Array
    params: Params
    inputs: EncoderInputs | NoInputs
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

    def wanted_formats(self) -> PyTree:
        """How the compiler wants the parameters laid out; see `lay_out`."""
        return layouts.chosen_formats(
            self._program, self.keys, self.params, self.inputs, self.prompt, self.rows
        )

    @property
    def _program(self) -> compiled.Decoder:
        if self.partition is None:
            return self.decoder
        return self.partition.decoder(self.decoder)


def lay_out(pair: Pair, job: Job) -> Pair:
    """The pair with its weights as the compiler wants them for jobs like this one.

    For TPUs, once after loading. Weights in another layout than a loop's are copied
    before each of its runs, for which a large target leaves no room. Consumes the
    given pair's weights.

    Args:
      pair: as loaded.
      job: a speculative one of the pair, of the batch and the lengths to come.
    """
    params = layouts.lay_out(pair.params, job.wanted_formats())
    return dataclasses.replace(pair, params=params)


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
    rows = settings.rows(batch)
    inputs, prompt = (_to_go_on_from if pair.decoder_only else _to_answer)(encoded)
    _check_positions(pair, prompt, rows)
    if method == "speculative" and settings.static_gamma > 0:
        decoder = Speculative(
            pair.target,
            pair.drafter,
            settings.static_gamma,
            settings.buffer_size,
            EOS_ID,
            settings.verification_rule,
        )
        params = pair.params
    else:
        decoder = Autoregressive(
            pair.target, settings.buffer_size, EOS_ID, settings.verification_rule
        )
        params = pair.params.target
    ids = np.arange(batch) if row_ids is None else np.asarray(row_ids)
    if ids.shape != (batch,) or not _whole(ids, 2**31):
        raise SettingsError(
            f"row_ids must be a whole number from 0 to 2^31 - 1 for each of {batch} "
            "rows"
        )
    check_seed(seed)
    ids = jnp.asarray(ids, jnp.int32)
    given = (row_keys(seed_key(seed), ids), inputs, prompt, rows)
    if pair.partition is not None:
        given = pair.partition.deal(*given)
    keys, inputs, prompt, rows = given
    return Job(decoder, keys, params, inputs, prompt, rows, batch, pair.partition)


def _to_answer(encoded: Sequence[Sequence[int]]) -> tuple[EncoderInputs, Prompt]:
    """An encoder-decoder reads its texts, and begins with the start token."""
    batch = len(encoded)
    width = batching.bucketed(max(map(len, encoded)), LENGTH_BUCKET)
    inputs = EncoderInputs(
        tokens=jnp.asarray(batching.pad(encoded, width)),
        mask=jnp.asarray(batching.lengths_mask(encoded, width, batch)),
    )
    start = jnp.full((batch, 1), PAD_ID, jnp.int32)
    return inputs, Prompt(tokens=start, lengths=jnp.ones(batch, jnp.int32))


def _to_go_on_from(encoded: Sequence[Sequence[int]]) -> tuple[NoInputs, Prompt]:
    """A decoder-only model's texts come after the start token, of unlike lengths."""
    batch = len(encoded)
    started = [[PAD_ID, *tokens] for tokens in encoded]
    lengths = [len(tokens) for tokens in started]
    width = batching.bucketed(max(lengths), LENGTH_BUCKET)
    prompt = Prompt(
        tokens=jnp.asarray(batching.pad(started, width)),
        lengths=jnp.asarray(lengths, jnp.int32),
    )
    return NoInputs(rows=jnp.ones(batch, bool)), prompt


def _check_positions(pair: Pair, prompt: Prompt, rows: RowSettings) -> None:
    """Raises SettingsError if a row may come past the positions of a model."""
    models = {"target": pair.target, "drafter": pair.drafter}
    needed = np.asarray(prompt.lengths) + np.asarray(rows.max_new_tokens) - 1
    for side, model in models.items():
        if model.max_length is not None and needed.max() > model.max_length:
            row = int(needed.argmax())
            raise SettingsError(
                f"text {row} has {int(prompt.lengths[row])} tokens, the start token "
                f"among them, and max_new_tokens is {int(rows.max_new_tokens[row])}: "
                f"the {side} knows {model.max_length} positions, so set max_new_tokens "
                "lower, or give a shorter text"
            )


def _whole(values: np.ndarray, end: int) -> bool:
    """Whether all are whole numbers in [0, end)."""
    return values.dtype.kind in "iu" and bool(np.all((values >= 0) & (values < end)))


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
      texts: the inputs. A T5 answers them, and none is empty; a GPT goes on from them,
        and from nothing if one is empty.
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
      SettingsError: unknown method, a seed or row ids out of range, settings that do
        not fit the batch, or more tokens than a model has positions.
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
        piece=pair.tokenizer.piece,
    )


def encode(pair: Pair, texts: Sequence[str]) -> list[list[int]]:
    """The ids of texts; EOS ends those that are to be answered, not gone on from.

    Raises:
      DataError: no texts, an empty one, or one over 512 tokens.
    """
    if isinstance(texts, str):
        raise DataError("give a list of texts, [text] for one")
    if not texts:
        raise DataError("there is no text to decode")
    encoded = []
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise DataError(f"text {index} is no text: {text!r}")
        if not (text.strip() or pair.decoder_only):
            raise DataError(f"text {index} is empty: give at least one word")
        ids = pair.tokenizer.encode(text)
        encoded.append(ids[:-1] if pair.decoder_only else ids)
        if len(encoded[-1]) > MAX_INPUT_TOKENS:
            raise DataError(
                f"text {index} has {len(encoded[-1])} tokens and at most "
                f"{MAX_INPUT_TOKENS} are taken: split it"
            )
    return encoded
