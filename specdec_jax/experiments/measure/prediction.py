"""The speedup, and the best gamma, from measured costs and the sequence of betas.

Beside Theorem 3.8 this drops three of its assumptions: that beta is the same and
independent at every token, that a wider target call costs no more (v = 1), and that
outputs have no end and no beginning.
"""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from specdec_jax.experiments.measure.cost import Costs, speedup_of_calls
from specdec_jax.sampling import theory


@dataclasses.dataclass(frozen=True)
class CostModel:
    """What the parts of a decode cost, in target steps.

    Attributes:
      c: a draft token, for some gammas.
      v: a target call over gamma + 1 tokens, for some gammas; over one it is 1. Between
        the gammas that are given, c and v are interpolated; past the largest they are
        unknown.
      once: what a decode pays once, for some gammas, and for 0, the baseline.
    """

    c: Mapping[int, float]
    v: Mapping[int, float]
    once: Mapping[int, float] = dataclasses.field(default_factory=lambda: {0: 0.0})

    @classmethod
    def from_costs(cls, costs: Costs) -> "CostModel":
        """The medians of measurements."""
        return cls(
            c={gamma: float(np.median(costs.c(gamma))) for gamma in costs.step},
            v={gamma: float(np.median(costs.v(gamma))) for gamma in costs.verify},
            once={gamma: float(np.median(costs.once(gamma))) for gamma in costs.begin},
        )

    @property
    def max_gamma(self) -> int:
        """The largest gamma of which v is known."""
        return max(self.v, default=0)

    def step(self, gamma: int) -> float:
        """gamma c + v(gamma)."""
        verify = _between({**self.v, 0: 1.0}, gamma)
        return gamma * _between(self.c, gamma) + verify if gamma else verify

    def predict(self, accept_probs: Sequence[np.ndarray], gamma: int) -> float:
        """The speedup over the baseline, for outputs of which the betas are known.

        A baseline output of n tokens takes e + n target steps, and ours takes
        e' + R (gamma c + v(gamma)), with R of `theory.expected_target_calls_along`.

        Args:
          accept_probs: of each output, [T]: `Acceptance.accept_probs`.
          gamma: draft tokens a block; 0 is the baseline.
        """
        if gamma > self.max_gamma:
            raise ValueError(f"v is known up to gamma {self.max_gamma}, not {gamma}")
        if gamma == 0:
            return 1.0
        ours = {g: cost for g, cost in self.once.items() if g} or self.once
        return speedup_of_calls(
            len(accept_probs),
            sum(map(len, accept_probs)),
            sum(theory.expected_target_calls_along(one, gamma) for one in accept_probs),
            self.step(gamma),
            (self.once[0], _between(ours, gamma)),
        )

    def best_gamma(self, accept_probs: Sequence[np.ndarray]) -> int:
        """The gamma in 0 .. `max_gamma` of the largest prediction.

        Of equals it is the lowest. 0 says: do not speculate.
        """
        speeds = [self.predict(accept_probs, g) for g in range(self.max_gamma + 1)]
        return int(np.argmax(speeds))


def _between(known: Mapping[int, float], gamma: int) -> float:
    gammas = sorted(known)
    return float(np.interp(gamma, gammas, [known[g] for g in gammas]))
