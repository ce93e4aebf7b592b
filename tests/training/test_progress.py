"""Bars are for terminals; a notebook has none, and no complaint about widgets."""

import warnings

import pytest
import rich

from specdec_jax.experiments import benchmark
from specdec_jax.training.translation import progress_bar


@pytest.fixture(params=[True, False], ids=["notebook", "elsewhere"])
def in_notebook(request, monkeypatch):
    monkeypatch.setattr(rich.get_console(), "is_jupyter", request.param)
    return request.param


def test_a_bar_is_drawn_anywhere_but_in_a_notebook(in_notebook):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with progress_bar("bars") as bar:
            assert bar.live.is_started is not in_notebook
            bar.advance(bar.add_task("", total=1))


def test_nor_is_a_benchmarks(in_notebook):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with benchmark._progress("rounds") as tick:
            tick(1, 2)
