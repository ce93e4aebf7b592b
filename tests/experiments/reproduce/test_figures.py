"""Figures hold the right numbers, are told apart without colour, and repeat exactly."""

import numpy as np
import pytest
from matplotlib import colors

from specdec_jax.experiments import figures
from specdec_jax.experiments.trace import trace_figures
from specdec_jax.experiments.trace.timeline import Part
from specdec_jax.experiments.trace.trace_figures import Placed
from tests.experiments import found_records as records

TRACE = records.trace()
COLD = records.trace(temperature=0.0)
COSTS = records.benchmark()


def series(figure):
    return {line.get_label(): line for line in figure.axes[0].get_lines()}


def value_at(line, x):
    points = line.get_xydata()
    return points[np.argmin(np.abs(points[:, 0] - x)), 1]


def test_figure_2_is_equation_1():
    lines = series(figures.figure_2())
    assert list(lines) == ["γ = 1", "γ = 3", "γ = 5", "γ = 7", "γ = ∞"]
    at_eight = [value_at(line, 0.8) for line in lines.values()]
    expected = [sum(0.8**i for i in range(n + 1)) for n in (1, 3, 5, 7)] + [5.0]
    np.testing.assert_allclose(at_eight, expected)


def test_figure_3_ends_at_the_best_gammas_of_alpha_9():
    lines = series(figures.figure_3())
    assert list(lines) == ["c = 0.01", "c = 0.02", "c = 0.05", "c = 0.1"]
    assert [value_at(line, 0.9) for line in lines.values()] == [24, 19, 13, 10]


def test_figure_4_is_table_1_where_they_meet():
    axes = figures.figure_4().axes[0]
    by_style = {style: [] for style in ("-", ":")}
    for line in axes.get_lines():
        by_style[line.get_linestyle()].append(round(float(value_at(line, 0.9)), 2))
    assert by_style["-"] == [1.9, 3.44, 4.69, 5.7, 6.86]
    assert by_style[":"] == [1.05, 1.16, 1.28, 1.40, 1.60]
    legend = [text.get_text() for text in axes.get_legend().get_texts()]
    assert legend == [f"γ = {g}" for g in (1, 3, 5, 7, 10)] + ["speedup", "operations"]


@pytest.mark.parametrize("figure", [figures.figure_2, figures.figure_3])
def test_lines_differ_in_marker_and_in_dashes(figure):
    lines = series(figure()).values()
    assert len({line.get_marker() for line in lines}) == len(lines)
    assert len({str(line._dash_pattern) for line in lines}) == len(lines)


def test_parts_of_a_decode_differ_in_grey_or_in_hatching():
    seen = []
    for part in Part:
        fill = trace_figures.FILLS[part]
        red, green, blue = colors.to_rgb(fill["facecolor"])
        grey = 0.299 * red + 0.587 * green + 0.114 * blue
        for other_grey, hatch in seen:
            assert abs(grey - other_grey) > 0.25 or hatch != fill.get("hatch")
        seen.append((grey, fill.get("hatch")))


def test_tokens_of_a_trace_stand_after_the_text_before_them():
    assert trace_figures.placed(TRACE.lines) == [
        Placed(4, 0, "", "before"),
        Placed(4, 0, " Ein", "accepted"),
        Placed(8, 0, " Mann", "rejected"),
        Placed(13, 0, " <b>Hund", "own"),
        Placed(4, 1, " Ein <b>Hund", "before"),
        Placed(16, 1, " läuft", "accepted"),
        Placed(22, 1, "!", "accepted"),
        Placed(23, 1, "</s>", "own"),
    ]


def test_figure_1_writes_each_token_and_marks_it():
    axes = trace_figures.figure_1(TRACE).axes[0]
    texts = {text.get_text(): text.get_position() for text in axes.texts}
    assert texts[" Mann"] == (8, 0)
    assert texts["</s>"] == (23, 1)
    assert {"  1", "  2", "accepted", "rejected", "the target's own"} <= set(texts)
    assert axes.get_xlim()[1] >= 27
    # A line through the rejected one, and under each accepted: two in the legend.
    at = sorted(float(line.get_ydata()[0]) for line in axes.get_lines())
    assert at.count(0.0) == 1 and at.count(0.4) == 1 and at.count(1.4) == 2


def test_figure_5_has_a_row_for_gamma_and_one_for_the_baseline():
    axes = trace_figures.figure_5([COLD], [COSTS]).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        "γ = 2",
        "autoregressive",
    ]
    ends = {}
    for bar in axes.patches:
        row = round(bar.get_y() + bar.get_height() / 2)
        ends[row] = max(ends.get(row, 0), bar.get_x() + bar.get_width())
    assert ends == {0: pytest.approx(4 + 2 * 1.4), 1: pytest.approx(3 + 5)}


def test_figure_5_has_a_legend_of_what_is_to_be_seen():
    for costs, expected in (
        (COSTS, set(Part)),
        (records.benchmark(fixed_costs=None), {Part.TARGET, Part.DRAFT}),
    ):
        (legend,) = trace_figures.figure_5([COLD], [costs]).legends
        labels = {text.get_text() for text in legend.get_texts()}
        assert labels == {part.value for part in expected}


def test_the_same_figure_is_the_same_files(tmp_path):
    written = [
        [
            path.read_bytes()
            for path in figures.save(figures.figure_3(), tmp_path / name)
        ]
        for name in ("a/figure", "b/figure")
    ]
    assert written[0] == written[1]
    png, svg = written[0]
    assert png.startswith(b"\x89PNG") and b"</svg>" in svg
