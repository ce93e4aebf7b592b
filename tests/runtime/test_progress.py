"""A bar in a terminal, lines in a log, and neither in a notebook."""

import warnings

import pytest
import rich
import rich.progress

from specdec_jax.runtime import progress
from specdec_jax.runtime.progress import progress_bar


def work(steps, **task):
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # as rich's, of notebook widgets
        with progress_bar("bars") as bar:
            started = bar.live.is_started
            task = bar.add_task("", total=steps, **task)
            for step in range(steps):
                bar.update(task, advance=1, description=f"loss {step}")
                bar.advance(task, 0)
    return started


@pytest.fixture
def lines_at_once(monkeypatch):
    monkeypatch.setattr(progress, "LINES_APART", 0.0)


def test_a_terminal_has_a_bar(monkeypatch, lines_at_once, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert work(3)
    told = capsys.readouterr()
    assert "3/3" in told.err and told.out == ""


def test_a_log_has_lines_and_not_too_many(monkeypatch, lines_at_once, capsys):
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    assert not work(3, completed=1)
    told = capsys.readouterr()
    assert told.out == ""
    lines = told.err.splitlines()
    assert len(lines) == 6  # an update and an advance of each step
    assert lines[0].startswith("bars: 2 of 3") and lines[0].endswith("loss 0")
    monkeypatch.setattr(progress, "LINES_APART", 1000.0)
    work(100)
    assert capsys.readouterr().err == ""


def test_a_log_says_what_is_left_though_rich_rounds_it_to_an_integer(
    monkeypatch, lines_at_once, capsys
):
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setattr(rich.progress.Task, "time_remaining", 90)
    work(1)
    assert "1 of 1, 1.5 min left" in capsys.readouterr().err


def test_what_is_tracked_has_its_lines_in_a_log(monkeypatch, lines_at_once, capsys):
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    with progress_bar("bars") as bar:
        assert list(bar.track("abc", description="")) == ["a", "b", "c"]
    told = capsys.readouterr().err.splitlines()
    assert [line[:12] for line in told] == [f"bars: {i} of 3" for i in (1, 2, 3)]


def test_a_stopped_clock_stands_still_and_goes_on_from_there(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    clock = progress.Clock()
    with clock.stopped():
        now[0] += 50
        assert clock() == 100
    now[0] += 1
    assert clock() == 101


def test_a_notebook_has_neither(monkeypatch, lines_at_once, capsys):
    monkeypatch.setattr(rich.get_console(), "is_jupyter", True)
    assert not work(3)
    assert capsys.readouterr().err == ""


def test_a_process_of_which_another_tells_is_silent(lines_at_once, capsys):
    with progress_bar("bars", shown=False) as bar:
        bar.advance(bar.add_task("", total=2))
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("terminal", [True, False])
def test_bytes_are_told_in_gigabytes(monkeypatch, lines_at_once, capsys, terminal):
    if terminal:
        monkeypatch.setenv("FORCE_COLOR", "1")
    else:
        monkeypatch.delenv("FORCE_COLOR", raising=False)
    name = "loading" if terminal else "loading " + 100 * "x"  # which is not broken
    with progress_bar(name, in_bytes=True) as bar:
        bar.advance(bar.add_task("", total=44_500_000_000), 1_500_000_000)
    told = capsys.readouterr().err
    assert ("1.5/44.5 GB" if terminal else f"{name}: 1.50 GB of 44.50 GB") in told
