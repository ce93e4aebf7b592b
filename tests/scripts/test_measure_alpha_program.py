"""The program as users run it: in a process of its own."""

import pytest

from specdec_jax.experiments.kinds import Alpha
from specdec_jax.experiments.record_file import RecordFile
from tests.scripts.test_decode_program import run


def measure(*args):
    return run("measure_alpha", *args)


def test_it_writes_records_and_prints_a_table_of_them(pair_folder, tmp_path):
    out = tmp_path / "alpha.jsonl"
    done = measure(
        f"--gin.PAIR={pair_folder}",
        "--gin.load_pair.drafter=repeat_last",
        "--gin.AlphaConfig.tokens=20",
        "--gin.TEMPERATURE=1.0",
        "--gin.MAX_NEW_TOKENS=6",
        "--limit=2",
        f"--out={out}",
    )
    assert done.returncode == 0, done.stderr
    records = list(RecordFile(out))
    assert [record.lenience for record in records] == [1.0, 0.5, 0.3, 0.1]
    assert {type(record) for record in records} == {Alpha}
    assert {record.drafter for record in records} == {"repeat_last"}
    assert f"{records[0].alpha:.3f}" in done.stdout and "top-k" in done.stdout
    assert (tmp_path / "alpha.outputs.jsonl").stat().st_size > 0
    before = (tmp_path / "alpha.operative.gin").read_text()
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
    assert (tmp_path / "alpha.operative.gin").read_text() == before


def test_what_int8_weights_change_is_measured_by_a_program(pair_folder, tmp_path):
    out = tmp_path / "logits.jsonl"
    done = run(
        "measure_quantization",
        f"--gin.PAIR={pair_folder}",
        "--gin.MAX_NEW_TOKENS=6",
        "--limit=2",
        f"--out={out}",
    )
    assert done.returncode == 0, done.stderr
    (record,) = RecordFile(out)
    assert record.quantization == "int8" and record.inputs == 2
    assert f"{record.mean_error:.2%}" in done.stdout


@pytest.mark.parametrize(
    "program",
    ["measure_alpha", "benchmark", "benchmark_peers", "measure_quantization"],
)
def test_nothing_is_measured_without_a_file_for_it(program):
    done = run(program)
    assert done.returncode == 1
    assert done.stderr.startswith("error: --out is missing")
    assert len(done.stderr.splitlines()) == 1
    done = run(program, "--limit=0")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "error: flag --limit=0: 0 is not a positive integer\n"


def test_a_quantization_that_is_not_asked_for_is_refused(tmp_path):
    """The program measures all that there are."""
    out = tmp_path / "logits.jsonl"
    done = run("measure_quantization", "--gin.TARGET_QUANTIZATION=int8", f"--out={out}")
    assert done.returncode == 1 and not out.exists()
    assert "nothing in measure_quantization.py uses TARGET_QUANT" in done.stderr
