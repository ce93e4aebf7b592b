"""Text in, text out: the package's front door."""

import dataclasses
import difflib
import textwrap
from collections.abc import Callable, Sequence
from typing import Any, Unpack

import jax
import numpy as np

from specdec_jax import display
from specdec_jax.decoding.settings import DecodeFields, DecodeSettings
from specdec_jax.decoding.state import DecodeResult, StepInfo
from specdec_jax.decoding.statistics import DecodeStats, statistics
from specdec_jax.errors import DataError, SettingsError
from specdec_jax.job import prepare
from specdec_jax.pair import Pair

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
        count = len(self.texts)
        if row is not None and (isinstance(row, bool) or row not in range(count)):
            raise DataError(f"row must be from 0 to {count - 1}, not {row!r}")
        rows = range(count) if row is None else [row]
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


def generate(
    pair: Pair,
    texts: Sequence[str],
    settings: DecodeSettings | None = None,
    *,
    seed: int = 0,
    method: str = "speculative",
    row_ids: Sequence[int] | None = None,
    **fields: Unpack[DecodeFields],
) -> Generated:
    """Decodes inputs as one batch.

        generate(pair, ["A man rides a bicycle."], gamma=4, temperature=0.5)

    Args:
      pair: from `load_pair`.
      texts: the inputs. A T5 answers them, and none is empty; a GPT goes on from them,
        and from nothing if one is empty.
      settings: how to decode; `DecodeSettings()` if not given.
      seed: of all draws; at temperature 0 it changes nothing.
      method: "speculative", or "autoregressive" for the baseline.
      row_ids: what each row's draws are derived from, with the seed; 0, 1, ... if not
        given. Give an input's place in a longer list to have its output not depend on
        how the list is split into batches.
      **fields: of `DecodeSettings`, in place of those of `settings`: `gamma`,
        `temperature`, `top_k`, `top_p`, `lenience`, `max_new_tokens`, `max_gamma` and
        `rule`. Each number may be a sequence, one value a row.

    Returns:
      Texts, tokens, counts and what each step did; `show()` draws it.

    Raises:
      DataError: no inputs, an empty one, or one over 512 tokens.
      SettingsError: unknown method or setting, a seed or row ids out of range, settings
        that do not fit the batch, more tokens than a model has positions, or a rule of
        your own that does not keep to the contract.
    """
    if not isinstance(pair, Pair):
        raise SettingsError(f"pair must be what load_pair returns, not {pair!r}")
    settings = _settings(settings, fields)
    job = prepare(pair, texts, settings, seed, method, row_ids)
    return collect(pair, job.decode())


def _settings(settings: Any, fields: DecodeFields) -> DecodeSettings:
    """Settings with some fields replaced, or an error that says what is wrong."""
    known = [field.name for field in dataclasses.fields(DecodeSettings)]
    if settings is not None and not isinstance(settings, DecodeSettings):
        raise SettingsError(
            f"settings must be a DecodeSettings, not {settings!r}: give DecodeSettings("
            "gamma=4, ...), or the fields by name, generate(pair, texts, gamma=4, ...)"
        )
    for name in fields:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {known}"
            raise SettingsError(f"there is no setting {name}: {hint}")
    return dataclasses.replace(settings or DecodeSettings(), **fields)


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
