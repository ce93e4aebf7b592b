"""A bar in a terminal, lines in a log, and neither in a notebook."""

import warnings

import pytest
import rich

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


def test_a_notebook_has_neither(monkeypatch, lines_at_once, capsys):
    monkeypatch.setattr(rich.get_console(), "is_jupyter", True)
    assert not work(3)
    assert capsys.readouterr().err == ""


def test_a_process_of_which_another_tells_is_silent(lines_at_once, capsys):
    with progress_bar("bars", shown=False) as bar:
        bar.advance(bar.add_task("", total=2))
    assert capsys.readouterr().err == ""
