"""The program as users run it: in a process of its own."""

import subprocess
import sys
from pathlib import Path

from specdec_jax.experiments.kinds import Alpha
from specdec_jax.experiments.record_file import RecordFile

ROOT = Path(__file__).parent.parent.parent


def measure(*args):
    return subprocess.run(
        [sys.executable, "scripts/measure_alpha.py", *map(str, args)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_it_writes_records_and_prints_a_table_of_them(pair_folder, tmp_path):
    out = tmp_path / "alpha.jsonl"
    done = measure(
        f"--gin.PAIR={pair_folder}",
        "--gin.load_pair.drafter=repeat_last",
        "--gin.AlphaConfig.tokens=20",
        "--gin.AlphaConfig.temperatures=(1.0,)",
        "--gin.AlphaConfig.max_new_tokens=6",
        "--limit=2",
        f"--out={out}",
    )
    assert done.returncode == 0, done.stderr
    records = list(RecordFile(out))
    assert [record.lenience for record in records] == [1.0, 0.5, 0.3, 0.1]
    assert {type(record) for record in records} == {Alpha}
    assert {record.drafter for record in records} == {"repeat_last"}
    assert f"{records[0].alpha:.3g}" in done.stdout and "top-k" in done.stdout
    assert (tmp_path / "alpha.outputs.jsonl").stat().st_size > 0
    before = (tmp_path / "alpha.gin").read_text()
    assert "AlphaConfig.tokens = 20" in before

    # Another run is refused, and leaves what stands beside the records alone.
    other = measure(
        f"--gin.PAIR={pair_folder}",
        "--gin.load_pair.drafter=repeat_last",
        "--gin.AlphaConfig.tokens=777",
        "--limit=2",
        f"--out={out}",
    )
    assert other.returncode == 1 and "alpha.jsonl:1 has config" in other.stderr
    assert (tmp_path / "alpha.gin").read_text() == before


def test_a_missing_file_name_is_one_clear_line():
    done = measure()
    assert done.returncode == 1
    assert done.stderr.strip() == "error: --out is missing"
