"""What is done on a worker, with a Python and an installer that only write down."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
# Where uv would put a Python: a program that writes down how it is called.
UV = """#!/bin/bash
echo "uv $*" >>"$HOME/log"
mkdir -p "${@: -1}/bin"
cp "$HOME/python" "${@: -1}/bin/python"
"""
PYTHON = """#!/bin/bash
printf '%s\\n' "$@" >>"$HOME/log"
"""


@pytest.fixture
def worker(tmp_path):
    """The checkout of a worker, whose home folder is above it."""
    root = tmp_path / "specdec_jax"
    shutil.copytree(ROOT / "scripts", root / "scripts")
    shutil.copy(ROOT / "setup.py", root)
    (tmp_path / "bin").mkdir()
    for name, content in (("bin/uv", UV), ("python", PYTHON)):
        (tmp_path / name).write_text(content)
        (tmp_path / name).chmod(0o755)
    return root


def call(worker, *args):
    path = f"{worker.parent / 'bin'}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", worker / "scripts" / "tpu_worker.sh", *args],
        cwd=worker.parent,
        env={"PATH": path, "HOME": str(worker.parent)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    log = worker.parent / "log"
    return done, log.read_text().splitlines() if log.exists() else []


@pytest.fixture
def installed(worker):
    (worker / ".venv" / "bin").mkdir(parents=True)
    shutil.copy(worker.parent / "python", worker / ".venv" / "bin" / "python")
    return worker


def test_python_and_the_package_are_installed_once(worker):
    done, log = call(worker, "install")
    assert done.returncode == 0, done.stderr
    assert log[0] == "uv venv --quiet --seed --python 3.12 .venv"
    assert log[-1] == ".[tpu,seqio]"
    assert call(worker, "install")[1] == log


def test_a_program_gets_its_arguments_and_the_records_that_are_there(installed):
    out = installed / "records" / "a.jsonl"
    done, log = call(installed, "run", "decode", "records/a.jsonl", "--x=1  2", "")
    assert done.returncode == 0, done.stderr
    assert log == ["scripts/decode.py", "--out=records/a.jsonl", "--x=1  2", ""]
    assert out.parent.is_dir() and not out.exists()


@pytest.mark.parametrize(
    ("here", "brought", "kept"),
    [
        (None, "1\n", "1\n"),
        ("1\n", None, "1\n"),
        ("1\n", "1\n2\n", "1\n2\n"),
        ("1\n2\n", "1\n", "1\n2\n"),
    ],
)
def test_of_records_here_and_brought_the_longer_go_on(installed, here, brought, kept):
    out = installed / "records" / "a.jsonl"
    out.parent.mkdir()
    others = installed.parent / "specdec_jax.records.jsonl"
    for path, text in ((out, here), (others, brought)):
        if text is not None:
            path.write_text(text)
    done, _ = call(installed, "run", "decode", "records/a.jsonl")
    assert done.returncode == 0, done.stderr
    assert out.read_text() == kept and not others.exists()


def test_an_earlier_run_that_still_goes_on_is_ended_and_nothing_else(installed):
    waits = [sys.executable, "-c", "import time; time.sleep(300)"]
    earlier = subprocess.Popen([*waits, "scripts/decode.py"])
    other = subprocess.Popen(waits)
    try:
        for process, ended in ((other, False), (earlier, True)):
            (installed / ".run.pid").write_text(f"{process.pid}\n")
            done, log = call(installed, "run", "decode", "records/a.jsonl")
            assert done.returncode == 0, done.stderr
            assert log[-2:] == ["scripts/decode.py", "--out=records/a.jsonl"]
            assert (process.poll() is not None) == ended
            assert ("ending an earlier run" in done.stderr) == ended
    finally:
        for process in (earlier, other):
            process.kill()
            process.wait()


def test_other_words_are_answered_with_the_usage(worker):
    done, _ = call(worker, "dance")
    assert done.returncode == 2 and "usage: tpu_worker.sh" in done.stderr
