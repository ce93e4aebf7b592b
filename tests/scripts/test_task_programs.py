"""Decoding a task, benchmarking it and converting checkpoints, as users run them."""

import json
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.scripts.test_decode_program import run
from tests.task_data import write_tsv
from tests.tiny_pairs import SENTENCES


@pytest.fixture
def flags(pair_folder, tmp_path):
    tsv = write_tsv(tmp_path / "pairs.tsv", [(s, s) for s in SENTENCES])
    return (
        "--gin_file=configs/runs/tsv.gin",
        f"--gin.TSV={tsv}",
        f"--gin.PAIR={pair_folder}",
        f"--gin.VOCABULARY={pair_folder / 'spiece.model'}",
        "--gin.MAX_NEW_TOKENS=8",
        "--gin.BATCH_SIZE=2",
    )


def test_a_task_is_decoded_into_a_file_and_scored(flags, tmp_path):
    out = tmp_path / "out.jsonl"
    done = run("decode", *flags, f"--out={out}")
    assert done.returncode == 0, done.stderr
    assert "bleu " in done.stdout and "tokens per target call" in done.stdout
    records = [json.loads(line) for line in out.read_text().splitlines()]
    assert [r["input"] for r in records] == list(SENTENCES)
    scores = json.loads((tmp_path / "out.scores.json").read_text())
    assert scores["rows"] == len(SENTENCES)
    assert "TaskRun.batch_size" in (tmp_path / "out.operative.gin").read_text()


def test_two_processes_write_one_file_and_one_speaks(flags, tmp_path):
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    out = tmp_path / "out.jsonl"
    every = (*flags, f"--out={out}", "--method=autoregressive", "--num_processes=2")

    def process(index):
        where = (f"--coordinator=localhost:{port}", f"--process_id={index}")
        return run("decode", *every, *where)

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(process, range(2))
    assert first.returncode == second.returncode == 0, first.stderr + second.stderr
    records = [json.loads(line) for line in out.read_text().splitlines()]
    assert [r["input"] for r in records] == list(SENTENCES)
    assert records[0]["device"]["count"] == 2
    assert "bleu " in first.stdout and "bleu " not in second.stdout
    names = {path.name for path in tmp_path.glob("out.*")}
    assert names == {"out.jsonl", "out.scores.json", "out.operative.gin"}


def test_a_task_is_precompiled_without_its_data(flags, tmp_path):
    cache = f"--compilation_cache={tmp_path / 'cache'}"
    done = run("decode", *flags, "--gin.TSV=nowhere.tsv", cache, "--precompile=9")
    assert done.returncode == 0, done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"cache", "pairs.tsv"}


def test_a_task_without_a_file_is_refused_in_one_line(flags):
    done = run("decode", *flags)
    assert done.returncode == 1
    assert "error: a task is decoded into a file: give --out" in done.stderr


def test_a_task_is_benchmarked(flags, tmp_path):
    out = tmp_path / "out.jsonl"
    done = run(
        "benchmark",
        *(flag for flag in flags if "BATCH_SIZE" not in flag),
        f"--out={out}",
        "--limit=2",
        "--gin.GAMMA=2",
        "--gin.BenchmarkConfig.repeats=1",
    )
    assert done.returncode == 0, done.stderr
    (record,) = [json.loads(line) for line in out.read_text().splitlines()]
    assert (record["inputs"], record["gamma"]) == (2, 2)


def test_a_checkpoint_is_converted_and_a_full_folder_is_left_alone(
    pair_folder, tmp_path
):
    flags = (
        f"--source={pair_folder / 'target'}",
        f"--destination={tmp_path / 'new'}",
        "--format=huggingface",
    )
    done = run("convert_checkpoint", *flags)
    assert done.returncode == 0, done.stderr
    names = {path.name for path in (tmp_path / "new").iterdir()}
    assert names == {"config.json", "model.safetensors", "spiece.model"}
    again = run("convert_checkpoint", *flags)
    assert again.returncode == 1
    assert "is not empty" in again.stderr
