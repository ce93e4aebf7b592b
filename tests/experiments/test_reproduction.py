"""The whole report of a tiny pair, and the program."""

import dataclasses
import html
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from specdec_jax.errors import DataError, SettingsError
from specdec_jax.experiments.reproduce import report as report_text
from specdec_jax.experiments.reproduction import IN_PASSING, Reproduction, sections
from tests.experiments import found_records as records
from tests.tiny_pairs import SENTENCES

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def places(tiny_pair, tmp_path_factory):
    """Costs of the tiny pair, so that it has a Figure 5."""
    path = tmp_path_factory.mktemp("records") / "tiny.jsonl"
    return [records.write(path, records.benchmark(pair=tiny_pair.name, gamma=2))]


@pytest.fixture(scope="module")
def report(tiny_pair, places, tmp_path_factory):
    """The folder of a whole report."""
    out = tmp_path_factory.mktemp("report")
    reproduce(lambda: tiny_pair, out, places)("all")
    return out


def reproduce(load_pair, out, places, **changes):
    return Reproduction(
        load_pair,
        out,
        places,
        SENTENCES[:3],
        alpha=dataclasses.replace(IN_PASSING, tokens=40, max_new_tokens=12),
        console=Console(quiet=True),
        **changes,
    )


def not_loaded():
    raise AssertionError("the pair is not needed")


def test_all_sections_are_there_and_all_links_lead_somewhere(report):
    markdown, page = (
        (report / f"report.{end}").read_text("utf-8") for end in ("md", "html")
    )
    for title in sections.TITLES.values():
        assert f"## {title}\n" in markdown
        assert f">{html.escape(title)}</h2>" in page
    links = re.findall(r"\]\(([^)#]+)\)", markdown)
    links += re.findall(r'(?:href|src)="([^"#]+)"', page)
    assert len(links) > 30
    for link in links:
        assert (report / link).is_file(), link
    for i in range(1, 6):
        for end in ("png", "svg"):
            assert f"figures/figure{i}.{end}" in links
    assert "figure1.html" in links and "records/alpha.jsonl" in links


def test_the_first_page_comes_before_the_contents_which_lead_to_each_section(report):
    markdown, page = (
        (report / f"report.{end}").read_text("utf-8") for end in ("md", "html")
    )
    first, rest = markdown.split("## Contents\n")
    assert "figures/overview.svg" in first and "| EnDe  | T5-small 77M  | 0" in first
    assert "1.50 at temperature 0 (γ = 2, rounds from 1.40 to 1.55)" in first
    places = re.findall(r"^- \[.*\]\(#(.*)\)$", rest, re.MULTILINE)
    assert len(places) == len(sections.NAMES) - 1
    assert places == re.findall('href="#([^"]+)"', page)
    for place in places:
        assert f'<h2 id="{place}">' in page


def test_what_was_measured_is_in_the_tables(report, tiny_pair):
    found = [json.loads(line) for line in (report / "records/alpha.jsonl").open()]
    (alpha,) = (
        record["alpha"]
        for record in found
        if record["temperature"] == 1 and record["lenience"] == 0.3
    )
    markdown = (report / "report.md").read_text("utf-8")
    row = next(line for line in markdown.splitlines() if line.startswith("| 0.3 "))
    assert f" {alpha:.2f} " in row.rpartition("3.6")[2]  # after the paper's speed
    assert f"α, {tiny_pair.name}, neural (measured)" in markdown


def test_alpha_rises_as_lenience_falls_and_rejection_sampling_is_below(report):
    found = [json.loads(line) for line in (report / "records/alpha.jsonl").open()]
    for temperature in (0.0, 0.5, 1.0):
        alphas = {
            record["lenience"]: record["alpha"]
            for record in found
            if record["temperature"] == temperature
        }
        assert list(alphas) == [1.0, 0.5, 0.3, 0.1]
        assert sorted(alphas.values()) == list(alphas.values())
        others = [
            record
            for record in found
            if record["temperature"] == temperature and "rejection_alpha" in record
        ]
        assert len(others) == (temperature > 0)
        for record in others:
            assert record["lenience"] == 1
            assert 0 < record["rejection_alpha"] < record["alpha"]


def test_a_second_run_measures_nothing_and_writes_the_same(report, tiny_pair, places):
    before = {path: path.read_bytes() for path in report.rglob("*") if path.is_file()}
    reproduce(lambda: tiny_pair, report, places)("all")
    after = {path: path.read_bytes() for path in report.rglob("*") if path.is_file()}
    assert before == after


def test_a_stopped_run_goes_on_to_the_same_records(report, tiny_pair, places, tmp_path):
    whole = (report / "records/alpha.jsonl").read_bytes()
    path = tmp_path / "records" / "alpha.jsonl"
    path.parent.mkdir()
    outputs = report / "records" / "alpha.outputs.jsonl"
    shutil.copy(outputs, path.parent)
    path.write_bytes(whole[: len(whole) * 2 // 3])  # in the middle of a line
    reproduce(lambda: tiny_pair, tmp_path, places)("rejection")
    assert path.read_bytes() == whole


def test_records_of_another_seed_are_not_mixed(report, tiny_pair, places):
    with pytest.raises(DataError, match="alpha.jsonl:1 has config .*'seed': 0"):
        reproduce(lambda: tiny_pair, report, places, seed=1)("table5")


def test_what_follows_from_formulas_and_records_needs_no_pair(tmp_path):
    for name in ("table1", "table2", "table4", "oracle", "figure3"):
        path = reproduce(not_loaded, tmp_path, [])(name)
        assert path == tmp_path / f"{name}.md"
    assert "24" in (tmp_path / "oracle.md").read_text("utf-8")


def test_a_notebook_shows_a_section_and_its_pictures(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = reproduce(not_loaded, Path("report"), []).make(["table1", "figure3"])
    table, figure = made
    assert table._repr_markdown_() == report_text.section_markdown(table, Path())
    assert "| 0.9 | 10 | 1.60 " in table._repr_markdown_()
    # Its picture is shown beside it, and not linked from it.
    assert "figures/" not in figure._repr_markdown_()
    (picture,) = figure.pictures
    png = Path("report/figures/figure3.png").read_bytes()
    assert picture._repr_png_() == png and png.startswith(b"\x89PNG")


def test_bad_input_is_named(tmp_path):
    with pytest.raises(
        SettingsError, match="what must be one of all, overview.*'table9'"
    ):
        reproduce(not_loaded, tmp_path, [])("table9")
    with pytest.raises(DataError, match="no records at"):
        reproduce(not_loaded, tmp_path, [tmp_path / "nowhere"])("table2")
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot write to"):
        reproduce(not_loaded, tmp_path / "file", [])("table1")


def run_without_matplotlib(*args):
    program = (
        "import runpy, sys; sys.modules['matplotlib'] = None; "
        "runpy.run_path('scripts/reproduce.py', run_name='__main__')"
    )
    return subprocess.run(
        [sys.executable, "-c", program, *map(str, args)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_the_program_prints_a_table_and_needs_no_matplotlib_for_it(tmp_path):
    done = run_without_matplotlib("--what=table1", f"--out={tmp_path}")
    assert done.returncode == 0, done.stderr
    row = "| 0.9 | 10 | 1.60 | 1.60 | 6.86 | 6.86 |"
    for text in (done.stdout, (tmp_path / "table1.md").read_text("utf-8")):
        assert row in re.sub(" +", " ", text)


def test_a_figure_without_matplotlib_is_one_clear_line(tmp_path):
    done = run_without_matplotlib("--what=figure2", f"--out={tmp_path}")
    assert done.returncode == 1
    assert "pip install -e '.[plots]'" in done.stderr
    assert "Traceback" not in done.stderr
