from pathlib import Path

import pytest

from specdec_jax.experiments import tables
from specdec_jax.experiments.record_set import RecordSet
from specdec_jax.experiments.reproduce.peer_tables import peers
from tests.experiments import found_records as records


def table_of(tmp_path, *found):
    path = records.write(tmp_path / "peers.jsonl", *found)
    (table,) = peers(RecordSet.read([path]))
    return table, tables.markdown(table, Path())


def rows_of(table):
    return {row[0]: row for row in table.cells()[1:]}


def test_a_row_has_the_record_s_numbers(tmp_path):
    ours = records.peer(peer="speculative", over_baseline=1.5, target_calls=40)
    other = records.peer(peer="t5x", over_baseline=0.5, memory=None)
    table, text = table_of(tmp_path, other, ours)
    assert table.title == "a_pair, temperature 0, γ = 4, 20 prompts in 3 rounds"
    rows = rows_of(table)
    assert list(rows) == ["specdec_jax, speculative", "T5X, temperature_sample"]
    row = rows["T5X, temperature_sample"]
    assert row[1:] == ["300", "0.50", "0.40–0.60", "3.00", "100", "1.20", "–", row[-1]]
    assert rows["specdec_jax, speculative"][4:8] == ["1.00", "40", "1.20", "30"]
    assert "a_library 1.2; threads: 2" in text
    assert "scripts/benchmark_peers.py" in text


def test_an_absent_peer_is_a_row_and_a_note(tmp_path):
    gone = records.absent_peer(peer="t5x")
    table, text = table_of(tmp_path, gone, records.peer(peer="speculative"))
    assert rows_of(table)["T5X, temperature_sample"][1] == "absent"
    assert "was absent: No module named 't5x'; install it with `pip install" in text


def test_one_that_was_measured_later_is_not_absent(tmp_path):
    found = [records.absent_peer(peer="t5x"), records.peer(peer="t5x")]
    table, text = table_of(tmp_path, *found)
    assert rows_of(table)["T5X, temperature_sample"][1] == "300"
    assert "absent" not in text


@pytest.mark.parametrize("temperature, shown", [(0.0, "19 of 20"), (1.0, "–")])
def test_other_outputs_are_told(tmp_path, temperature, shown):
    difference = {"prompt": 4, "place": 7, "expected": 3, "found": None}
    agreement = {"equal": 19, "prompts": 20, "differences": [difference]}
    changes = {"agreement": agreement if temperature == 0 else None}
    one = records.peer(peer="t5x", temperature=temperature, **changes)
    table, text = table_of(tmp_path, one)
    assert rows_of(table)["T5X, temperature_sample"][-1].startswith(shown)
    assert ("prompt 4 differs at token 7" in text) == (temperature == 0)


def test_comparisons_of_other_prompts_have_tables_of_their_own(tmp_path):
    few = records.write(
        tmp_path / "mine.jsonl",
        records.peer(peer="speculative", over_baseline=2.0, inputs=3),
        records.absent_peer(peer="t5x", inputs=3),
    )
    many = records.write(
        tmp_path / "theirs.jsonl",
        records.peer(peer="speculative", over_baseline=1.5),
        records.peer(peer="t5x", over_baseline=0.5),
    )
    made = peers(RecordSet.read([few, many]))
    assert [table.title.split(", ")[-1] for table in made] == [
        "3 prompts in 3 rounds",
        "20 prompts in 3 rounds",
    ]
    mine, theirs = (rows_of(table)["T5X, temperature_sample"] for table in made)
    assert mine[1] == "absent" and theirs[4] == "3.00"


def test_each_temperature_has_a_table_and_none_says_how(tmp_path):
    found = [records.peer(temperature=t) for t in (1.0, 0.0)]
    made = peers(RecordSet.read([records.write(tmp_path / "peers.jsonl", *found)]))
    assert [table.title[:21] for table in made] == [
        "a_pair, temperature 0",
        "a_pair, temperature 1",
    ]
    (empty,) = peers(RecordSet.read([]))
    text = tables.markdown(empty, Path())
    assert "No record yet" in text and "scripts/benchmark_peers.py" in text
