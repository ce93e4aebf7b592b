"""Other libraries' speed beside ours, on the same weights and prompts."""

from typing import Any

from specdec_jax.experiments.kinds.pairs import OfPair
from specdec_jax.runtime.records import (
    Count,
    Interval,
    NonNegative,
    Object,
    Positive,
    Text,
    Versions,
    holding_counts,
    identity,
    stored,
)


def _are_differences(found: Any) -> bool:
    return isinstance(found, list) and all(
        isinstance(one, dict) and {"prompt", "place"} <= set(one) for one in found
    )


Settings = holding_counts("gamma", "repeats")
Memory = holding_counts("peak_mb", "imports_mb")
Agreement = holding_counts(
    "equal", "prompts", more=lambda x: _are_differences(x.get("differences"))
)


@stored
class _Compared(OfPair):
    """The base of both.

    Attributes:
      inputs, inputs_sha256: how many prompts there are, and a digest of their ids.
      config: the rest of what was compared, the same for all records of a file.
      peer: by name, of `catalogue.PEERS`.
      temperature: of this record.
    """

    inputs: Count | None = identity(default=None)
    inputs_sha256: Text | None = identity(default=None)
    config: Settings = identity()
    peer: Text
    temperature: NonNegative


@stored
class MeasuredPeer(_Compared):
    """A peer's speed, and whether its outputs are those of our baseline.

    Attributes:
      tokens_per_second, tokens_per_second_spread: the median over rounds, the range.
      baseline_tokens_per_second: of our baseline, which took turns with it.
      over_baseline, over_baseline_spread: the former over the latter, round by round.
      tokens, target_calls, tokens_per_target_call: of all rounds.
      memory: `peak_mb` and `imports_mb`; None where it cannot be told.
      agreement: of `agreement.compare`; None above temperature 0.
      peer_versions, peer_settings: of the library.
    """

    kind = "peer"

    tokens_per_second: Positive
    tokens_per_second_spread: Interval | None = None
    baseline_tokens_per_second: Positive | None = None
    over_baseline: Positive
    over_baseline_spread: Interval
    tokens: Count | None = None
    target_calls: Count
    tokens_per_target_call: NonNegative
    memory: Memory | None = None
    agreement: Agreement | None = None
    peer_versions: Versions
    peer_settings: Object


@stored
class AbsentPeer(_Compared):
    """A peer that could not take part.

    Attributes:
      absent: why.
      install: the command that would bring it; None if none would.
    """

    kind = "absent_peer"

    absent: Text
    install: Text | None = None
