import json

import pytest

from specdec_jax.errors import DataError
from specdec_jax.experiments.record_set import (
    COMMANDS,
    KEYS,
    MODEL,
    PROGRAM,
    Evidence,
    kind_of,
)
from specdec_jax.loading import ASSETS
from tests.experiments import found_records as records


def test_a_record_is_of_the_kind_whose_keys_it_has():
    rejection = records.alpha(rejection_alpha=0.1)
    scores = {"pair": "a", "settings": {}, "scores": {}, "rows": 1}
    found = {
        "benchmark": records.benchmark(),
        "alpha": records.alpha(),
        "rejection": rejection,
        "roofline": records.roofline(),
        "trace": records.trace(),
        "scores": scores,
        "peer": records.peer(),
        "absent_peer": records.absent_peer(),
    }
    assert {kind: kind_of(record) for kind, record in found.items()} == {
        kind: kind for kind in KEYS
    }
    for kind, record in found.items():
        for key in KEYS[kind]:
            less = {name: value for name, value in record.items() if name != key}
            assert kind_of(less) != kind
    assert kind_of({"index": 0, "input": "a dog", "tokens": [5, 1]}) is None


def test_a_benchmark_with_lenience_is_not_taken_for_an_exact_one():
    assert kind_of(records.benchmark(lenience=1.0)) == "benchmark"
    assert kind_of(records.benchmark(lenience=0.5)) == "lenient"


def test_records_are_found_in_files_and_folders_and_others_are_passed_over(tmp_path):
    folder = tmp_path / "records"
    records.write(folder / "b.jsonl", records.alpha(alpha=0.2), {"index": 1})
    records.write(folder / "a" / "deep.jsonl", records.alpha(alpha=0.1))
    (folder / "notes.txt").write_text("not a record")
    (folder / "run.scores.json").write_text(
        json.dumps(
            {"pair": "p", "settings": {}, "scores": {"bleu": 30.0}, "rows": 2}, indent=1
        )
    )
    single = records.write(tmp_path / "c.jsonl", records.alpha(alpha=0.3))
    evidence = Evidence.read([single, folder])
    assert [one["alpha"] for one in evidence.of("alpha")] == [0.3, 0.1, 0.2]
    assert [one.path.name for one in evidence.of("scores")] == ["run.scores.json"]
    assert evidence.of("alpha", alpha=0.2)[0].path == folder / "b.jsonl"
    assert evidence.of("alpha", drafter="bigram") == []


def test_a_file_that_is_in_two_places_is_read_once(tmp_path):
    path = records.write(tmp_path / "more" / "a.jsonl", records.alpha())
    found = Evidence.read([tmp_path, tmp_path / "more", path]).of("alpha")
    assert [one.path for one in found] == [path]


def test_a_line_that_is_being_written_is_left_alone(tmp_path):
    path = records.write(tmp_path / "a.jsonl", records.alpha())
    content = path.read_bytes() + b'{"pair": "a_p'
    path.write_bytes(content)
    assert len(Evidence.read([path]).of("alpha")) == 1
    assert path.read_bytes() == content


def test_a_last_line_that_is_whole_counts_without_its_end(tmp_path):
    path = records.write(tmp_path / "a.jsonl", records.alpha(), records.trace())
    path.write_bytes(path.read_bytes().removesuffix(b"\n"))
    evidence = Evidence.read([path])
    assert len(evidence.of("alpha")) == len(evidence.of("trace")) == 1


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (records.benchmark(alpha=None), "alpha must be a rate from 0 to 1, not nul"),
        (
            records.benchmark(speedup="1.5"),
            "speedup must be a number above 0",
        ),
        (records.benchmark(c=float("nan")), "c must be a number from 0 on, not NaN"),
        (
            records.benchmark(gamma=True),
            "gamma must be a whole number from 0 on, not true",
        ),
        (records.benchmark(fixed_costs=[3.0]), "fixed_costs must be two numbers"),
        (records.alpha(alpha_interval=None), "alpha_interval must be two numbers"),
        (records.alpha(drafter=["bigram"]), "drafter must be a text"),
        (records.roofline(v={}), "v must be a number above 0"),
        (records.peer(over_baseline_spread=[1, "2"]), "over_baseline_spread must be"),
        (records.alpha(alpha=1.5), "alpha must be a rate"),
        (records.alpha(tokens=1792.5), "tokens must be a whole number"),
        (records.alpha(tokens=10**400), "tokens must be a whole number"),
        (records.alpha(gammas=[1, 2]), "it has gammas, and lacks beta_autocorrelation"),
        (records.benchmark(predicted_speedup=0), "predicted_speedup must be a number"),
        (records.benchmark(device=None), "device must be a JSON object"),
        (records.trace(lines=[]), "lines must be a list of values"),
    ],
)
def test_a_value_that_no_table_could_show_is_named_with_its_place(
    tmp_path, record, words
):
    path = records.write(tmp_path / "a.jsonl", {"n": 1}, record)
    with pytest.raises(DataError, match=f"a.jsonl:2: {words}"):
        Evidence.read([path])


def test_what_is_no_record_is_named_with_its_place(tmp_path):
    with pytest.raises(DataError, match="no records at .*nowhere"):
        Evidence.read([tmp_path / "nowhere"])
    path = tmp_path / "a.jsonl"
    path.write_text('{"n": 1}\nnot json\n')
    with pytest.raises(DataError, match="a.jsonl:2 is not JSON"):
        Evidence.read([path])


def test_of_equal_keys_the_earlier_place_counts_and_what_is_made_in_passing_last(
    tmp_path,
):
    first = records.write(
        tmp_path / "1.jsonl",
        records.alpha(tokens=5000, alpha=0.5, program=PROGRAM),
        records.alpha(temperature=0.0, alpha=0.9, program=PROGRAM),
        records.benchmark(speedup=1.1),
    )
    second = records.write(
        tmp_path / "2.jsonl",
        records.alpha(tokens=100, alpha=0.6),
        records.alpha(tokens=1000, alpha=0.7),
        records.benchmark(speedup=1.2),
        records.benchmark(gamma=1, speedup=1.3),
    )
    evidence = Evidence.read([first, second])
    alphas = evidence.distinct("alpha", "pair", "temperature")
    assert [(one["temperature"], one["alpha"]) for one in alphas] == [
        (0, 0.9),
        (1, 0.6),
    ]
    benchmarks = evidence.distinct("benchmark", "pair", "gamma")
    assert [(b["gamma"], b["speedup"]) for b in benchmarks] == [(1, 1.3), (2, 1.1)]


def test_models_of_one_name_are_told_apart(tmp_path):
    """By weights and dtype; a record that does not say may be of any."""
    path = records.write(
        tmp_path / "1.jsonl",
        records.alpha(weights="a", dtype="float32"),
        records.alpha(weights="b", dtype="float32", alpha=0.9),
        records.alpha(alpha=0.3),
    )
    evidence = Evidence.read([path])
    found = evidence.distinct("alpha", "pair", *MODEL)
    assert sorted(one["alpha"] for one in found) == [0.3, 0.61, 0.9]
    first, second, unsaid = evidence.of("alpha")
    assert not first.of_one_model(second)
    assert first.of_one_model(unsaid) and unsaid.of_one_model(second)


def test_a_record_says_what_made_it(tmp_path):
    command = "python scripts/measure_alpha.py --gin.load_pair.drafter=prompt_lookup"
    path = records.write(
        tmp_path / "1.jsonl",
        records.alpha(command=command),
        records.alpha(program=PROGRAM),
        records.alpha(),
    )
    found = Evidence.read([path]).of("alpha")
    told = [one.made_by(COMMANDS["alpha"]) for one in found]
    assert told == [command, COMMANDS["reproduce"], COMMANDS["alpha"]]


def test_a_record_tells_what_it_was_made_on(tmp_path):
    path = records.write(tmp_path / "1.jsonl", records.alpha(), records.roofline())
    evidence = Evidence.read([path])
    assert evidence.of("alpha")[0].made_on == "cpu, 2 cores, jax 0.10.2"
    assert evidence.of("roofline")[0].made_on == "a device not named"


def test_the_packaged_benchmark_is_evidence():
    found = Evidence.read([ASSETS / "demo_ende"]).of("benchmark")
    assert {one["temperature"] for one in found} == {0.0, 0.5, 1.0}
    assert {one["pair"].split(" + ")[0] for one in found} == {"demo_ende"}
