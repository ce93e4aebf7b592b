"""The programs as users run them: in a process of their own."""

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

import specdec_jax as sd
from specdec_jax.cli.decode_texts import DecodeRun
from specdec_jax.data.tokenizer import Tokenizer
from specdec_jax.experiments.record_file import RecordFile
from tests.tiny_pairs import SENTENCES

ROOT = Path(__file__).parent.parent.parent


def run(program, *args, stdin=""):
    """Bytes are given on as they are; what comes back is text."""
    as_is = (str, bytes)
    args = [arg if isinstance(arg, as_is) else str(arg) for arg in args]
    done = subprocess.run(
        [sys.executable, f"scripts/{program}.py", *args],
        cwd=ROOT,
        input=stdin if isinstance(stdin, bytes) else stdin.encode(),
        capture_output=True,
        timeout=300,
    )
    done.stdout, done.stderr = done.stdout.decode(), done.stderr.decode()
    return done


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
    assert "tokens per target call" in done.stdout
    assert "speedup" in done.stdout


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


def test_two_runs_do_not_append_to_one_file(tiny_pair, tmp_path):
    run = DecodeRun(
        pair=tiny_pair,
        settings=sd.DecodeSettings(gamma=2, max_new_tokens=8),
        seed=0,
        method="speculative",
        compare=False,
        console=Console(file=io.StringIO()),
    )
    records = RecordFile(tmp_path / "rows.jsonl")
    with records.alone(), pytest.raises(sd.DataError, match="another run appends"):
        run(SENTENCES[:1], records, "text")
    assert list(records) == []


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
    ("bad", "words"), [("", "is empty"), ("dog " * 600, "tokens and at most 512")]
)
def test_no_line_is_decoded_before_all_are_found_good(decode, tmp_path, bad, words):
    inputs, out = tmp_path / "in.txt", tmp_path / "out.jsonl"
    inputs.write_text("\n".join([SENTENCES[0], bad, SENTENCES[1]]) + "\n")
    done = decode(f"--input={inputs}", f"--out={out}", "--format=text")
    assert done.returncode == 1 and done.stdout == ""
    assert f"error: line 2 of {inputs} " in done.stderr and words in done.stderr
    assert not out.read_text()


PROGRAMS = {path.stem for path in (ROOT / "scripts").glob("*.py")}
TAKE_WORDS = {"run_notebooks"}


@pytest.mark.parametrize("program", sorted(PROGRAMS - TAKE_WORDS))
def test_a_word_without_a_flag_is_refused_by_all_programs(program):
    done = run(program, "word")
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith("error: 'word' belongs to no flag")


@pytest.mark.parametrize(
    ("args", "stdin", "words"),
    [
        (["--text="], "", "text 1 is empty"),
        ([], "", "no input"),
        (["--text=a dog", "--gin.GAMMA=-1"], "", "gamma must be"),
        (["--text=a dog", "--gin.TEMPERATURE=-0.5"], "", "temperature must be"),
        (["--text=a dog", "--gin.DecodeSettings.top_p=1.5"], "", "top_p must be"),
        (["--text=a dog", "--gin.PAIR=nowhere"], "", "no pair 'nowhere'"),
        (["--text=a dog", "--gin_file=nowhere.gin"], "", "nowhere.gin"),
        (["--text=a dog", "--num_processes=2"], "", "belong together"),
        (["--text=a dog", "--gin.NoSuchThing.x=1"], "", "NoSuchThing"),
        (["--text=a dog", "--out=/proc/nowhere/out.jsonl"], "", "cannot write"),
        (["--input=nowhere.txt"], "", "nowhere.txt"),
        ([b"--text=a dog \xff"], "", "is not UTF-8"),
        ([], b"a dog\na \xff dog\n", "line 2 of standard input is not UTF-8"),
        ([], "a dog\n\na dog\n", "line 2 of standard input is empty"),
        (["a dog"], "", "'a dog' belongs to no flag"),
        (["--text=a", "dog"], "", "'dog' belongs to no flag"),
        (["--seed=abc"], "", "flag --seed=abc"),
        (["--method=greedy"], "", "flag --method=greedy: value should be one of"),
        (["--temperature=0.5"], "", "Unknown command line flag 'temperature'"),
        (["--gin.GAMMA"], "", "--gin.GAMMA: write --gin.NAME=VALUE"),
        (["--text=a", "--gin.GAMA=2"], "", "did you mean GAMMA?"),
        (["--text=a", "--gin.AlphaConfig.tokens=5"], "", "nothing in decode.py uses"),
        (["--text=a dog", "--out=/dev/full"], "", "it is no regular file"),
    ],
)
def test_bad_input_is_one_clear_line(decode, args, stdin, words):
    done = decode(*args, stdin=stdin)
    assert done.returncode == 1
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1


def test_what_was_precompiled_is_not_compiled_again(tmp_path, monkeypatch):
    """The demo pair's programs, for inputs of up to eight tokens."""
    monkeypatch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")

    def programs():
        names = [path.name for path in tmp_path.glob("*-cache")]
        return sorted(x for x in names if x.startswith(("jit_begin-", "jit_run-")))

    cache = (f"--compilation_cache={tmp_path}", "--gin.GAMMA=2")
    done = run("decode", *cache, "--precompile=8")
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    compiled = programs()
    assert [name.partition("-")[0] for name in compiled] == ["jit_begin", "jit_run"]
    done = run("decode", *cache, "--text=A dog runs.")
    assert done.returncode == 0, done.stderr
    assert programs() == compiled


def test_precompiling_without_a_cache_is_refused(monkeypatch):
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    done = run("decode", "--precompile=8")
    assert done.returncode == 1
    assert "error: nothing would be kept: give --compilation_cache" in done.stderr


def test_a_stream_that_cannot_write_a_letter_shows_a_question_mark(tmp_path):
    done = subprocess.run(
        [sys.executable, "scripts/reproduce.py", "--what=table1", f"--out={tmp_path}"],
        cwd=ROOT,
        env=os.environ | {"PYTHONIOENCODING": "ascii"},
        capture_output=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert b"| ?   | ?" in done.stdout  # alpha and gamma
