"""What was decoded: a trace, outputs of texts and of a task, and the task's scores."""

from specdec_jax.experiments.kinds.pairs import OfPair
from specdec_jax.runtime.records import (
    Count,
    Ids,
    NonNegative,
    Object,
    Text,
    Values,
    identity,
    stored,
)


@stored
class Trace(OfPair):
    """One output, and what decided on each token; see `trace.explain`.

    Attributes:
      text, seed, max_new_tokens: the input, and how it was decoded.
      gamma, temperature: of this record.
      output, tokens: the text, and how many tokens it has, EOS included.
      lines: one for each target call.
    """

    kind = "trace"

    text: Text = identity()
    seed: Count = identity()
    gamma: Count
    temperature: NonNegative
    max_new_tokens: Count | None = None
    output: Text
    tokens: Count
    lines: Values


@stored
class _Decoded(OfPair):
    """The base of decoded outputs.

    Attributes:
      method, settings, seed: of the decode.
      index, input: the input's place, and its text.
      output, tokens: the text, and its ids, EOS included.
      target_calls, drafted, accepted, rejected, beta_sum, beta_count: of `DecodeStats`.
    """

    method: Text = identity()
    settings: Object = identity()
    seed: Count = identity()
    index: Count
    input: Text
    output: Text
    tokens: Ids
    target_calls: Count
    drafted: Count
    accepted: Count
    rejected: Count
    beta_sum: NonNegative
    beta_count: Count


@stored
class DecodedText(_Decoded):
    """An output of `scripts/decode.py` for a text."""

    kind = "decoded_text"


@stored
class DecodedRow(_Decoded):
    """An output of `scripts/decode.py` for a row of a task.

    Attributes:
      task, split, lengths: the rows, and to how many tokens they were truncated.
      reference: what the output is scored against.
    """

    kind = "decoded_row"

    task: Text = identity()
    split: Text = identity()
    lengths: Object = identity()
    reference: Text


@stored
class TaskScores(OfPair):
    """A task's scores, in a file `*.scores.json` beside its rows.

    Attributes:
      task, split, lengths, method, settings, seed: as of its rows.
      scores: by name.
      rows: how many there are.
      tokens, target_calls, drafted, accepted, rejected, beta_sum, beta_count,
        tokens_per_target_call: of all rows together.
    """

    kind = "scores"

    task: Text | None = None
    split: Text | None = None
    lengths: Object | None = None
    method: Text | None = None
    settings: Object
    seed: Count | None = None
    scores: Object
    rows: Count
    tokens: Count | None = None
    target_calls: Count | None = None
    drafted: Count | None = None
    accepted: Count | None = None
    rejected: Count | None = None
    beta_sum: NonNegative | None = None
    beta_count: Count | None = None
    tokens_per_target_call: NonNegative | None = None
