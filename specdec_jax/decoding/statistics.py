"""Counts and rates of a decode, from the records of its steps and from nothing else."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from specdec_jax.decoding.state import DecodeResult, StepInfo

Count = np.ndarray | np.number  # [B], or a scalar in a `total`

Counts = np.ndarray | np.generic | float  # one a row, or one for all


@dataclasses.dataclass(frozen=True)
class DecodeStats:
    """What happened to each row; all arrays are [B].

    Nothing past a row's end is counted: a draft token counts once it was tested and a
    token came out at its place.

    Attributes:
      tokens: emitted, EOS included.
      target_calls: that emitted something.
      drafted: draft tokens in force in those calls.
      accepted: draft tokens that were.
      rejected: first rejections, one a block at most.
      beta_sum, beta_count: sum of sum_x min(p/l, q) over the draft tokens tested, and
        their number (accepted + rejected).
    """

    tokens: Count
    target_calls: Count
    drafted: Count
    accepted: Count
    rejected: Count
    beta_sum: Count
    beta_count: Count

    @property
    def tokens_per_target_call(self) -> Count:
        return self.tokens / np.maximum(self.target_calls, 1)

    @property
    def acceptance_rate(self) -> Count:
        """alpha by counting: accepted / tested, tested = accepted + first rejections.

        Not accepted / drafted, which is too low: draft tokens after a rejection were
        never tested. NaN where nothing was tested.
        """
        return _ratio(self.accepted, self.accepted + self.rejected)

    @property
    def alpha(self) -> Count:
        """alpha: the mean of beta = sum_x min(p/l, q) over the draft tokens tested."""
        return _ratio(self.beta_sum, self.beta_count)

    @classmethod
    def stacked(cls, many: Sequence["DecodeStats"]) -> "DecodeStats":
        """The rows of several decodes, one after the other."""
        names = [field.name for field in dataclasses.fields(cls)]
        return cls(**{n: np.concatenate([getattr(m, n) for m in many]) for n in names})

    @classmethod
    def pooled(cls, many: Sequence["DecodeStats"]) -> "DecodeStats":
        """The rows of several decodes as one row: the fields are numbers."""
        names = [field.name for field in dataclasses.fields(cls)]
        return cls(**{n: sum(np.sum(getattr(one, n)) for one in many) for n in names})

    def total(self) -> "DecodeStats":
        """All rows as one."""
        return self.pooled([self])

    def row(self, index: int) -> dict[str, int | float]:
        """The counts of one row, as plain numbers, by name."""
        return {
            field.name: np.asarray(getattr(self, field.name))[index].item()
            for field in dataclasses.fields(self)
        }


def statistics(result: DecodeResult) -> DecodeStats:
    """The counts of each row of a decode."""
    steps = int(result.num_steps)
    infos = StepInfo(
        **{
            field.name: np.asarray(getattr(result.infos, field.name))[:steps]
            for field in dataclasses.fields(StepInfo)
        }
    )
    emitted = infos.num_emitted
    tested_and_emitted = np.minimum(emitted, infos.gamma)
    accepted = np.minimum(infos.num_accepted, emitted)
    place = np.arange(infos.betas.shape[-1])
    counts = place < tested_and_emitted[..., None]
    return DecodeStats(
        tokens=emitted.sum(axis=0),
        target_calls=(emitted > 0).sum(axis=0),
        drafted=np.where(emitted > 0, infos.gamma, 0).sum(axis=0),
        accepted=accepted.sum(axis=0),
        rejected=(tested_and_emitted - np.minimum(accepted, tested_and_emitted)).sum(
            axis=0
        ),
        beta_sum=np.where(counts, infos.betas, 0.0).sum(axis=(0, 2)),
        beta_count=counts.sum(axis=(0, 2)),
    )


def _ratio(a: Count, b: Count) -> Count:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(a, float) / np.asarray(b, float)
