"""Figures of a pair: tokens per target call, and speedup, against gamma."""

from collections.abc import Iterable, Sequence

from matplotlib.ticker import MaxNLocator

from specdec_jax.experiments.figures import (
    SERIES,
    Axes,
    Figure,
    Line2D,
    plot,
    styled,
)
from specdec_jax.experiments.kinds import Benchmark, Sweep

SOLID, DASHED = "-", (0, (4, 2))


@styled
def tokens_figure(records: Iterable[Sweep]) -> Figure:
    """Tokens per target call against gamma, a colour and a marker a temperature.

    Args:
      records: of `sweep.sweep`.
    """
    figure, axes = plot("γ, draft tokens per target call", "tokens per target call")
    _measured_and_predicted(
        figure,
        axes,
        records,
        ("tokens_per_target_call", "predicted_tokens_per_target_call"),
        spread=None,
    )
    return figure


@styled
def speed_figure(records: Iterable[Benchmark]) -> Figure:
    """Speedup against gamma, with its range over the rounds, beside the prediction.

    Args:
      records: of `benchmark.benchmark`.
    """
    figure, axes = plot(
        "γ, draft tokens per target call", "speedup over autoregressive decoding"
    )
    fields = "speedup", "predicted_speedup"
    _measured_and_predicted(figure, axes, records, fields, "speedup_spread")
    axes.axhline(1.0, color="black", linewidth=0.8)
    return figure


def _measured_and_predicted(
    figure: Figure,
    axes: Axes,
    records: Iterable[Sweep | Benchmark],
    fields: tuple[str, str],
    spread: str | None,
) -> None:
    by_temperature: dict[float, list] = {}
    for record in sorted(records, key=lambda record: record.gamma):
        by_temperature.setdefault(record.temperature, []).append(record)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    handles = []
    for i, temperature in enumerate(sorted(by_temperature)):
        found, series = by_temperature[temperature], SERIES[i % len(SERIES)]
        gammas = [record.gamma for record in found]
        measured, predicted = (
            [getattr(record, field) for record in found] for field in fields
        )
        axes.plot(gammas, measured, linestyle=SOLID, **series)
        axes.plot(gammas, predicted, linestyle=DASHED, color=series["color"])
        if spread:
            ranged = [r for r in found if getattr(r, spread) is not None]
            _draw_range(axes, ranged, spread, series["color"])
        label = f"temperature {temperature:g}"
        handles.append(Line2D([], [], linestyle=SOLID, label=label, **series))
    measured = "measured, range over rounds" if spread else "measured"
    for style, label in ((SOLID, measured), (DASHED, "predicted")):
        handles.append(Line2D([], [], color="black", linestyle=style, label=label))
    figure.legend(handles=handles, loc="outside upper center", ncols=2)


def _draw_range(
    axes: Axes, records: Sequence[Benchmark], spread: str, color: str
) -> None:
    for record in records:
        axes.vlines(record.gamma, *getattr(record, spread), color=color, linewidth=1.0)
