"""A small pair compiles for TPUs, and its programs move and copy what they must.

The compiler is libtpu's; no TPU is needed.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from specdec_jax.errors import SettingsError
from specdec_jax.experiments import paper
from specdec_jax.experiments.aot import report as ahead_report
from specdec_jax.experiments.kinds import (
    BatchCost,
    CompiledProgram,
    CompiledStep,
    Roofline,
    StepFloor,
    Walltime,
)
from specdec_jax.experiments.record_file import RecordFile
from specdec_jax.experiments.record_set import RecordSet
from specdec_jax.experiments.trace.timeline import length
from specdec_jax.partitioning import topology

ROOT = Path(__file__).parent.parent.parent.parent
GIN = Path(__file__).parent / "tiny.gin"
LAYERS = 2


def compile_ahead(folder, *flags, gin_file=GIN):
    command = [sys.executable, "scripts/compile_ahead.py", f"--gin_file={gin_file}"]
    # libtpu reads XLA_FLAGS too, and aborts at a flag of the CPU's compiler.
    environment = os.environ | {"PYTHONPATH": str(ROOT), "XLA_FLAGS": ""}
    done = subprocess.run(
        [*command, f"--out={folder}", *flags],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return list(RecordFile(folder / "aot.jsonl")), done.stdout


@pytest.fixture(scope="module")
def one_chip(tmp_path_factory):
    """A v4, one row."""
    return compile_ahead(
        tmp_path_factory.mktemp("v4"),
        "--topology=v4",
        "--chips=1",
        "--gin.MESH=None",
        "--gin.AOTRun.batch_size=1",
    )[0]


@pytest.fixture(scope="module")
def four_chips(tmp_path_factory):
    """A v5e 2x2, the target cut in four, 32 rows."""
    folder = tmp_path_factory.mktemp("v5e")
    records, printed = compile_ahead(
        folder,
        "--topology=v5e",
        "--chips=4",
        "--programs=loop,baseline loop",
        "--gin.MESH=(1,4)",
    )
    return records, printed, folder


def program(records, name):
    programs = [one for one in records if isinstance(one, CompiledProgram)]
    (found,) = [one for one in programs if one.program == name]
    return found


def compiled_steps(records):
    steps = [one for one in records if isinstance(one, CompiledStep)]
    return {one.step: one for one in steps}


def test_loops_update_caches_in_place_and_lay_no_weight_out_anew(one_chip):
    """As `generate` runs them, after what loading makes."""
    for name in ("loop", "baseline loop"):
        loop = program(one_chip, name)
        assert loop.large_copies == 0
        assert loop.temporaries < loop.arguments / 4
        assert loop.collectives == {}
    loop = program(one_chip, "loop")
    assert 0 < loop.resident_over_chip < 0.01 and loop.largest_batch > 32


def test_a_step_of_one_token_is_no_slower_than_of_several(one_chip):
    """A product of one row would miss the matrix unit, and take three times as long."""
    steps = compiled_steps(one_chip)
    assert set(steps) == {
        "begin",
        "baseline begin",
        "target step",
        "first draft step",
        "draft step",
        "verify step",
    }
    # Verification and two sums of distributions are in a verify step alone.
    assert steps["target step"].milliseconds < steps["verify step"].milliseconds
    assert steps["draft step"].milliseconds < 1.1 * (
        steps["first draft step"].milliseconds
    )


def test_a_target_step_reads_weights_and_caches_once(one_chip):
    """But for the embedding: a step needs rows of it, and one so small is fetched."""
    (floor,) = [
        one
        for one in one_chip
        if isinstance(one, StepFloor) and one.step == "target step"
    ]
    needed = floor.weight_bytes + floor.cache_bytes
    ratio = program(one_chip, "baseline loop").bytes_read_over_needed
    assert 0.9 < ratio <= 1.1 * (1 + 2 * 2048 * 512 / needed)


def test_no_loop_goes_over_rows(four_chips):
    """A write of each row's own slots would be one, twice a layer."""
    records, _, _ = four_chips
    for step in compiled_steps(records).values():
        assert not {32, 8} & set(step.loops or ())


def test_a_cut_target_has_the_collectives_of_its_layout_and_no_more(four_chips):
    """Summed after each product by rows, exchanged after the logits."""
    records, _, _ = four_chips
    moved = {
        kind: move["count"]
        for kind, move in program(records, "baseline loop").collectives.items()
    }
    assert moved.pop("all-reduce") >= 3 * LAYERS
    assert sum(moved.values()) <= 6  # the logits, and of each row a token or two


def test_the_report_tells_facts_from_models_and_has_all_of_table_2(four_chips):
    records, printed, folder = four_chips
    rows = {one.run: one for one in records if isinstance(one, Roofline)}
    # The report of all tables takes them for what they are.
    found = RecordSet.read([folder]).of(Roofline, topology="v5e", chips=4)
    assert {one.run for one in found} == set(rows)
    assert len(rows) == 12
    for line in paper.ROWS:
        ours = rows[line.run]
        far = abs(ours.predicted_speedup / line.measured - 1) > 0.15
        assert bool(ours.why) == far
    assert "| arguments (compiler) " in printed
    assert "| ms (roofline) " in printed and "| ms (compiler) " in printed
    assert (folder / "aot.md").read_text() in printed
    assert "<svg" in (folder / "walltime.svg").read_text()
    assert (folder / "walltime.png").read_bytes().startswith(b"\x89PNG")


def test_a_line_of_the_paper_needs_no_checkpoint(tmp_path):
    """Its model alone, cut over eight chips."""
    records, printed = compile_ahead(
        tmp_path,
        "--topology=v5e",
        "--chips=8",
        "--programs=",
        gin_file="configs/runs/ende_base_t0.gin",
    )
    target, verify, _ = [r for r in records if isinstance(r, StepFloor)]
    assert target.mesh == {"data": 1, "model": 8}
    assert target.messages == verify.messages == 3 * 24 + 1
    (walltime,) = [r for r in records if isinstance(r, Walltime)]
    assert [step["gamma"] for step in walltime.steps] == [7, 3]
    rows = ahead_report.walltime_rows(walltime)
    assert list(rows) == ["γ = 7", "γ = 3", "autoregressive"]
    assert length(rows["γ = 7"]) < length(rows["γ = 3"])
    assert length(rows["γ = 3"]) < length(rows["autoregressive"]) == 24
    assert walltime.alpha == 0.80
    assert "8 x TPU v5e, mesh 1 data x 8 model, batch 1, γ = 7" in printed
    gains = [r for r in records if isinstance(r, BatchCost)]
    assert [gain.batch for gain in gains[::2]] == [1, 8, 32, 128, 256]
    assert [gain.shard_drafter for gain in gains] == [False, True] * 5
    used = [gain for gain in gains if gain.is_used]
    assert all(gain.shard_drafter for gain in used)
    assert sorted(used, key=lambda gain: -gain.best_speedup) == used
    # The same of the run's own batch as its steps and its row of Table 2 say.
    (row,) = [r for r in records if isinstance(r, Roofline) and r.run == "ende_base_t0"]
    assert (used[0].c, used[0].v) == (row.c, row.v)
    assert used[0].speedup == row.predicted_speedup
    assert "**Gain by batch**" in printed
    assert "In this run the drafter is sharded." in printed


def test_several_processes_may_compile_at_a_time():
    code = (
        "from specdec_jax.partitioning import topology\n"
        "print(len(topology.describe('v5e', 4)), flush=True)\n"
        "input()"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    # Each waits for input with the compiler in hand.
    assert [p.stdout.readline().strip() for p in processes] == ["4", "4"]
    for process in processes:
        process.communicate("\n")
        assert process.returncode == 0


def test_a_topology_that_is_not_sold_is_refused():
    with pytest.raises(SettingsError, match="v5e has slices of 1, 4, 8, 16, 32, 64"):
        topology.describe("v5e", 3)
    with pytest.raises(SettingsError, match="one of v4, v5e, v5p, v6e"):
        topology.describe("v3", 4)


def test_a_run_that_fails_leaves_no_file_and_a_report_is_left_alone(tmp_path):
    def failing(*flags):
        command = [sys.executable, "scripts/compile_ahead.py", f"--gin_file={GIN}"]
        command += [f"--out={tmp_path}", "--topology=v5e", "--gin.MESH=None", *flags]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 1 and done.stderr.startswith("error: ")
        return done.stderr

    assert "slices of" in failing("--chips=3")
    assert not list(tmp_path.iterdir())
    (tmp_path / "aot.jsonl").write_text("{}\n")
    assert "holds a report" in failing("--chips=1")
