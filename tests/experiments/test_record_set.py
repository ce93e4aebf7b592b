import dataclasses
import json

import pytest

from specdec_jax.errors import DataError
from specdec_jax.experiments.kinds import (
    KINDS,
    Alpha,
    Benchmark,
    MeasuredPeer,
    TaskScores,
    Trace,
)
from specdec_jax.experiments.record_file import RecordFile
from specdec_jax.experiments.record_set import MODEL, RecordSet, distinct
from specdec_jax.loading import ASSETS
from tests.experiments import found_records as records


def test_each_kind_has_its_own_name_and_comes_back_from_a_file(tmp_path):
    assert len(KINDS) == len(set(KINDS.values()))
    made = [
        *(records.benchmark(), records.alpha(), records.roofline(), records.trace()),
        *(records.scores(), records.peer(), records.absent_peer()),
    ]
    file = RecordFile(tmp_path / "a.jsonl")
    for record in made:
        file.append(record)
    assert list(file) == made == list(RecordSet.read([file.path]).records)
    assert [type(record) for record in file] == [type(record) for record in made]
    assert all(record.path == file.path for record in file)


def test_records_are_found_in_files_and_folders_and_others_are_passed_over(tmp_path):
    folder = tmp_path / "records"
    others = {"index": 1}, {"kind": "of another project"}, {"kind": 3}
    records.write(folder / "b.jsonl", records.alpha(alpha=0.2), *others)
    records.write(folder / "a" / "deep.jsonl", records.alpha(alpha=0.1))
    (folder / "notes.txt").write_text("not a record")
    (folder / "run.scores.json").write_text(
        json.dumps(records.scores().to_json(), indent=1)
    )
    single = records.write(tmp_path / "c.jsonl", records.alpha(alpha=0.3))
    found = RecordSet.read([single, folder])
    assert [one.alpha for one in found.of(Alpha)] == [0.3, 0.1, 0.2]
    assert [one.path.name for one in found.of(TaskScores)] == ["run.scores.json"]
    assert found.of(Alpha, alpha=0.2)[0].path == folder / "b.jsonl"
    assert found.of(Alpha, drafter="bigram") == []


def test_a_file_that_is_in_two_places_is_read_once(tmp_path):
    path = records.write(tmp_path / "more" / "a.jsonl", records.alpha())
    found = RecordSet.read([tmp_path, tmp_path / "more", path]).of(Alpha)
    assert [one.path for one in found] == [path]


def test_a_line_that_is_being_written_is_left_alone(tmp_path):
    path = records.write(tmp_path / "a.jsonl", records.alpha())
    content = path.read_bytes() + b'{"pair": "a_p'
    path.write_bytes(content)
    assert len(RecordSet.read([path]).of(Alpha)) == 1
    assert path.read_bytes() == content


def test_a_last_line_that_is_whole_counts_without_its_end(tmp_path):
    path = records.write(tmp_path / "a.jsonl", records.alpha(), records.trace())
    path.write_bytes(path.read_bytes().removesuffix(b"\n"))
    found = RecordSet.read([path])
    assert len(found.of(Alpha)) == len(found.of(Trace)) == 1


@pytest.mark.parametrize(
    ("record", "change", "words"),
    [
        (records.benchmark(), {"alpha": None}, "alpha must be a rate from 0 to 1"),
        (records.benchmark(), {"speedup": "1.5"}, "speedup must be a number above 0"),
        (records.benchmark(), {"c": float("nan")}, "c must be a number from 0 on"),
        (records.benchmark(), {"gamma": True}, "gamma must be an integer from 0 on"),
        (records.benchmark(), {"fixed_costs": [3.0]}, "fixed_costs must be a pair"),
        (records.benchmark(), {"predicted_speedup": 0}, "predicted_speedup must be"),
        (records.benchmark(), {"device": None}, "device must be an object"),
        (records.benchmark(), {"device": {"kind": 5}}, "device must be an object"),
        (records.benchmark(), {"versions": {"jax": []}}, "versions must be an object"),
        (records.peer(), {"config": {"gamma": 3}}, "config must be an object with the"),
        (records.peer(), {"memory": {"a": 1}}, "memory must be .* peak_mb, imports_mb"),
        (
            records.peer(),
            {"agreement": {"equal": 1, "prompts": 2, "differences": 3}},
            "agreement must be an object with the numbers equal, prompts",
        ),
        (records.alpha(), {"alpha_interval": None}, "alpha_interval must be a pair"),
        (records.alpha(), {"drafter": ["bigram"]}, "drafter must be a string"),
        (records.alpha(), {"alpha": 1.5}, "alpha must be a rate"),
        (records.alpha(), {"tokens": 1792.5}, "tokens must be an integer"),
        (records.alpha(), {"tokens": 10**400}, "tokens must be an integer"),
        (records.alpha(), {"gammas": [1]}, "it has gammas, and lacks beta_autocorr"),
        (records.roofline(), {"v": {}}, "v must be a number above 0"),
        (records.peer(), {"over_baseline_spread": [1, "2"]}, "over_baseline_spread"),
        (records.trace(), {"lines": []}, "lines must be a list that is not empty"),
    ],
)
def test_a_value_that_no_table_could_show_is_named_with_its_place(
    tmp_path, record, change, words
):
    values = record.to_json() | change
    path = records.write(tmp_path / "a.jsonl", {"n": 1}, values)
    with pytest.raises(DataError, match=f"a.jsonl:2: {words}"):
        RecordSet.read([path])


@pytest.mark.parametrize("record", [records.alpha(), records.peer(), records.trace()])
def test_a_field_that_is_lacking_is_named_with_its_place(tmp_path, record):
    values = record.to_json()
    del values["pair"]
    path = records.write(tmp_path / "a.jsonl", values)
    with pytest.raises(DataError, match=f"a.jsonl:1: the {record.kind} lacks pair"):
        RecordSet.read([path])


def test_what_is_no_record_is_named_with_its_place(tmp_path):
    with pytest.raises(DataError, match="no records at .*nowhere"):
        RecordSet.read([tmp_path / "nowhere"])
    path = tmp_path / "a.jsonl"
    path.write_text('{"n": 1}\nnot json\n')
    with pytest.raises(DataError, match="a.jsonl:2 is not JSON"):
        RecordSet.read([path])
    records.write(path, records.alpha(), {"kind": "of another project"})
    with pytest.raises(DataError, match="a.jsonl:2 is no record: its kind must be one"):
        list(RecordFile(path))


def test_of_equal_keys_the_earlier_place_counts(tmp_path):
    first = records.write(
        tmp_path / "1.jsonl",
        records.alpha(tokens=5000, alpha=0.5),
        records.alpha(temperature=0.0, alpha=0.9),
        records.benchmark(speedup=1.1),
    )
    second = records.write(
        tmp_path / "2.jsonl",
        records.alpha(tokens=1000, alpha=0.7),
        records.benchmark(speedup=1.2),
        records.benchmark(gamma=1, speedup=1.3),
    )
    found = RecordSet.read([first, second])
    alphas = distinct(found.of(Alpha), "pair", "temperature")
    assert [(one.temperature, one.alpha) for one in alphas] == [(0, 0.9), (1, 0.5)]
    benchmarks = distinct(found.of(Benchmark), "pair", "gamma")
    assert [(b.gamma, b.speedup) for b in benchmarks] == [(1, 1.3), (2, 1.1)]


def test_models_of_one_name_are_told_apart(tmp_path):
    """By weights and dtype; a record that does not say may be of any."""
    path = records.write(
        tmp_path / "1.jsonl",
        records.alpha(weights="a", dtype="float32"),
        records.alpha(weights="b", dtype="float32", alpha=0.9),
        records.alpha(alpha=0.3),
    )
    found = RecordSet.read([path]).of(Alpha)
    shown = distinct(found, "pair", *MODEL)
    assert sorted(one.alpha for one in shown) == [0.3, 0.61, 0.9]
    first, second, unsaid = found
    assert not first.of_one_model(second)
    assert first.of_one_model(unsaid) and unsaid.of_one_model(second)


def test_a_file_holds_records_of_one_run(tmp_path):
    file = RecordFile(tmp_path / "a.jsonl")
    first = records.benchmark(config={"repeats": 2}, inputs=3)
    file.append(first)
    file.append(dataclasses.replace(first, gamma=5))
    run = {"pair": "a_pair", "config": {"repeats": 2}, "inputs": 3}
    run |= {"dtype": None, "weights": None, "inputs_sha256": None}
    assert [one.gamma for one in file.of_run(Benchmark, run)] == [2, 5]
    with pytest.raises(DataError, match=r"a.jsonl:1 has config \{'repeats': 2\} and"):
        file.of_run(Benchmark, run | {"config": {"repeats": 3}})
    with pytest.raises(DataError, match="a.jsonl:1 is of kind benchmark, which this"):
        file.of_run(MeasuredPeer, run)


def test_the_packaged_records_are_all_of_a_kind():
    for path in [*ASSETS.rglob("*.jsonl")]:
        assert list(RecordFile(path))
        lines = map(json.loads, path.read_text("utf-8").splitlines())
        assert all(line["kind"] in KINDS for line in lines)
    found = RecordSet.read([ASSETS / "demo_ende"]).of(Benchmark)
    assert {one.temperature for one in found} == {0.0, 0.5, 1.0}
    assert {one.pair.split(" + ")[0] for one in found} == {"demo_ende"}
