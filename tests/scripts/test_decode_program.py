"""The programs as users run them: in a process of their own."""

import io
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

import specdec_jax as sd
from specdec_jax.data.tokenizer import Tokenizer
from specdec_jax.experiments.decode_run import DecodeRun
from tests.tiny_pairs import SENTENCES

ROOT = Path(__file__).parent.parent.parent


def run(program, *args, stdin=""):
    return subprocess.run(
        [sys.executable, f"scripts/{program}.py", *map(str, args)],
        cwd=ROOT,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.fixture
def decode(pair_folder):
    def call(*args, stdin=""):
        return run("decode", f"--gin.PAIR={pair_folder}", *args, stdin=stdin)

    return call


def test_text_comes_in_and_a_trace_and_a_summary_come_out(decode):
    done = decode(f"--text={SENTENCES[0]}", "--speedup", "--gin.GAMMA=2")
    assert done.returncode == 0, done.stderr
    assert SENTENCES[0] in done.stdout
    assert "(+" in done.stdout  # marks, as there are no colours in a pipe
    assert "tokens a run" in done.stdout
    assert "times as fast" in done.stdout


def test_compiling_is_in_neither_time_of_a_comparison(tiny_pair):
    """Texts of two length buckets: two programs a method."""
    texts = [SENTENCES[0].split()[0], *SENTENCES]
    out = io.StringIO()
    run = DecodeRun(
        pair=tiny_pair,
        settings=sd.DecodeSettings(gamma=2, max_new_tokens=8),
        seed=0,
        method="speculative",
        compare=True,
        console=Console(file=out, width=200),
    )
    run(texts, None, "trace")
    assert len(run._compiled) >= 4
    ours, alone = map(float, re.findall(r"([\d.]+) s[;:]", out.getvalue()))
    assert 0 < ours < 1 and 0 < alone < 1  # compiling takes seconds


def test_json_lines_are_appended_and_a_stopped_run_goes_on(
    decode, pair_folder, tmp_path
):
    out, inputs = tmp_path / "out.jsonl", tmp_path / "in.txt"
    inputs.write_text("\n".join(SENTENCES[:2]) + "\n")
    args = (f"--out={out}", f"--input={inputs}", "--format=jsonl")
    assert decode(*args).returncode == 0
    first = out.read_text()
    inputs.write_text("\n".join(SENTENCES[:4]) + "\n")
    out.write_text(first + '{"cut sho')  # as a kill leaves it
    done = decode(*args)
    assert done.returncode == 0, done.stderr
    records = [json.loads(line) for line in out.read_text().splitlines()]
    assert out.read_text().startswith(first)
    assert [r["input"] for r in records] == list(SENTENCES[:4])
    assert {"output", "target_calls", "seed", "settings"} <= set(records[0])
    tokenizer = Tokenizer(pair_folder / "spiece.model")
    for record in records:
        assert tokenizer.decode(record["tokens"]) == record["output"]
        assert len(record["tokens"]) >= record["target_calls"]
    other = decode(*args, "--gin.TEMPERATURE=0.5")
    assert other.returncode == 1
    assert "out.jsonl:1 has settings" in other.stderr


@pytest.mark.parametrize(
    ("args", "stdin", "words"),
    [
        (["--text="], "", "text 1 is empty"),
        ([], "", "no text"),
        (["--text=a dog", "--gin.GAMMA=-1"], "", "gamma must be"),
        (["--text=a dog", "--gin.TEMPERATURE=-0.5"], "", "temperature must be"),
        (["--text=a dog", "--gin.DecodeSettings.top_p=1.5"], "", "top_p must be"),
        (["--text=a dog", "--gin.PAIR=nowhere"], "", "no pair 'nowhere'"),
        (["--text=a dog", "--gin_file=nowhere.gin"], "", "nowhere.gin"),
        (["--text=a dog", "--num_processes=2"], "", "belong together"),
        (["--text=a dog", "--gin.NoSuchThing.x=1"], "", "NoSuchThing"),
        (["--text=a dog", "--out=/proc/nowhere/out.jsonl"], "", "cannot write"),
        (["--input=nowhere.txt"], "", "nowhere.txt"),
    ],
)
def test_bad_input_is_one_clear_line(decode, args, stdin, words):
    done = decode(*args, stdin=stdin)
    assert done.returncode == 1
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1
