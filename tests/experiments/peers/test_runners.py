"""Peers in processes of their own: the protocol, absence, and breaking down."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from specdec_jax.experiments.peers import memory, worker
from specdec_jax.experiments.peers.catalogue import PEERS, T5X, open_peer
from specdec_jax.experiments.peers.comparison import peers_of_pair
from specdec_jax.experiments.peers.protocol import PeerAbsent, PeerFailed, Task
from specdec_jax.experiments.peers.rounds import PeersConfig
from specdec_jax.experiments.peers.runners import InOwnProcess
from specdec_jax.experiments.record_file import RecordFile
from tests.tiny_pairs import SENTENCES

ROOT = Path(__file__).parent.parent.parent.parent


def task_of(pair_folder, **changes):
    sides = [str(pair_folder / name) for name in ("target", "drafter", "spiece.model")]
    fields = {"gamma": 2, "temperature": 0.0, "max_new_tokens": 6}
    return Task(*sides, huggingface=(None, None), **fields | changes)


def broken_t5x(folder, code):
    """A library `t5x` that does this when it is imported."""
    (folder / "t5x").mkdir()
    (folder / "t5x" / "__init__.py").write_text(code)
    return str(folder)


def test_a_library_that_is_not_there_is_absent(pair_folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "t5x", None)
    with pytest.raises(PeerAbsent, match="t5x") as caught:
        open_peer(PEERS["t5x"], task_of(pair_folder))
    assert caught.value.install == T5X == "pip install -e '.[t5x]'"


def test_the_worker_answers_line_by_line(tiny_pair, pair_folder):
    """With our own loops as the peers; both give the same tokens."""
    answers = {}
    for name in ("baseline", "speculative"):
        task = task_of(pair_folder).__dict__
        orders = [
            {"peer": name, "task": task},
            {"do": "decode", "tokens": [7, 12, 1], "seed": 0},
            {"do": "warmed_up"},
            {"do": "decode", "tokens": [9, 1], "seed": 0},
            {"do": "memory"},
        ]
        answers[name] = []
        worker.serve(map(json.dumps, orders), answers[name].append)
    about, first, warmed, second, told = answers["baseline"]
    assert set(about["about"]["versions"]) == {"specdec_jax", "jax", "jaxlib"}
    assert about["about"]["settings"]["threads"] >= 1
    assert warmed == {}
    for decoded, other in zip(
        (first, second), answers["speculative"][1:4:2], strict=True
    ):
        assert decoded["tokens"] == other["tokens"]
        assert decoded["seconds"] > 0
        assert decoded["target_calls"] == len(decoded["tokens"])
        assert 1 <= other["target_calls"] <= len(decoded["tokens"])
    if memory.resident_mb() is not None:
        # This process may give memory back between the two.
        assert told["memory"].keys() == {"imports_mb", "peak_mb"}
        assert min(told["memory"].values()) > 0


@pytest.mark.skipif(memory.peak_mb() is None, reason="told by Linux only")
def test_a_peak_that_is_forgotten_is_told_no_more():
    block = bytearray(300_000_000)
    block[::4096] = b"x" * len(block[::4096])
    high = memory.peak_mb()
    assert high >= 300
    del block
    memory.forget_peak()
    assert memory.peak_mb() < high - 200


def test_a_library_that_ends_its_process_is_told_with_its_last_words(
    pair_folder, tmp_path, monkeypatch
):
    code = "import os; os.write(2, b'no such device\\n'); os._exit(3)"
    monkeypatch.setenv("PYTHONPATH", broken_t5x(tmp_path, code))
    with pytest.raises(PeerFailed, match="(?s)t5x.*exit code 3.*no such device"):
        InOwnProcess("t5x", task_of(pair_folder))


def test_a_peer_that_dies_later_is_named_and_can_be_closed(pair_folder, tmp_path):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nread task\necho '{\"about\": {}}'\nexit 7\n")
    python.chmod(0o755)
    peer = InOwnProcess("baseline", task_of(pair_folder), python=str(python))
    peer._process.wait()
    with pytest.raises(PeerFailed, match="baseline ended with exit code 7"):
        peer.decode([5, 1], seed=0)
    peer.close()


def test_an_interpreter_that_greets_is_told_not_to(pair_folder, tmp_path):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 'Welcome to the cluster'\nread task\n")
    python.chmod(0o755)
    with pytest.raises(PeerFailed, match="baseline answered 'Welcome to the cluster'"):
        InOwnProcess("baseline", task_of(pair_folder), python=str(python))


def test_an_interpreter_that_is_not_there_is_named(pair_folder):
    with pytest.raises(PeerFailed, match="baseline: cannot start /no/python"):
        InOwnProcess("baseline", task_of(pair_folder), python="/no/python")


def run_program(env, *args):
    return subprocess.run(
        [sys.executable, "scripts/benchmark_peers.py", *map(str, args)],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        timeout=600,
    )


def test_the_program_names_who_is_absent_and_goes_on(
    pair_folder, tmp_path, monkeypatch
):
    code = "raise ModuleNotFoundError(\"No module named 'airio'\", name='airio')"
    monkeypatch.setenv("PYTHONPATH", broken_t5x(tmp_path, code))
    sentences, out = tmp_path / "sentences.txt", tmp_path / "peers.jsonl"
    sentences.write_text("\n".join(SENTENCES[:2]))
    args = [f"--gin.PAIR={pair_folder}", f"--input={sentences}", f"--out={out}"]
    args += ["--gin.DecodeSettings.max_new_tokens=6", "--repeats=1"]
    done = run_program(os.environ, *args, "--peers=speculative,t5x")
    assert done.returncode == 0, done.stderr
    records = {record.peer: record for record in RecordFile(out)}
    assert records["t5x"].absent == "No module named 'airio'"
    assert "No module named 'airio': pip install -e '.[t5x]'" in done.stdout
    ours = records["speculative"]
    assert ours.agreement["equal"] == ours.agreement["prompts"] == 2
    assert ours.tokens_per_second > 0 and ours.over_baseline > 0
    assert ours.memory["peak_mb"] > ours.memory["imports_mb"] > 0
    assert out.with_suffix(".operative.gin").exists()


def test_a_pair_of_gpts_is_compared_with_our_own_loops_only(gpt_pair):
    config = PeersConfig(peers=("t5x", "transformers"), repeats=1)
    made = list(peers_of_pair(gpt_pair, [[7, 12]], config, {}))
    assert [record.peer for record in made] == list(config.peers)
    assert all("GPTs" in record.absent for record in made)
    assert all(record.install is None for record in made)


def test_nobody_is_confused_by_what_a_library_prints():
    """The worker's answers have a channel of their own."""
    program = (
        "import sys; from specdec_jax.experiments.peers import worker; "
        "worker.serve = lambda orders, reply: (print('hello'), reply({'a': 1})); "
        "worker.main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.stdout == '{"a": 1}\n'
    assert done.stderr.endswith("hello\n")
