"""Each notebook runs from its first cell to its last, by the documented program."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.notebooks.test_committed import NAMES, NOTEBOOKS

ROOT = NOTEBOOKS.parent


def run(*args):
    return subprocess.run(
        [sys.executable, "scripts/run_notebooks.py", *map(str, args)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=1800,
    )


def shape(path):
    """Of each code cell: its source, and what kinds of output it has."""
    return [
        ("".join(cell["source"]), [kinds(output) for output in cell["outputs"]])
        for cell in json.loads(Path(path).read_text("utf-8"))["cells"]
        if cell["cell_type"] == "code"
    ]


def kinds(output):
    return output["output_type"], sorted(output.get("data", [output.get("name")]))


@pytest.mark.parametrize("name", NAMES)
def test_it_runs_and_shows_what_the_committed_one_shows(tmp_path, name):
    committed = NOTEBOOKS / f"{name}.ipynb"
    before = committed.read_bytes()
    done = run(f"--out={tmp_path}", committed)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{name}.ipynb: ")
    assert shape(tmp_path / f"{name}.ipynb") == shape(committed)
    assert committed.read_bytes() == before


def test_a_cell_that_fails_is_told_and_nothing_is_written(tmp_path):
    broken = json.loads((NOTEBOOKS / "speculative_sampling.ipynb").read_text("utf-8"))
    broken["cells"] = broken["cells"][:1] + [
        {
            "cell_type": "code",
            "id": "broken",
            "execution_count": None,
            "metadata": {},
            "outputs": [],
            "source": "assert 1 == 2, 'not at all'",
        }
    ]
    path = tmp_path / "broken.ipynb"
    path.write_text(json.dumps(broken), "utf-8")
    done = run(f"--out={tmp_path / 'out'}", path)
    assert done.returncode == 1
    assert "broken.ipynb does not run" in done.stderr
    plain = re.sub(r"\x1b\[[0-9;]*m", "", done.stderr)
    assert "AssertionError: not at all" in plain
    assert not (tmp_path / "out").exists()


def test_what_is_no_notebook_is_one_clear_line(tmp_path):
    done = run(tmp_path / "nowhere.ipynb")
    assert done.returncode == 1
    assert done.stderr.startswith("error: cannot read the notebook")
