"""What is committed of the notebooks: run, without an error, and of no machine."""

import importlib.util
import json
import re
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

NOTEBOOKS = Path(__file__).parent.parent.parent / "notebooks"
NAMES = ("colab_tpu", "reproduce_paper", "speculative_sampling", "translate")
every_notebook = pytest.mark.parametrize("name", NAMES)
# At the start of a word; "https://..." and "</b>" are none.
ABSOLUTE = re.compile(r"""(?:^|[\s"'(=\[:,])(/[\w.~-]+/|~/|[A-Z]:\\)""", re.MULTILINE)


def cells(name):
    notebook = json.loads((NOTEBOOKS / f"{name}.ipynb").read_text("utf-8"))
    return notebook["cells"]


def code(name):
    return [cell for cell in cells(name) if cell["cell_type"] == "code"]


def outputs(name):
    return [output for cell in code(name) for output in cell["outputs"]]


def texts(name):
    """Sources, and all outputs that are text."""
    yield from ("".join(cell["source"]) for cell in cells(name))
    for output in outputs(name):
        yield "".join(output.get("text", ""))
        for kind, value in output.get("data", {}).items():
            if kind.startswith("text/"):
                yield "".join(value)


def test_there_are_no_others():
    assert sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb")) == list(NAMES)


@every_notebook
def test_cells_were_run_once_in_order_and_without_an_error(name):
    counts = [cell["execution_count"] for cell in code(name)]
    assert counts == list(range(1, len(counts) + 1))
    found = outputs(name)
    assert found
    assert {output["output_type"] for output in found} <= {
        "display_data",
        "execute_result",
        "stream",
    }
    # Nothing was warned of either.
    assert all(output.get("name") != "stderr" for output in found)
    assert any("image/png" in output.get("data", {}) for output in found)


@pytest.mark.parametrize(
    ("text", "names_one"),
    [
        ("written to /home/me/report.md", True),
        ("path='/tmp/a'", True),
        (r"C:\Users\me", True),
        ("see https://arxiv.org/abs/2211.17192", False),
        ("<b>p</b>/<i>q</i>, ../runs/report.md, p(x)/q(x), norm(max(0, p − q))", False),
    ],
)
def test_absolute_paths_are_told_from_other_text(text, names_one):
    assert bool(ABSOLUTE.search(text)) is names_one


@every_notebook
def test_no_absolute_path_is_named(name):
    for text in texts(name):
        assert not ABSOLUTE.search(text), ABSOLUTE.search(text)


@pytest.mark.parametrize(
    ("found", "repository", "installed"),
    [
        (True, "", []),
        (False, "", ['--quiet "specdec_jax[plots,tpu]"']),
        (False, "https://a/b", ['--quiet "specdec_jax[plots,tpu] @ git+https://a/b"']),
    ],
)
def test_colab_installs_the_package_where_it_is_not(
    monkeypatch, found, repository, installed
):
    asked = []
    config = Config()
    config.HistoryManager.enabled = False
    shell = InteractiveShell(config=config)
    shell.register_magic_function(asked.append, "line", "pip")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: found or None)
    source = "".join(code("colab_tpu")[0]["source"])
    source = source.replace('REPOSITORY = ""', f'REPOSITORY = "{repository}"')
    assert shell.run_cell(source).success
    assert asked == [f"install {what}" for what in installed]


@every_notebook
def test_cells_are_short(name):
    for cell in code(name):
        lines = [line for line in "".join(cell["source"]).splitlines() if line.strip()]
        assert len(lines) <= 25
