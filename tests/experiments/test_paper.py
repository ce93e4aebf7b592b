"""The paper's numbers against the formulas and this project's run files."""

import re
from pathlib import Path

import pytest

from specdec_jax.experiments import paper
from specdec_jax.sampling import theory

RUNS = Path(__file__).parent.parent.parent / "configs" / "runs"


@pytest.mark.parametrize("line", paper.ROWS, ids=lambda line: line.run)
def test_a_line_is_what_its_run_file_runs(line):
    content = (RUNS / f"{line.run}.gin").read_text("utf-8")
    found = dict(re.findall(r"^(\w+) = (\S+)$", content, re.MULTILINE))
    assert int(found["GAMMA"]) == line.gamma
    assert float(found["TEMPERATURE"]) == line.temperature
    size = re.search(r"t5_1_1/(\w+)/", found["DRAFTER_CONFIG"]).group(1)
    assert line.size == size and line.drafter.startswith(f"T5-{size} ")
    assert f"speedup {line.measured}" in content


@pytest.mark.parametrize("line", paper.ROWS, ids=lambda line: line.run)
def test_the_papers_predictions_are_its_theorems(line):
    computed = theory.speedup(line.alpha, line.gamma, line.c)
    assert computed == pytest.approx(line.expected, abs=0.1)


def test_tables_3_and_4_have_the_same_alphas():
    """The temperatures of Table 3 are lines of Table 4."""
    table_3 = {
        (target.split(", ")[1], drafter, temperature): alphas[temperature]
        for target, drafter, *alphas in paper.TABLE_3
        if target.startswith("T5-XXL")
        for temperature in (0, 1)
    }
    for line in paper.ROWS:
        drafter = line.drafter.split()[0]
        assert table_3[line.task, drafter, int(line.temperature)] == line.alpha


def test_without_lenience_table_5_is_table_3():
    alphas = {d: a for t, d, *a in paper.TABLE_3 if t == "T5-XXL, EnDe"}
    for drafter, alpha in zip(
        paper.LENIENT_DRAFTERS, paper.LENIENT_ALPHAS[1.0], strict=True
    ):
        assert alphas[drafter][1] == alpha
    assert alphas["T5-small"][0] == paper.LENIENT_GREEDY[1.0][0]
