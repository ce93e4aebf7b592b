"""What the parts of a decode cost, measured, and the speedup that follows from it.

All times are walltime of whole jitted programs, after a warm-up, waited for with
`block_until_ready`.
"""

import dataclasses
import time
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from specdec_jax.decoding.settings import DecodeSettings
from specdec_jax.decoding.speculative import PairParams
from specdec_jax.decoding.state import LoopState
from specdec_jax.drafters.constant import ConstantDrafter
from specdec_jax.drafters.neural import NeuralDrafter
from specdec_jax.job import Job, prepare_tokens
from specdec_jax.pair import Pair
from specdec_jax.sampling import theory
from specdec_jax.typing import Callable


@dataclasses.dataclass(frozen=True)
class Costs:
    """Times of the parts of a decode, in seconds; one entry a measurement.

    Attributes:
      target: one step of the baseline: a target call of one token, and a draw.
      verify: one speculative step with a drafter that costs nothing, for each gamma: a
        target call of gamma + 1 tokens, and verification.
      step: one speculative step with the drafter, for each gamma.
      begin: encoding and prefill, for each gamma; 0 stands for the baseline.
      draft_alone: one step of the drafter's own decoding, with its weights at hand;
        None if the drafter has no network.
    """

    target: np.ndarray
    verify: dict[int, np.ndarray]
    step: dict[int, np.ndarray]
    begin: dict[int, np.ndarray]
    draft_alone: np.ndarray | None

    def c(self, gamma: int) -> np.ndarray:
        """What a draft token adds to a speculative step, over a target step.

        Between two target calls a drafter finds other weights in the processor's caches
        than in a loop of its own, so it is measured there, as the paper read it off
        traces of its loop.
        """
        added = np.maximum(self.step[gamma] - self.verify[gamma], 0.0)
        return added / gamma / self.target

    def c_alone(self) -> np.ndarray | None:
        """A step of the drafter's own decoding, over a target step."""
        return None if self.draft_alone is None else self.draft_alone / self.target

    def v(self, gamma: int) -> np.ndarray:
        """Verify step over target step."""
        return self.verify[gamma] / self.target

    def once(self, gamma: int) -> np.ndarray:
        """What a decode pays once, over a target step: encoding and prefill."""
        return self.begin[gamma] / self.target


class CostMeter:
    """Times the parts of a decode, a round at a time, to be spread among decodes.

    What is timed are whole decodes, encoding and loop apart, and a step's time is that
    of its loop over its steps. So a step is measured as it comes in decodes: in loops
    as short as theirs, which begin with other weights in the processor's caches, and
    without dispatch from Python between steps.
    """

    def __init__(
        self,
        pair: Pair,
        inputs: Sequence[Sequence[int]],
        gammas: Sequence[int],
        *,
        temperature: float,
        max_new_tokens: int,
        seed: int,
    ):
        """Compiles and warms up.

        Args:
          pair: of models.
          inputs: of one length, whose programs are the same; a round times one of them.
          gammas: block sizes of the verify steps.
          temperature: of both sides.
          max_new_tokens: of the decodes.
          seed: of the draws.
        """
        self._gammas = gammas
        settings = {
            gamma: DecodeSettings(
                gamma=gamma, temperature=temperature, max_new_tokens=max_new_tokens
            )
            for gamma in (0, *gammas)
        }
        self._programs = [
            _programs(
                pair,
                {g: prepare_tokens(pair, [ids], s, seed) for g, s in settings.items()},
            )
            for ids in inputs
        ]
        self._times = []
        self._time_all()

    def __len__(self) -> int:
        """Rounds that were measured."""
        return len(self._times)

    def measure(self) -> None:
        """One round: each part once."""
        self._times.append(self._time_all())

    def costs(self) -> Costs:
        """What was measured so far."""

        def times(*name):
            of_rounds = [seconds[name] for seconds in self._times]
            begin, step = np.array(of_rounds).T
            return begin, step

        alone = ("draft", 0) in self._programs[0]
        return Costs(
            target=times("step", 0)[1],
            verify={gamma: times("verify", gamma)[1] for gamma in self._gammas},
            step={gamma: times("step", gamma)[1] for gamma in self._gammas},
            begin={gamma: times("step", gamma)[0] for gamma in (0, *self._gammas)},
            draft_alone=times("draft", 0)[1] if alone else None,
        )

    def _time_all(self) -> dict[tuple[str, int], tuple[float, float]]:
        """Seconds of encoding and of a step, by (part, gamma)."""
        programs = self._programs[len(self) % len(self._programs)]
        return {name: _seconds(program) for name, program in programs.items()}


def _programs(pair: Pair, jobs: dict[int, Job]) -> dict[tuple[str, int], Job]:
    """What is timed, by (part, gamma), from the decodes for each gamma."""
    programs = {("step", gamma): job for gamma, job in jobs.items()}
    target, drafter = pair.target, pair.drafter
    free = ConstantDrafter(target.vocab_size, target.padded_vocab_size)
    if isinstance(drafter, NeuralDrafter):
        alone = dataclasses.replace(jobs[0].decoder, model=drafter.model)
        programs["draft", 0] = dataclasses.replace(
            jobs[0], decoder=alone, params=pair.params.drafter
        )
    for gamma, job in jobs.items():
        if gamma:
            # Its draft tokens are never accepted: end after as many steps as ours.
            steps = job.run(job.begin()).step
            cap = jnp.full_like(job.rows.max_new_tokens, steps)
            programs["verify", gamma] = dataclasses.replace(
                job,
                decoder=dataclasses.replace(job.decoder, drafter=free),
                params=PairParams(pair.params.target, {}),
                rows=job.rows.replace(max_new_tokens=cap),
            )
    return programs


def _seconds(program: Job) -> tuple[float, float]:
    """Of encoding and prefill, and of one step of the loop."""
    begin, state = timed(program.begin)
    loop, state = timed(lambda: program.run(state))
    return begin, loop / int(state.step)


def predict_speedup(
    alpha: float,
    gamma: int,
    c: float,
    v: float,
    lengths: Sequence[int],
    fixed_costs: tuple[float, float] = (0.0, 0.0),
) -> float:
    """Theorem 3.8 for outputs of finite lengths, with what each pays once.

    A baseline output of n tokens takes e + n target steps, and ours takes
    e' + R(n) (gamma c + v), with R(n) of `theory.expected_target_calls`. For long
    outputs this is the theorem's E[tokens] / (gamma c + v).

    Args:
      alpha, gamma, c, v: as in `theory.speedup`.
      lengths: tokens of each output.
      fixed_costs: e and e', of `Costs.once`, of the baseline and of ours.
    """
    distinct, counts = np.unique(lengths, return_counts=True)
    calls = [theory.expected_target_calls(alpha, gamma, n) for n in distinct.tolist()]
    tokens, all_calls = np.dot(counts, distinct), np.dot(counts, calls)
    return speedup_of_calls(
        int(counts.sum()), int(tokens), float(all_calls), gamma * c + v, fixed_costs
    )


def speedup_of_calls(
    outputs: int,
    tokens: int,
    calls: float,
    step: float,
    fixed_costs: tuple[float, float],
) -> float:
    """(outputs e + tokens) / (outputs e' + calls step), all in target steps."""
    return (outputs * fixed_costs[0] + tokens) / (
        outputs * fixed_costs[1] + calls * step
    )


def timed(program: Callable[[], LoopState]) -> tuple[float, LoopState]:
    """Seconds until a program's result is there, and the result."""
    start = time.perf_counter()
    state = jax.block_until_ready(program())
    return time.perf_counter() - start, state
