"""Rows shared among processes, and kills anywhere: threads, and no model.

What real processes with a model write is in `test_real_processes.py`.
"""

import dataclasses
import json
import threading

import pytest

import specdec_jax as sd
from specdec_jax.cli.decode_task import COUNTS, TaskRun, scores_path
from specdec_jax.data.tokenizer import Tokenizer
from specdec_jax.decoding.speculative import PairParams
from specdec_jax.drafters.constant import ConstantDrafter
from specdec_jax.experiments.kinds import DecodedRow
from specdec_jax.experiments.record_file import RecordFile
from specdec_jax.loading import ASSETS
from specdec_jax.runtime.records import environment
from tests import toy_models as toys
from tests.task_data import TRANSLATIONS, list_task
from tests.thread_processes import BrokenUp, run_processes
from tests.tiny_pairs import tiny_config

SETTINGS = sd.DecodeSettings(gamma=2, max_new_tokens=12)
ROWS = len(TRANSLATIONS)
TOKENIZER = Tokenizer(ASSETS / "demo_ende" / "spiece.model")
PAIR = sd.Pair(
    toys.table_model(7),
    ConstantDrafter(7, 7, 4),
    PairParams({}, {}),
    TOKENIZER,
    tiny_config(),
    "toy",
)


@pytest.fixture(autouse=True)
def decode_without_a_model(monkeypatch):
    def decode(self, batch):
        for example in batch.examples:
            counts = dict.fromkeys(COUNTS, example.index + 1)
            counts["beta_sum"] *= 0.1
            yield DecodedRow(
                index=example.index,
                input=example.source,
                reference=example.target,
                output=f"Mädchen\u2028{example.source[::-1]}",
                tokens=example.inputs[::-1],
                **counts,
                **self._identity(),
                **environment(),
            )

    monkeypatch.setattr(TaskRun, "_decode", decode)


class Killed(Exception):
    """What a process ends with that was killed."""


@pytest.fixture
def run_once():
    """Runs the task with so many processes; what each returned or raised."""

    def run(path, count, records=RecordFile, at_gather=None, changes=None, pairs=None):
        def work(processes):
            fields = {"settings": SETTINGS, "batch_size": 1, "processes": processes}
            given = (pairs or {}).get(processes.index, TRANSLATIONS)
            fields |= {"pair": PAIR, "task": list_task(TOKENIZER, given)}
            fields |= (changes or {}).get(processes.index, {})
            return TaskRun(**fields)(records(path) if processes.first else None)

        return run_processes(count, work, at_gather)

    return run


@pytest.fixture
def whole(tmp_path):
    """The records and the summary of a run by one process."""
    records = RecordFile(tmp_path / "whole" / "whole.jsonl")
    summary = TaskRun(PAIR, list_task(TOKENIZER), SETTINGS, batch_size=1)(records)
    assert [row.index for row in records] == list(range(ROWS))
    return records.path.read_bytes(), summary


@pytest.mark.parametrize("batch_size", [1, 2, 4])
@pytest.mark.parametrize("count", [2, 3, ROWS + 2])
def test_any_number_of_processes_writes_the_file_of_one(
    run_once, whole, tmp_path, count, batch_size
):
    path = tmp_path / "test.jsonl"
    changes = {index: {"batch_size": batch_size} for index in range(count)}
    summaries = run_once(path, count, changes=changes)
    assert path.read_bytes() == whole[0]
    assert summaries == [whole[1]] * count
    assert json.loads(scores_path(RecordFile(path)).read_text()) == whole[1].to_json()
    names = {"whole", "test.jsonl", "test.scores.json"}
    assert {file.name for file in tmp_path.iterdir()} == names


def test_each_process_decodes_its_own_rows_and_no_others(
    run_once, tmp_path, monkeypatch
):
    decoded = {}
    decode = TaskRun._decode

    def watched(self, batch):
        rows = [example.index for example in batch.examples]
        decoded.setdefault(self.processes.index, []).extend(rows)
        return decode(self, batch)

    monkeypatch.setattr(TaskRun, "_decode", watched)
    run_once(tmp_path / "test.jsonl", 2)
    assert decoded == {0: [0, 2, 4], 1: [1, 3]}


class KilledAt:
    """Ends a process the `times`-th time it comes by."""

    def __init__(self, times):
        self.times, self.lock = times, threading.Lock()

    def __call__(self):
        with self.lock:
            self.times -= 1
            if self.times == 0:
                raise Killed


GATHERINGS = 7  # two before, three rounds, two after


@pytest.mark.parametrize("restart", [1, 2, 3])
@pytest.mark.parametrize("times", range(1, GATHERINGS + 1))
@pytest.mark.parametrize("victim", [0, 1])
def test_a_process_killed_before_any_gathering_costs_and_repeats_no_row(
    run_once, whole, tmp_path, victim, times, restart
):
    path = tmp_path / "test.jsonl"
    ended = run_once(path, 2, at_gather={victim: KilledAt(times)})
    assert isinstance(ended[victim], Killed)
    assert isinstance(ended[1 - victim], BrokenUp)
    kept = path.read_bytes()
    assert whole[0].startswith(kept)
    # The others had done the rounds before, and they were written.
    assert kept.count(b"\n") == min(ROWS, 2 * max(0, times - 4))
    run_once(path, restart)
    assert path.read_bytes() == whole[0]


def test_there_is_no_gathering_after_those_that_are_tested(run_once, whole, tmp_path):
    path = tmp_path / "test.jsonl"
    run_once(path, 2, at_gather={1: KilledAt(GATHERINGS + 1)})
    assert path.read_bytes() == whole[0]


@pytest.mark.parametrize("rows", range(ROWS))
def test_process_0_killed_in_the_middle_of_any_line_goes_on_with_it(
    run_once, whole, tmp_path, rows
):
    kill = KilledAt(rows + 1)

    class CutShort(RecordFile):
        def append(self, record):
            try:
                kill()
            except Killed:
                with self.path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(record.to_json(), ensure_ascii=False)[:20])
                raise
            super().append(record)

    path = tmp_path / "test.jsonl"
    ended = run_once(path, 2, records=CutShort)
    assert isinstance(ended[0], Killed)
    assert path.read_bytes().count(b"\n") == rows
    run_once(path, 2)
    assert path.read_bytes() == whole[0]


@pytest.mark.parametrize("process", [0, 1])
def test_bad_data_of_one_process_ends_all_and_names_it(run_once, tmp_path, process):
    path = tmp_path / "test.jsonl"
    errors = run_once(path, 2, changes={process: {"split": "dev"}})
    assert all(isinstance(error, sd.DataError) for error in errors)
    assert str(errors[process]).startswith("list has no split 'dev'")
    other = str(errors[1 - process])
    assert other == f"process {process}: {errors[process]}"
    assert path.read_bytes() == b""


@pytest.mark.parametrize(
    ("name", "differs"),
    [
        ("seed", {"changes": {1: {"seed": 1}}}),
        ("batch_size", {"changes": {1: {"batch_size": 3}}}),
        ("rows", {"pairs": {1: TRANSLATIONS[::-1]}}),
        ("rows", {"pairs": {1: TRANSLATIONS[:-1]}}),
        (
            "settings",
            {"changes": {1: {"settings": dataclasses.replace(SETTINGS, gamma=1)}}},
        ),
    ],
)
def test_processes_of_unlike_runs_are_refused(run_once, tmp_path, name, differs):
    path = tmp_path / "test.jsonl"
    for error in run_once(path, 2, **differs):
        assert isinstance(error, sd.DataError)
        assert str(error).startswith(f"process 1 has other {name} than process 0")
    assert path.read_bytes() == b""


def test_records_of_another_run_end_all_processes(run_once, tmp_path):
    path = tmp_path / "test.jsonl"
    run_once(path, 1)
    before = path.read_bytes()
    errors = run_once(path, 2, changes={i: {"seed": 1} for i in range(2)})
    assert "test.jsonl:1 has seed 0 and this run 1" in str(errors[0])
    assert str(errors[1]) == f"process 0: {errors[0]}"
    assert path.read_bytes() == before


def test_a_file_is_one_runs_at_a_time(run_once, tmp_path, monkeypatch):
    path, seen = tmp_path / "test.jsonl", []
    decode = TaskRun._decode

    def tries(self, batch):
        with pytest.raises(sd.DataError, match="another run appends to"):
            RecordFile(path)
        seen.append(batch)
        return decode(self, batch)

    monkeypatch.setattr(TaskRun, "_decode", tries)
    run_once(path, 1)
    assert len(seen) == ROWS
