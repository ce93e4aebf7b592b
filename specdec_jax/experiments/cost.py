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

from specdec_jax.decoding.autoregressive import Autoregressive
from specdec_jax.decoding.settings import DecodeSettings
from specdec_jax.decoding.speculative import PairParams, Speculative
from specdec_jax.decoding.state import LoopState
from specdec_jax.drafters.constant import ConstantDrafter
from specdec_jax.drafters.neural import NeuralDrafter
from specdec_jax.generate import Job, prepare_tokens
from specdec_jax.pair import Pair
from specdec_jax.sampling import theory
from specdec_jax.typing import Callable


@dataclasses.dataclass(frozen=True)
class Costs:
    """Times of single parts of a decode, in seconds; one entry a measurement.

    Attributes:
      target: one step of the baseline: a target run of one token, and a draw.
      verify: one speculative step with a drafter that costs nothing, for each gamma: a
        target run of gamma + 1 tokens, and verification.
      step: one speculative step with the drafter, for each gamma.
      one_step: a whole decode that ends after one step, for each gamma; 0 stands for
        the baseline.
      draft_alone: one step of the drafter's own decoding, with its weights at hand;
        None if the drafter has no network.
    """

    target: np.ndarray
    verify: dict[int, np.ndarray]
    step: dict[int, np.ndarray]
    one_step: dict[int, np.ndarray]
    draft_alone: np.ndarray | None

    def c(self, gamma: int) -> np.ndarray:
        """What a guess adds to a speculative step, over a target step.

        Between two target runs a drafter finds other weights in the processor's caches
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
        """What a decode pays once, over a target step: encoding, prefill, calls.

        It is a decode of one step less that step, so that it holds what the first step
        is dearer by, since other weights were in the processor's cache before it.
        """
        step = self.step[gamma] if gamma else self.target
        return (self.one_step[gamma] - step) / self.target


class CostMeter:
    """Times the parts of a decode, a round at a time, to be dealt out among decodes.

    A step's time is that of a whole jitted loop of `steps` steps over its steps, so
    what is measured is a step inside the loop, without dispatch from Python. The loops
    do not stop at EOS, so every run has its full number of tokens. In a round all are
    interleaved: a decode of one step comes after a loop, as decodes do.
    """

    def __init__(
        self,
        pair: Pair,
        tokens: Sequence[int],
        gammas: Sequence[int],
        *,
        temperature: float,
        max_new_tokens: int,
        steps: int,
        seed: int,
    ):
        """Compiles and warms up.

        Args:
          pair: of models.
          tokens: the input.
          gammas: block sizes of the verify steps.
          temperature: of both sides.
          max_new_tokens: the size of a whole decode's buffers.
          steps: tokens of each loop.
          seed: of the draws.
        """
        self._gammas = gammas
        self._programs = _programs(
            pair, tokens, gammas, temperature, max_new_tokens, steps, seed
        )
        self._times = {name: [] for name in self._programs}
        self._time_all()

    def __len__(self) -> int:
        """Rounds that were measured."""
        return len(self._times["target", 0])

    def measure(self) -> None:
        """One round: each part once."""
        for name, seconds in self._time_all().items():
            self._times[name].append(seconds)

    def costs(self) -> Costs:
        """What was measured so far."""
        times = {name: np.array(seconds) for name, seconds in self._times.items()}
        return Costs(
            target=times["target", 0],
            verify={gamma: times["verify", gamma] for gamma in self._gammas},
            step={gamma: times["step", gamma] for gamma in self._gammas},
            one_step={gamma: times["decode", gamma] for gamma in (0, *self._gammas)},
            draft_alone=times.get(("draft", 0)),
        )

    def _time_all(self) -> dict[tuple[str, int], float]:
        return {
            name: (_decode_seconds if name[0] == "decode" else _step_seconds)(program)
            for name, program in self._programs.items()
        }


def _programs(
    pair, tokens, gammas, temperature, max_new_tokens, steps, seed
) -> dict[tuple[str, int], Job]:
    """What is timed, by (part, gamma)."""

    def job(gamma, new_tokens):
        settings = DecodeSettings(
            gamma=gamma, temperature=temperature, max_new_tokens=new_tokens
        )
        return prepare_tokens(pair, [tokens], settings, seed)

    def loop(decoder, params, gamma=0):
        return dataclasses.replace(job(gamma, steps), decoder=decoder, params=params)

    def one_step(gamma):
        whole = job(gamma, max_new_tokens)  # the very program of a decode
        one = jnp.ones_like(whole.rows.max_new_tokens)
        return dataclasses.replace(whole, rows=whole.rows.replace(max_new_tokens=one))

    never = -1  # no token ends the rows of a loop
    target, drafter = pair.target, pair.drafter
    free = ConstantDrafter(target.vocab_size, target.padded_vocab_size)
    programs = {
        ("target", 0): loop(Autoregressive(target, steps, never), pair.params.target),
        ("decode", 0): one_step(0),
    }
    if isinstance(drafter, NeuralDrafter):
        alone = Autoregressive(drafter.model, steps, never)
        programs["draft", 0] = loop(alone, pair.params.drafter)
    for gamma in gammas:
        verify = Speculative(target, free, gamma, steps, never)
        step = Speculative(target, drafter, gamma, steps, never)
        programs["verify", gamma] = loop(
            verify, PairParams(pair.params.target, {}), gamma
        )
        programs["step", gamma] = loop(step, pair.params, gamma)
        programs["decode", gamma] = one_step(gamma)
    return programs


def _step_seconds(program: Job) -> float:
    state = jax.block_until_ready(program.begin())
    seconds, state = timed(lambda: program.run(state))
    return seconds / int(state.step)


def _decode_seconds(program: Job) -> float:
    return timed(lambda: program.run(program.begin()))[0]


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
    e' + R(n) (gamma c + v), with R(n) of `theory.expected_runs`. For long outputs this
    is the theorem's E[tokens] / (gamma c + v).

    Args:
      alpha, gamma, c, v: as in `theory.speedup`.
      lengths: tokens of each output.
      fixed_costs: e and e', of `Costs.once`, of the baseline and of ours.
    """
    distinct, counts = np.unique(lengths, return_counts=True)
    runs = [theory.expected_runs(alpha, gamma, n) for n in distinct.tolist()]
    tokens, all_runs = np.dot(counts, distinct), np.dot(counts, runs)
    return speedup_of_runs(
        int(counts.sum()), int(tokens), float(all_runs), gamma * c + v, fixed_costs
    )


def speedup_of_runs(
    outputs: int,
    tokens: int,
    runs: float,
    step: float,
    fixed_costs: tuple[float, float],
) -> float:
    """(outputs e + tokens) / (outputs e' + runs step), all in target steps."""
    return (outputs * fixed_costs[0] + tokens) / (
        outputs * fixed_costs[1] + runs * step
    )


def timed(program: Callable[[], LoopState]) -> tuple[float, LoopState]:
    """Seconds until a program's result is there, and the result."""
    start = time.perf_counter()
    state = jax.block_until_ready(program())
    return time.perf_counter() - start, state
