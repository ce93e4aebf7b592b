"""What the report measures itself, on a pair: alphas with lenience, and traces.

Both are written as records, and what a file holds already is not measured again.
"""

from collections.abc import Sequence

import numpy as np

from specdec_jax.experiments import paper
from specdec_jax.experiments.distributions import (
    acceptance_rates,
    collect_distributions,
    mean_with_interval,
)
from specdec_jax.experiments.evidence import PROGRAM
from specdec_jax.experiments.explained_trace import explain
from specdec_jax.experiments.records import RecordFile, environment
from specdec_jax.pair import Pair
from specdec_jax.sampling import theory
from specdec_jax.training.translation import progress_bar
from specdec_jax.typing import Any

TEMPERATURES = (0.0, 0.5, 1.0)


def record_alphas(
    pair: Pair, texts: Sequence[str], seed: int, records: RecordFile
) -> None:
    """Alpha for each of the paper's leniences, and rejection sampling's (A.2, A.5).

    Args:
      pair: whose drafter has a network.
      texts: the target generates an output for each; alpha is a mean over all tokens.
      seed: of the draws.
      records: appended to, a record for each temperature and lenience, and one of
        rejection sampling for each temperature above 0.

    Raises:
      DataError: `records` are of another pair, seed or number of texts.
    """
    identity = {
        "program": PROGRAM,
        "pair": pair.name,
        "drafter": drafter_name(pair),
        "seed": seed,
        "sentences": len(texts),
    }
    done = []
    for number, record in enumerate(records, 1):
        records.require(number, record, identity)
        done.append((record["temperature"], record.get("lenience")))
    with progress_bar("α, by teacher forcing") as bar:
        task = bar.add_task("", total=len(TEMPERATURES))
        for temperature in TEMPERATURES:
            wanted = _wanted(temperature)
            missing = [l for l in wanted if (temperature, l) not in done]  # noqa: E741
            if missing:
                measured = _measure(pair, texts, temperature, missing, seed)
                for found in measured:
                    records.append(identity | found | environment())
            bar.update(task, advance=1)


def record_traces(
    pair: Pair,
    text: str,
    wanted: Sequence[tuple[int, float]],
    seed: int,
    records: RecordFile,
) -> None:
    """Traces of one text.

    Args:
      pair: whose drafter has a network.
      text: the input.
      wanted: the gamma and temperature of each.
      seed: of the draws.
      records: appended to, a record each.

    Raises:
      DataError: `records` are of another pair, text or seed.
    """
    identity = {"program": PROGRAM, "pair": pair.name, "text": text, "seed": seed}
    done = []
    for number, record in enumerate(records, 1):
        records.require(number, record, identity)
        done.append((record["gamma"], record["temperature"]))
    with progress_bar("traces") as bar:
        task = bar.add_task("", total=len(wanted))
        for gamma, temperature in wanted:
            if (gamma, temperature) not in done:
                trace = explain(
                    pair, text, gamma=gamma, temperature=temperature, seed=seed
                )
                records.append(identity | trace | environment())
            bar.update(task, advance=1)


def drafter_name(pair: Pair) -> str:
    """How records call a drafter: "neural" for a `NeuralDrafter`."""
    return type(pair.drafter).__name__.removesuffix("Drafter").lower()


def _wanted(temperature: float) -> list[float | None]:
    """The leniences, and None for rejection sampling, which is one-hot at 0."""
    return [*paper.LENIENCES, *([None] if temperature else [])]


def _measure(
    pair: Pair,
    texts: Sequence[str],
    temperature: float,
    wanted: Sequence[float | None],
    seed: int,
) -> list[dict[str, Any]]:
    """A record for each lenience; None is rejection sampling."""
    rates: dict[float | None, list] = {lenience: [] for lenience in (*wanted, 1.0)}
    sequences = []
    for batch in collect_distributions(pair, texts, temperature=temperature, seed=seed):
        sequences.append(batch.sequence)
        for lenience, values in rates.items():
            values.append(
                np.asarray(theory.rejection_sampling_acceptance(batch.p, batch.q))
                if lenience is None
                else acceptance_rates(batch.p, batch.q, temperature, lenience)
            )
    sequence = np.concatenate(sequences)
    found = {
        lenience: mean_with_interval(np.concatenate(values), sequence)
        for lenience, values in rates.items()
    }
    return [
        {"temperature": temperature, "tokens": len(sequence)}
        | _told(lenience, found[lenience], found[1.0])
        for lenience in wanted
    ]


def _told(lenience: float | None, measured: tuple, exact: tuple) -> dict[str, Any]:
    """The numbers of a record: a mean and its interval, and alpha without lenience."""
    mean, interval = measured
    if lenience is None:
        return {
            **{"alpha": exact[0], "alpha_interval": exact[1]},
            **{"rejection_alpha": mean, "rejection_interval": interval},
        }
    return {
        **{"top_k": 0, "top_p": 1.0, "lenience": lenience},
        **{"alpha": mean, "alpha_interval": interval},
    }
