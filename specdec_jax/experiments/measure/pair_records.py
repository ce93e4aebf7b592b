"""What the report measures itself, on a pair: alphas with lenience, and traces.

Both are written as records, and what a file holds already is not measured again.
"""

from collections.abc import Sequence

import numpy as np

from specdec_jax.decoding.settings import DecodeSettings
from specdec_jax.experiments import paper
from specdec_jax.experiments.measure.acceptance import sample_outputs
from specdec_jax.experiments.measure.alpha import drafter_name
from specdec_jax.experiments.measure.distributions import mean_with_interval
from specdec_jax.experiments.record_set import PROGRAM
from specdec_jax.experiments.trace.explain import explain
from specdec_jax.job import encode
from specdec_jax.pair import Pair
from specdec_jax.runtime.progress import progress_bar
from specdec_jax.runtime.records import RecordFile, digest, environment
from specdec_jax.typing import Any

TEMPERATURES = (0.0, 0.5, 1.0)
BATCH = 24


def record_alphas(
    pair: Pair, texts: Sequence[str], seed: int, records: RecordFile
) -> None:
    """Alpha for each of the paper's leniences, and rejection sampling's (A.2, A.5).

    Args:
      pair: a target and any drafter.
      texts: the target generates an output for each; alpha is a mean over all tokens.
      seed: of the draws.
      records: appended to, a record for each temperature and lenience, and one of
        rejection sampling for each temperature above 0.

    Raises:
      DataError: `records` are of another pair, seed or number of texts.
    """
    identity = {
        "program": PROGRAM,
        **pair.about,
        "drafter": drafter_name(pair),
        "seed": seed,
        "sentences": len(texts),
        "sentences_sha256": digest(texts),
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
    identity = {"program": PROGRAM, **pair.about, "text": text, "seed": seed}
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
    leniences, settings = paper.LENIENCES, DecodeSettings(temperature=temperature)
    inputs, sampled = encode(pair, texts), []
    for start in range(0, len(inputs), BATCH):
        rows = inputs[start : start + BATCH]
        places = range(start, start + len(rows))
        sampled += sample_outputs(pair, rows, settings, seed, places, leniences)
    scored = [one for _, one in sampled]
    guessed = np.concatenate([one.guessed for one in scored])
    sequence = np.repeat(np.arange(len(scored)), [len(one.guessed) for one in scored])
    rates = np.concatenate([one.rates for one in scored])
    values = dict(zip(leniences, rates.T, strict=True))
    values[None] = np.concatenate([one.rejection for one in scored])
    found = {
        lenience: mean_with_interval(one[guessed], sequence[guessed])
        for lenience, one in values.items()
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
