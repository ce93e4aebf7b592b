"""Sweeps of gamma and temperature: how many tokens a target call gives.

All settings are rows of one batch, so there is one compilation and one decode, and
nothing is timed: the same seed gives the same numbers. Times are `benchmark`'s.
"""

import itertools
from collections.abc import Iterable, Sequence

import numpy as np

from specdec_jax.decoding.settings import DecodeSettings
from specdec_jax.decoding.statistics import DecodeStats
from specdec_jax.experiments.kinds import Benchmark, Sweep
from specdec_jax.experiments.tables import Column, Kind, Table
from specdec_jax.generation import generate
from specdec_jax.pair import Pair
from specdec_jax.runtime.records import environment
from specdec_jax.sampling import theory
from specdec_jax.typing import Any


def sweep(
    pair: Pair,
    texts: Sequence[str],
    *,
    gammas: Sequence[int],
    temperatures: Sequence[float],
    seed: int,
    max_new_tokens: int = 64,
) -> list[Sweep]:
    """Decodes all texts with every gamma and temperature.

    Args:
      pair: to decode with.
      texts: inputs; a text draws with the same numbers under all settings.
      gammas, temperatures: all their combinations are decoded.
      seed: of the draws.
      max_new_tokens: of each output.

    Returns:
      A record for each (temperature, gamma).
    """
    settings = list(itertools.product(temperatures, gammas))
    each = len(texts)
    out = generate(
        pair,
        list(texts) * len(settings),
        DecodeSettings(
            gamma=[gamma for _, gamma in settings for _ in texts],
            temperature=[temperature for temperature, _ in settings for _ in texts],
            max_new_tokens=max_new_tokens,
        ),
        seed=seed,
        row_ids=list(range(each)) * len(settings),
    )
    return [
        Sweep(
            **pair.about,
            temperature=temperature,
            gamma=gamma,
            outputs=out.texts[i * each : (i + 1) * each],
            **_counts(out.stats, slice(i * each, (i + 1) * each), gamma),
            **environment(),
        )
        for i, (temperature, gamma) in enumerate(settings)
    ]


def sweep_table(records: Iterable[Sweep]) -> Table:
    """What `sweep` found, a row a setting."""
    columns = (
        Column("T", format="g"),
        Column("γ", format="d"),
        Column("α", Kind.MEASURED),
        Column("tokens", Kind.MEASURED, "d"),
        Column("target calls", Kind.MEASURED, "d"),
        Column("tokens per target call", Kind.MEASURED),
        Column("tokens per target call", Kind.PREDICTED),
    )
    names = ("temperature", "gamma", "alpha", "tokens", "target_calls")
    names += ("tokens_per_target_call", "predicted_tokens_per_target_call")
    rows = [tuple(getattr(record, name) for name in names) for record in records]
    notes = (
        "Predicted: equation 1 for outputs that end, with the α of the row. It assumes "
        "that draft tokens are accepted independently of each other.",
    )
    return Table("A sweep: tokens per target call", columns, rows, notes)


def speed_table(records: Iterable[Benchmark]) -> Table:
    """What `benchmark` measured, a row a setting."""
    columns = (
        Column("T", format="g"),
        Column("γ", format="d"),
        *(Column(name, Kind.MEASURED) for name in ("α", "c", "v")),
        *(Column("speedup", kind) for kind in (Kind.PREDICTED, Kind.MEASURED)),
        *(Column(f"tokens/s{of}", Kind.MEASURED, ".0f") for of in ("", ", baseline")),
    )
    names = ("temperature", "gamma", "alpha", "c", "v", "predicted_speedup")
    names += ("speedup", "tokens_per_second", "baseline_tokens_per_second")
    rows = [tuple(getattr(record, name) for name in names) for record in records]
    return Table("Speedup over autoregressive decoding", columns, rows)


def _counts(stats: DecodeStats, rows: slice, gamma: int) -> dict[str, Any]:
    calls, tokens = int(stats.target_calls[rows].sum()), stats.tokens[rows]
    tested = stats.beta_count[rows].sum()
    alpha = float(stats.beta_sum[rows].sum() / tested) if tested else None
    predicted = [
        theory.expected_target_calls(alpha or 0.0, gamma, int(n)) for n in tokens
    ]
    return {
        "alpha": alpha,
        "tokens": int(tokens.sum()),
        "target_calls": calls,
        "tokens_per_target_call": float(tokens.sum() / calls),
        "predicted_tokens_per_target_call": float(tokens.sum() / np.sum(predicted)),
    }
