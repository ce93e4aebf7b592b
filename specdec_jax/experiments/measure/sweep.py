"""Sweeps of gamma and temperature: how many tokens a target run gives.

All settings are rows of one batch, so there is one compilation and one decode, and
nothing is timed: the same seed gives the same numbers. Times are `benchmark`'s.
"""

import itertools
from collections.abc import Iterable, Sequence

import numpy as np

from specdec_jax.decoding.settings import DecodeSettings
from specdec_jax.decoding.statistics import DecodeStats
from specdec_jax.experiments.tables import Column, Kind, Table
from specdec_jax.generation import generate
from specdec_jax.pair import Pair
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
) -> list[dict[str, Any]]:
    """Decodes all texts with every gamma and temperature.

    Args:
      pair: to decode with.
      texts: inputs; a text draws with the same numbers under all settings.
      gammas, temperatures: all their combinations are decoded.
      seed: of the draws.
      max_new_tokens: of each output.

    Returns:
      A record for each (temperature, gamma): "outputs", "tokens", "target_calls",
      "tokens_per_target_run", "alpha" (None where nothing was guessed), and what
      `theory.expected_target_calls` predicts with this alpha for outputs of these
      lengths, "predicted_tokens_per_target_run".
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
        {"pair": pair.name, "temperature": temperature, "gamma": gamma}
        | _counts(out.stats, slice(i * each, (i + 1) * each), gamma)
        | {"outputs": out.texts[i * each : (i + 1) * each]}
        for i, (temperature, gamma) in enumerate(settings)
    ]


def sweep_table(records: Iterable[dict[str, Any]]) -> Table:
    """What `sweep` found, a row a setting."""
    columns = (
        Column("T", format="g"),
        Column("γ", format="d"),
        Column("α", Kind.MEASURED),
        Column("tokens", Kind.MEASURED, "d"),
        Column("target runs", Kind.MEASURED, "d"),
        Column("tokens a run", Kind.MEASURED),
        Column("tokens a run", Kind.PREDICTED),
    )
    keys = ("temperature", "gamma", "alpha", "tokens", "target_calls")
    keys += ("tokens_per_target_run", "predicted_tokens_per_target_run")
    rows = [tuple(record[key] for key in keys) for record in records]
    notes = (
        "Predicted: equation 1 for outputs that end, with the α of the row. It takes "
        "guesses to stand independently of each other.",
    )
    return Table("A sweep: what a run of the target gives", columns, rows, notes)


def speed_table(records: Iterable[dict[str, Any]]) -> Table:
    """What `benchmark` measured, a row a setting."""
    columns = (
        Column("T", format="g"),
        Column("γ", format="d"),
        *(Column(name, Kind.MEASURED) for name in ("α", "c", "v")),
        *(Column("speed", kind) for kind in (Kind.PREDICTED, Kind.MEASURED)),
        *(Column(f"tokens/s{of}", Kind.MEASURED, ".0f") for of in ("", ", baseline")),
    )
    keys = ("temperature", "gamma", "alpha", "c", "verify_cost", "predicted_speedup")
    keys += ("speedup", "tokens_per_second", "baseline_tokens_per_second")
    rows = [tuple(record[key] for key in keys) for record in records]
    return Table("Speed against the target alone", columns, rows)


def _counts(stats: DecodeStats, rows: slice, gamma: int) -> dict[str, Any]:
    calls, tokens = int(stats.target_calls[rows].sum()), stats.tokens[rows]
    tested = stats.beta_count[rows].sum()
    alpha = float(stats.beta_sum[rows].sum() / tested) if tested else None
    runs = [theory.expected_target_calls(alpha or 0.0, gamma, int(n)) for n in tokens]
    return {
        "alpha": alpha,
        "tokens": int(tokens.sum()),
        "target_calls": calls,
        "tokens_per_target_run": float(tokens.sum() / calls),
        "predicted_tokens_per_target_run": float(tokens.sum() / np.sum(runs)),
    }
