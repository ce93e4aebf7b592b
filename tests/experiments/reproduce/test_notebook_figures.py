"""Figures that notebooks show: the right numbers, told apart without colour."""

import matplotlib
import numpy as np
import pytest

from specdec_jax.experiments import figures
from specdec_jax.experiments.kinds import Sweep
from specdec_jax.experiments.reproduce import pair_figures, rule_figures
from tests.experiments import found_records as records

P, Q = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.7, 0.1])


def swept(temperature, gamma, measured):
    return Sweep(
        pair="a_pair",
        temperature=temperature,
        gamma=gamma,
        outputs=["Ein Hund."],
        tokens=30,
        target_calls=10,
        tokens_per_target_call=measured,
        predicted_tokens_per_target_call=measured + 0.5,
    )


def test_bars_of_the_rule_add_up_to_q_and_to_p():
    axes = rule_figures.rule_figure(P, Q, ["a", "b", "c"]).axes[0]
    accepted, rejected, also_accepted, correction = (
        np.array([bar.get_height() for bar in bars]) for bars in axes.containers
    )
    np.testing.assert_allclose(accepted, [0.2, 0.3, 0.1])
    np.testing.assert_array_equal(accepted, also_accepted)
    np.testing.assert_allclose(accepted + rejected, Q)
    np.testing.assert_allclose(accepted + correction, P)
    for bars in axes.containers[1], axes.containers[3]:
        for bar in bars:  # it stands on the other one
            assert bar.get_y() in accepted and bar.get_hatch()
    assert [text.get_text() for text in axes.texts] == ["q"] * 3 + ["p"] * 3


def test_frequencies_are_over_their_probabilities_and_errors_are_standard_errors():
    law, seen = (
        np.array([[0.5, 0.25], [0.25, 0.0]]),
        np.array([[0.52, 0.25], [0.23, 0]]),
    )
    shares, errors = rule_figures.law_figure(law, seen, samples=625).axes
    points = shares.get_lines()[1].get_xydata()
    np.testing.assert_allclose(points, [[0.5, 0.52], [0.25, 0.25], [0.25, 0.23]])
    off = errors.get_lines()[1].get_ydata()
    np.testing.assert_allclose(off, [1.0, 0.0, -0.02 / np.sqrt(0.1875 / 625)])


def test_lenience_is_drawn_below_its_bound():
    axes = rule_figures.lenience_figure(P, Q, [0.8, 0.5], "abc").axes[0]
    drawn = {line.get_label(): line for line in axes.get_lines()}
    assert list(drawn) == ["l = 0.8", "l = 0.5"]
    assert len({line.get_marker() for line in drawn.values()}) == 2
    # At l = .5: min(p/l, q) = .2 .6 .1, and the rest, .1, in the ratio .3 : .1.
    np.testing.assert_allclose(drawn["l = 0.5"].get_ydata(), [0.275, 0.6, 0.125])
    bounds = axes.collections[1].get_segments()
    np.testing.assert_allclose([s[0, 1] for s in bounds], P / 0.5)


@pytest.mark.parametrize("order", [1, -1])
def test_tokens_over_gamma_have_a_line_a_temperature_and_their_prediction(order):
    found = [swept(0.0, 1, 1.9), swept(0.0, 3, 3.0), swept(1.0, 1, 1.7)][::order]
    figure = pair_figures.tokens_figure(found)
    axes = figure.axes[0]
    cold, predicted, hot, _ = axes.get_lines()
    np.testing.assert_array_equal(cold.get_xydata(), [[1, 1.9], [3, 3.0]])
    np.testing.assert_array_equal(predicted.get_xydata(), [[1, 2.4], [3, 3.5]])
    np.testing.assert_array_equal(hot.get_xydata(), [[1, 1.7]])
    assert cold.get_marker() != hot.get_marker()
    assert cold.get_linestyle() != predicted.get_linestyle()
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == ["temperature 0", "temperature 1", "measured", "predicted"]


def test_speed_over_gamma_has_the_range_of_its_rounds_and_the_baseline():
    axes = pair_figures.speed_figure([records.benchmark()]).axes[0]
    measured, predicted, baseline = axes.get_lines()
    np.testing.assert_array_equal(measured.get_xydata(), [[2, 1.5]])
    np.testing.assert_array_equal(predicted.get_xydata(), [[2, 1.6]])
    assert set(baseline.get_ydata()) == {1.0}
    (line,) = axes.collections[0].get_segments()
    np.testing.assert_array_equal(line, [[2, 1.4], [2, 1.55]])


def test_a_notebook_can_draw_in_the_same_style():
    with matplotlib.rc_context():
        figures.use_style()
        assert matplotlib.rcParams["text.hinting"] == "no_hinting"
        assert matplotlib.rcParams["lines.markersize"] == 4.5


def test_they_can_be_saved(tmp_path):
    figure = rule_figures.rule_figure(P, Q, "abc")
    assert all(path.stat().st_size for path in figures.save(figure, tmp_path / "rule"))
