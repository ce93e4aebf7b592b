"""Speculative decoding against its baseline, measured in one process, interleaved.

For every gamma, temperature and lenience: tokens per second of both, alpha by both
estimators, the costs c and v, the speedup predicted from them (once as if beta were
i.i.d., and once from the betas along the baseline's outputs), and the measured one.
"""

import contextlib
import dataclasses
import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from specdec_jax.decoding.settings import DecodeSettings
from specdec_jax.decoding.statistics import DecodeStats, statistics
from specdec_jax.experiments.kinds import Benchmark
from specdec_jax.experiments.measure.acceptance import along_outputs
from specdec_jax.experiments.measure.cost import CostMeter, predict_speedup, timed
from specdec_jax.experiments.measure.intervals import ratio_of_sums
from specdec_jax.experiments.measure.prediction import CostModel
from specdec_jax.experiments.record_file import RecordFile
from specdec_jax.job import prepare_tokens
from specdec_jax.pair import Pair
from specdec_jax.runtime.progress import progress_bar
from specdec_jax.runtime.records import digest, environment
from specdec_jax.runtime.validation import check_kinds, check_seed
from specdec_jax.sampling import theory
from specdec_jax.typing import Any, self_checked

BASELINE = (0, 1.0)  # among gammas and leniences
SCORED = 8  # baseline outputs scored together


@self_checked
class BenchmarkConfig:
    """What to measure.

    Attributes:
      gammas: block sizes; each is a program of its own.
      temperatures: of both sides; traced.
      rule: how drafts are verified: a name of `sampling.RULES`.
      leniences: of appendix A.5; traced. Below 1 the output is not the target's own.
      repeats: rounds over all inputs. Every round times every program on every input
        before the next round begins.
      max_new_tokens: of every output.
      seed: of the draws; round r draws with seed + r.
      cost_rounds: measurements of c and v, spread evenly among the decodes.
    """

    gammas: tuple[int, ...] = (1, 2, 3, 4, 5, 6, 8)
    temperatures: tuple[float, ...] = (0.0, 1.0)
    rule: str = "token"
    leniences: tuple[float, ...] = (1.0,)
    repeats: int = 3
    max_new_tokens: int = 64
    seed: int = 0
    cost_rounds: int = 24

    def __post_init__(self):
        check_kinds(self, may_be_0=("seed",))
        check_seed(self.seed)
        check_seed(self.seed + self.repeats)  # the last round's
        for temperature in self.temperatures:
            DecodeSettings(temperature=temperature, rule=self.rule)
        for lenience in self.leniences:
            DecodeSettings(lenience=lenience)


def benchmark(
    pair: Pair,
    inputs: Sequence[Sequence[int]],
    config: BenchmarkConfig,
    records: RecordFile | None = None,
) -> Iterator[Benchmark]:
    """Measures, and yields a record for each (temperature, gamma, lenience).

    Args:
      pair: to measure.
      inputs: ids, decoded one at a time, as in the paper.
      config: what to measure.
      records: appended to; settings that it already holds are not measured again.

    Raises:
      DataError: `records` are of another pair, of other inputs or repeats, or another
        run's for now.
    """
    with contextlib.nullcontext() if records is None else records.alone():
        yield from _benchmark(pair, inputs, config, records)


def _benchmark(pair, inputs, config, records) -> Iterator[Benchmark]:
    identity = _identity(pair, inputs, config)
    before = [] if records is None else records.of_run(Benchmark, identity)
    done = {(one.temperature, one.gamma, one.lenience) for one in before}
    settings = list(itertools.product(config.gammas, config.leniences))
    for temperature in config.temperatures:
        wanted = [one for one in settings if (temperature, *one) not in done]
        if not wanted:
            continue
        gammas = list(dict.fromkeys(gamma for gamma, _ in wanted))
        with progress_bar(f"temperature {temperature:g}") as bar:
            meter = CostMeter(
                pair,
                _typical(inputs),
                gammas,
                temperature=temperature,
                max_new_tokens=config.max_new_tokens,
                seed=config.seed,
            )
            runs = _measure(pair, inputs, temperature, wanted, config, meter, bar)
        costs = meter.costs()
        chances = _score_baseline(pair, inputs, temperature, runs[BASELINE], config)
        for gamma, lenience in wanted:
            measured = _compared(runs[BASELINE], runs[gamma, lenience], gamma, costs)
            # With lenience outputs are not the baseline's; the betas are of one rule.
            if lenience == 1 and config.rule == "token":
                measured |= _predicted_from_betas(
                    chances, gamma, CostModel.from_costs(costs)
                )
            record = Benchmark(
                **identity,
                temperature=temperature,
                gamma=gamma,
                lenience=lenience,
                **measured,
                **environment(),
            )
            if records is not None:
                records.append(record)
            yield record


def _typical(inputs: Sequence[Sequence[int]]) -> list[Sequence[int]]:
    """The inputs of the median length."""
    lengths = sorted(map(len, inputs))
    return [one for one in inputs if len(one) == lengths[len(inputs) // 2]]


@dataclasses.dataclass
class _Run:
    """One program over all inputs: what each round took, and its counts.

    Attributes:
      seconds: whole decodes: encode, prefill and loop.
      stats: a row an input.
      outputs: the tokens of each round.
    """

    seconds: list[float] = dataclasses.field(default_factory=list)
    stats: list[DecodeStats] = dataclasses.field(default_factory=list)  # all rows
    outputs: list[list[list[int]]] = dataclasses.field(default_factory=list)

    @property
    def tokens_per_second(self) -> np.ndarray:
        """Of each round."""
        return np.array([s.tokens.sum() for s in self.stats]) / np.array(self.seconds)


def _measure(
    pair, inputs, temperature, wanted, config, meter, bar
) -> dict[tuple[int, float], _Run]:
    """Rounds over all inputs, rounds of costs among them; by gamma and lenience."""
    runs = {setting: _Run() for setting in (BASELINE, *wanted)}
    rounds = config.repeats + 1  # round 0 compiles and warms up
    task = bar.add_task("", total=rounds * len(inputs))
    for round_ in range(rounds):
        seconds, stats, outputs = ({one: [] for one in runs} for _ in range(3))
        for i, tokens in enumerate(inputs):
            for setting in runs:
                gamma, lenience = setting
                settings = DecodeSettings(
                    gamma=gamma,
                    temperature=temperature,
                    lenience=lenience,
                    rule=config.rule,
                    max_new_tokens=config.max_new_tokens,
                )
                job = prepare_tokens(
                    pair, [tokens], settings, config.seed + round_, row_ids=[i]
                )
                elapsed, state = timed(lambda: job.run(job.begin()))  # noqa: B023
                seconds[setting].append(elapsed)
                result = job.finish(state)
                stats[setting].append(statistics(result))
                length = int(result.lengths[0])
                tokens_made = np.asarray(result.tokens)[0, :length].tolist()
                outputs[setting].append(tokens_made)
            if round_:
                measured = (round_ - 1) * len(inputs) + i + 1
                due = config.cost_rounds * measured // (config.repeats * len(inputs))
                for _ in range(len(meter), due):
                    meter.measure()
            bar.advance(task)
        for setting, run in runs.items() if round_ else ():
            run.seconds.append(sum(seconds[setting]))
            run.stats.append(DecodeStats.stacked(stats[setting]))
            run.outputs.append(outputs[setting])
    return runs


def _score_baseline(pair, inputs, temperature, run, config) -> list[np.ndarray]:
    """`Acceptance.accept_probs` along the baseline's outputs, when all is timed.

    At temperature 0 all rounds have the same outputs.
    """
    settings = DecodeSettings(
        temperature=temperature, max_new_tokens=config.max_new_tokens
    )
    chances = []
    for outputs in run.outputs if temperature else run.outputs[:1]:
        for start in range(0, len(inputs), SCORED):
            rows = slice(start, start + SCORED)
            along = along_outputs(pair, inputs[rows], outputs[rows], settings)
            chances += [one.accept_probs for one in along]
    return chances


def _predicted_from_betas(
    accept_probs: Sequence[np.ndarray], gamma: int, costs: CostModel
) -> dict[str, Any]:
    """What the betas along the baseline's outputs predict for a gamma.

    The best gamma is one for all gammas that are measured together, and no higher than
    the highest of them.
    """
    calls = sum(theory.expected_target_calls_along(one, gamma) for one in accept_probs)
    return {
        "beta_tokens_per_target_call": sum(map(len, accept_probs)) / calls,
        "beta_predicted_speedup": costs.predict(accept_probs, gamma),
        "best_gamma": costs.best_gamma(accept_probs),
    }


def _compared(baseline_run, run, gamma, costs) -> dict[str, Any]:
    """The numbers of a record."""
    baseline, ours = baseline_run.tokens_per_second, run.tokens_per_second
    stats = DecodeStats.pooled(run.stats)
    # No draft token tested, as when a prompt lookup finds nothing: none accepted.
    acceptance_rate = float(np.nan_to_num(stats.acceptance_rate))
    of_outputs = (
        sum(getattr(one, name) for one in run.stats)
        for name in ("beta_sum", "beta_count")
    )
    alpha, interval = ratio_of_sums(*of_outputs)
    step = float(np.median(costs.target))
    c, v = float(np.median(costs.c(gamma))), float(np.median(costs.v(gamma)))
    alone = costs.c_alone()
    fixed_costs = tuple(float(np.median(costs.once(g))) for g in (0, gamma))
    lengths = np.concatenate([s.tokens for s in run.stats]).tolist()
    predicted = predict_speedup(alpha, gamma, c, v, lengths, fixed_costs)
    speedup = float(np.median(ours / baseline))
    return {
        "alpha": alpha,
        "alpha_interval": interval,
        "acceptance_rate": acceptance_rate,
        "tokens_per_target_call": float(stats.tokens_per_target_call),
        "drafted_per_target_call": float(stats.drafted / stats.target_calls),
        "c": c,
        "c_spread": _spread(costs.c(gamma)),
        "c_alone": None if alone is None else float(np.median(alone)),
        "v": v,
        "v_spread": _spread(costs.v(gamma)),
        "fixed_costs": fixed_costs,
        "theorem_3_8": theory.speedup(alpha, gamma, c, v),
        "predicted_speedup": predicted,
        "speedup": speedup,
        "speedup_spread": _spread(ours / baseline),
        "measured_over_predicted": speedup / predicted,
        "tokens_per_second": float(np.median(ours)),
        "tokens_per_second_spread": _spread(ours),
        "baseline_tokens_per_second": float(np.median(baseline)),
        "baseline_tokens_per_second_spread": _spread(baseline),
        "target_step_ms": 1e3 * step,
    }


def _identity(pair, inputs, config) -> dict[str, Any]:
    """The identity fields of this run's records."""
    fields = dataclasses.asdict(config)
    for swept in ("gammas", "temperatures", "leniences"):  # each record has its own
        del fields[swept]
    ids = [list(map(int, tokens)) for tokens in inputs]
    return {
        **pair.about,
        "inputs": len(inputs),
        "inputs_sha256": digest(ids),
        "config": fields,
    }


def _spread(values: np.ndarray) -> list[float]:
    return [float(np.min(values)), float(np.max(values))]
