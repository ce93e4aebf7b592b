"""Processes that share a task: of the operating system, decoding, over gloo."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.task_data import TRANSLATIONS

ROOT = Path(__file__).parent.parent.parent
DEVICES = 2  # of a whole run, so that records name the same device


@pytest.fixture
def start():
    """Starts the processes of a run; `points` are of single ones, see process_run."""
    with contextlib.ExitStack() as stack:

        def run(out, count, points=None):
            with socket.socket() as free:
                free.bind(("localhost", 0))
                port = free.getsockname()[1]
            flags = f"--xla_force_host_platform_device_count={DEVICES // count}"
            env = os.environ | {"PYTHONPATH": str(ROOT), "XLA_FLAGS": flags}
            program = [sys.executable, "-m", "tests.process_run", out]
            processes = [
                subprocess.Popen(
                    [*map(str, (*program, index, count, port))]
                    + [*map(str, (points or {}).get(index, ()))],
                    cwd=ROOT,
                    env=env,
                    stderr=subprocess.PIPE,
                    text=True,
                )
                for index in range(count)
            ]
            for process in processes:
                stack.callback(process.kill)
            return processes

        yield run


def errors(processes) -> list[str]:
    """What each wrote, when all have ended."""
    return [process.communicate(timeout=900)[1] for process in processes]


def test_two_processes_write_what_one_writes_however_often_they_are_killed(
    start, tmp_path
):
    whole, path = tmp_path / "whole.jsonl", tmp_path / "killed.jsonl"
    (alone,) = start(whole, 1)
    ((said,), code) = errors([alone]), alone.returncode
    assert code == 0, said
    rows = [json.loads(line) for line in whole.read_text().splitlines()]
    assert [row["index"] for row in rows] == list(range(len(TRANSLATIONS)))
    assert len({tuple(row["tokens"]) for row in rows}) == len(rows)
    assert rows[0]["device"]["count"] == DEVICES

    for ends, point, kept in (
        (0, ("append", 2), 1),  # rows 0 and 1 were decoded
        (1, ("decode", 2), 3),  # rows 1 and 2 were decoded and written, 3 was decoded
    ):
        processes = start(path, 2, {ends: point})
        said = errors(processes)
        assert processes[ends].returncode == -signal.SIGKILL, said
        assert processes[1 - ends].returncode != 0
        lines = path.read_bytes().split(b"\n")
        assert b"\n".join(lines[:-1]) + b"\n" == b"".join(
            whole.read_bytes().splitlines(keepends=True)[:kept]
        )

    processes = start(path, 2)
    said = errors(processes)
    assert [process.returncode for process in processes] == [0, 0], said
    assert path.read_bytes() == whole.read_bytes()
    scores = whole.with_name("whole.scores.json").read_bytes()
    assert path.with_name("killed.scores.json").read_bytes() == scores


@pytest.mark.parametrize("ends", [0, 1])
def test_an_error_of_one_process_ends_the_other_soon(start, tmp_path, ends):
    points = {ends: ("fail", 1), 1 - ends: ("idle", 1)}
    processes = start(tmp_path / "test.jsonl", 2, points)
    said = processes[ends].communicate(timeout=900)[1]
    ended = time.monotonic()
    assert "error: no more" in said
    assert processes[ends].returncode == 1
    processes[1 - ends].communicate(timeout=900)
    assert processes[1 - ends].returncode != 0
    assert time.monotonic() - ended < 60  # JAX alone would wait for 300 seconds
