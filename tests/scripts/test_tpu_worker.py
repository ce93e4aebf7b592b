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
env | grep -E "^(JAX|TPU)_" >"$HOME/env"
echo here
exit "$(cat "$HOME/exit" 2>/dev/null || echo 0)"
"""
# What answers for the metadata of a VM, if it is one.
CURL = """#!/bin/bash
cat "$HOME/tpu-env" 2>/dev/null
"""


@pytest.fixture
def worker(tmp_path):
    """The checkout of a worker, whose home folder is above it."""
    root = tmp_path / "specdec_jax"
    shutil.copytree(ROOT / "scripts", root / "scripts")
    shutil.copy(ROOT / "setup.py", root)
    (tmp_path / "bin").mkdir()
    for name, content in (("bin/uv", UV), ("bin/curl", CURL), ("python", PYTHON)):
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
    done, log = call(installed, "run", "1", "decode", "records/a.jsonl", "--x=1  2", "")
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
    done, _ = call(installed, "run", "1", "decode", "records/a.jsonl")
    assert done.returncode == 0, done.stderr
    assert out.read_text() == kept and not others.exists()


def test_an_earlier_run_that_still_goes_on_is_ended_and_nothing_else(installed):
    waits = [sys.executable, "-c", "import time; time.sleep(300)"]
    earlier = subprocess.Popen([*waits, "scripts/decode.py"])
    other = subprocess.Popen(waits)
    try:
        for process, ended in ((other, False), (earlier, True)):
            (installed / ".run" / "1").mkdir(parents=True)
            (installed / ".run" / "1" / "pid").write_text(f"{process.pid}\n")
            run = ("run", str(process.pid), "decode", "records/a.jsonl")
            done, log = call(installed, *run)
            assert done.returncode == 0, done.stderr
            assert log[-2:] == ["scripts/decode.py", "--out=records/a.jsonl"]
            assert (process.poll() is not None) == ended
            assert ("ending an earlier run" in done.stderr) == ended
    finally:
        for process in (earlier, other):
            process.kill()
            process.wait()


def test_the_same_run_again_is_attached_to_and_another_one_begins(installed):
    (installed.parent / "exit").write_text("7")
    for run, begun in (("1", 1), ("1", 1), ("2", 2)):
        done, log = call(installed, "run", run, "decode", "records/a.jsonl")
        assert done.returncode == 107
        assert done.stdout == "here\n"
        assert log.count("scripts/decode.py") == begun


def test_a_run_that_the_machine_ended_has_failed(installed):
    run = installed / ".run" / "1"
    run.mkdir(parents=True)
    (run / "log").write_text("here\n")
    (run / "pid").write_text("4194305\n")  # no process has it
    done, _ = call(installed, "run", "1", "decode", "records/a.jsonl")
    assert done.returncode == 237 and done.stdout == "here\n"


def test_what_fails_before_the_program_is_no_failure_of_the_connection(installed):
    done, _ = call(installed, "run", "1", "decode", "/proc/nowhere/a.jsonl")
    assert done.returncode == 101


SLICE = "HOST_BOUNDS: '2,2,1'\nCHIPS_PER_HOST_BOUNDS: '2,2,1'\nZONE: 'z'\n"


@pytest.mark.parametrize(
    ("metadata", "flags", "alone"),
    [
        (SLICE, [], True),
        (SLICE, ["--multihost"], False),
        (SLICE.replace("'2,2,1'", "'1,1,1'", 1), [], False),  # one host
        ("", [], False),
    ],
)
def test_one_host_of_a_slice_is_told_that_it_is_alone(
    installed, metadata, flags, alone
):
    (installed.parent / "tpu-env").write_text(metadata)
    done, _ = call(installed, "run", "1", "benchmark", "records/a.jsonl", *flags)
    assert done.returncode == 0, done.stderr
    cache, *found = sorted((installed.parent / "env").read_text().splitlines())
    where = installed.parent / ".cache" / "specdec_jax" / "xla"
    assert cache == f"JAX_COMPILATION_CACHE_DIR={where}"
    assert found == alone * [
        "TPU_CHIPS_PER_PROCESS_BOUNDS=2,2,1",
        "TPU_PROCESS_BOUNDS=1,1,1",
        "TPU_VISIBLE_CHIPS=0,1,2,3",
    ]


def test_other_words_are_answered_with_the_usage(worker):
    done, _ = call(worker, "dance")
    assert done.returncode == 2 and "usage: tpu_worker.sh" in done.stderr
