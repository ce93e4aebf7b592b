import dataclasses
import json
from pathlib import Path

import gin
import pytest

import specdec_jax as sd
from specdec_jax.cli import decode_task as task_run
from specdec_jax.cli import gin_bindings
from specdec_jax.cli.decode_task import TaskRun, scores_path
from specdec_jax.data import tasks
from specdec_jax.data.tokenizer import train_tokenizer
from specdec_jax.experiments.record_file import RecordFile
from tests.task_data import PREFIX, TRANSLATIONS, write_tfds, write_tsv
from tests.tiny_pairs import SENTENCES

ROOT = Path(__file__).parent.parent.parent
SETTINGS = sd.DecodeSettings(gamma=2, temperature=1.0, max_new_tokens=12)


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    return str(write_tfds(tmp_path_factory.mktemp("tfds")))


@pytest.fixture(scope="module")
def tsv(tmp_path_factory):
    return write_tsv(tmp_path_factory.mktemp("tsv") / "pairs.tsv", TRANSLATIONS)


@pytest.fixture
def run(tiny_pair, tsv):
    """A run over five rows that takes other fields by keyword."""

    def make(**changes):
        fields = {
            "pair": tiny_pair,
            "task": tasks.tsv_pairs(
                str(tiny_pair.tokenizer.path), {"test": tsv}, prefix=PREFIX
            ),
            "settings": SETTINGS,
            "batch_size": 2,
        }
        return TaskRun(**(fields | changes))

    return make


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (tasks.wmt14_ende, {"bleu", "bleu_intl"}),
        (tasks.cnn_dailymail, {"rouge1", "rouge2", "rougeLsum"}),
    ],
)
def test_a_tfds_split_is_decoded_recorded_in_order_and_scored(
    run, tiny_pair, data_dir, tmp_path, make, names
):
    task = make(str(tiny_pair.tokenizer.path), data_dir=data_dir)
    examples = task.examples("test")
    records = RecordFile(tmp_path / "test.jsonl")
    summary = run(task=task)(records)

    rows = list(records)
    assert len(rows) % 2 == 1  # so that the last batch was filled up
    assert [r.index for r in rows] == list(range(len(examples)))
    assert [(r.input, r.reference) for r in rows] == [
        (e.source, e.target) for e in examples
    ]
    for row in rows:
        # Twice in a batch, to share a program with the run.
        texts, ids = [row.input] * 2, [row.index] * 2
        out = sd.generate(tiny_pair, texts, SETTINGS, seed=0, row_ids=ids)
        assert row.output == out.texts[0]
        assert row.tokens == out.tokens[0, : out.lengths[0]].tolist()
        assert row.target_calls == out.stats.target_calls[0]

    references = [e.target for e in examples]
    assert summary.scores.keys() == names
    assert summary.scores == task.scores(references, [r.output for r in rows])
    assert task.scores(references, references) == pytest.approx(
        dict.fromkeys(names, 100.0)
    )
    assert summary.rows == len(rows)
    assert summary.tokens == sum(len(r.tokens) for r in rows)
    assert summary.target_calls == sum(r.target_calls for r in rows)
    assert json.loads(scores_path(records).read_text("utf-8")) == summary.to_json()


def test_outputs_do_not_depend_on_the_batch_size(run, tmp_path):
    outputs = []
    for size in (2, 5):
        records = RecordFile(tmp_path / f"{size}.jsonl")
        run(batch_size=size)(records)
        outputs.append([r.tokens for r in records])
    assert outputs[0] == outputs[1]
    assert len({tuple(tokens) for tokens in outputs[0]}) == len(SENTENCES)


class Killed(RecordFile):
    """Ends after so many rows, in the middle of writing the next one."""

    def __init__(self, path, rows):
        super().__init__(path)
        self.rows_left = rows

    def append(self, record):
        if self.rows_left == 0:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record.to_json())[:20])
            raise KeyboardInterrupt
        self.rows_left -= 1
        super().append(record)


def near(record):
    """Equal to a record but for roundings: other neighbours, another batch's width."""
    values = record.to_json()
    return values | {"beta_sum": pytest.approx(values["beta_sum"], rel=1e-5)}


@pytest.mark.parametrize("rows", [0, 1, 2, 3, 4])
def test_a_run_killed_between_any_rows_goes_on_as_if_it_had_not_been(
    run, tmp_path, monkeypatch, rows
):
    whole = RecordFile(tmp_path / "whole.jsonl")
    summary = run()(whole)
    path = tmp_path / "killed.jsonl"
    with pytest.raises(KeyboardInterrupt):
        run()(Killed(path, rows))
    assert not scores_path(whole).with_name("killed.scores.json").exists()
    kept = path.read_bytes().rpartition(b"\n")[0]

    decoded = []
    prepare = task_run.prepare_tokens
    monkeypatch.setattr(
        task_run, "prepare_tokens", lambda *a: decoded.append(a[-1]) or prepare(*a)
    )
    assert run()(RecordFile(path)).to_json() == near(summary)
    rows_made = [row.to_json() for row in RecordFile(path)]
    assert rows_made == [near(row) for row in whole]
    assert path.read_bytes().startswith(kept)
    assert [i for ids in decoded for i in ids][: 5 - rows] == list(range(rows, 5))
    decoded.clear()
    written = path.read_bytes()
    assert run()(RecordFile(path)).to_json() == near(summary)  # nothing is left
    assert path.read_bytes() == written and not decoded


def test_a_longer_limit_goes_on_and_a_shorter_one_is_refused(run, tmp_path):
    records = RecordFile(tmp_path / "test.jsonl")
    assert run(limit=3)(records).rows == 3
    first = records.path.read_bytes()
    assert run()(records).rows == 5
    assert records.path.read_bytes().startswith(first)
    with pytest.raises(sd.DataError, match="holds 5 rows and 2 are wanted"):
        run(limit=2)(records)


def test_records_of_another_run_are_refused_and_left_alone(run, tiny_pair, tmp_path):
    records = RecordFile(tmp_path / "test.jsonl")
    run(limit=2)(records)
    before = records.path.read_bytes()

    def task(files, *args, **changes):
        vocabulary = str(tiny_pair.tokenizer.path)
        return tasks.tsv_pairs(vocabulary, files, *args, prefix=PREFIX, **changes)

    pairs = {
        "input": [TRANSLATIONS[0], ("another", TRANSLATIONS[1][1])],
        "reference": [TRANSLATIONS[0], (TRANSLATIONS[1][0], "another")],
    }
    files = {key: write_tsv(tmp_path / key, value) for key, value in pairs.items()}
    same = write_tsv(tmp_path / "same", TRANSLATIONS[:2])
    for name, changes in {
        "seed": {"seed": 1},
        "method": {"method": "autoregressive"},
        "settings": {"settings": dataclasses.replace(SETTINGS, temperature=0.5)},
        "pair": {"pair": dataclasses.replace(tiny_pair, name="another")},
        "split": {
            "task": task({"dev": same}),
            "split": "dev",
        },
        "task": {"task": task({"test": same}, "another")},
        "lengths": {"task": task({"test": same}, inputs_length=30)},
        "input": {"task": task({"test": files["input"]})},
        "reference": {"task": task({"test": files["reference"]})},
    }.items():
        line = 2 if name in files else 1
        with pytest.raises(sd.DataError, match=rf"test.jsonl:{line} has {name} "):
            run(**changes)(RecordFile(records.path))
        assert records.path.read_bytes() == before


def test_a_row_that_is_lost_or_repeated_is_refused(run, tmp_path):
    records = RecordFile(tmp_path / "test.jsonl")
    run(limit=3)(records)
    lines = records.path.read_bytes().splitlines(keepends=True)
    for broken in (lines[1:], [lines[0], *lines]):
        records.path.write_bytes(b"".join(broken))
        with pytest.raises(sd.DataError, match="has index"):
            run()(records)


def test_settings_of_single_rows_and_another_vocabulary_are_refused(run, tsv, tmp_path):
    with pytest.raises(sd.SettingsError, match="gamma must be one number"):
        run(settings=sd.DecodeSettings(gamma=[1, 2]))
    other = tmp_path / "spiece.model"
    train_tokenizer(SENTENCES * 4, other, 45)
    with pytest.raises(sd.PairError, match="vocabulary"):
        run(task=tasks.tsv_pairs(str(other), {"test": tsv}))


@pytest.mark.parametrize("config", ["wmt14_ende", "cnn_dailymail", "tsv"])
def test_the_gin_files_need_only_what_a_user_alone_knows(
    config, pair_folder, data_dir, tsv, tmp_path
):
    gin_bindings.register()
    gin.add_config_file_search_path(str(ROOT))
    known = {"VOCABULARY": f"{pair_folder}/spiece.model"}
    test = {"GAMMA": 2, "TEMPERATURE": 0.0, "BATCH_SIZE": 2, "TaskRun.limit": 1}
    test["MAX_NEW_TOKENS"] = SETTINGS.max_new_tokens
    if config == "tsv":
        files = ["configs/runs/tsv.gin"]
        test |= known | {"PAIR": str(pair_folder), "PREFIX": PREFIX}
        known = {"TSV": tsv}  # the demo pair's vocabulary is the default
    else:
        files = [f"configs/tasks/{config}.gin", "configs/base/t5_pair.gin"]
        for side in ("target", "drafter"):
            known[f"{side.upper()}_CHECKPOINT"] = str(pair_folder / side)
            test[f"{side.upper()}_CONFIG"] = None
        test["DATA_DIR"] = data_dir

    def configured(bindings):
        gin.clear_config()
        lines = [f"{name} = {value!r}" for name, value in bindings.items()]
        gin.parse_config_files_and_bindings(files, lines)
        return gin_bindings.configured(TaskRun)()

    try:
        for name in known:
            with pytest.raises(ValueError, match=f"{name}.*REQUIRED"):
                configured({k: v for k, v in (known | test).items() if k != name})
        made = configured(known | test)
    finally:
        gin.clear_config()
    assert made.task.lengths == {"inputs": 512, "targets": 512}
    assert made(RecordFile(tmp_path / "test.jsonl")).rows == 1
