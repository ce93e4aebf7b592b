"""Records of before kinds: one small file a kind, as programs wrote them then."""

import json
import re
import shutil
from pathlib import Path

import pytest

from specdec_jax.experiments import legacy
from specdec_jax.experiments.kinds import (
    KINDS,
    Alpha,
    BatchCost,
    Benchmark,
    CompiledRow,
    CompiledStep,
    LogitsError,
    Sweep,
)
from specdec_jax.experiments.record_file import RecordFile
from specdec_jax.experiments.record_set import RecordSet
from specdec_jax.experiments.reproduce import report, sections

OLD = Path(__file__).parent / "old_records"
TITLES = re.compile(r"\[([^]]*)\]\([^)]*\)")  # of links, whose targets differ


@pytest.fixture(scope="module")
def converted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("converted")
    for path in OLD.iterdir():
        legacy.convert(Path(shutil.copy(path, folder)))
    return folder


def reported(folder):
    """All tables of a folder's records."""
    found = RecordSet.read([folder])
    made = [
        report.Section(name, text, make(found))
        for name, (text, make) in sections.TABLES.items()
    ]
    text = "\n".join(report.section_markdown(one, folder) for one in made)
    return TITLES.sub(r"\1", text)


def test_there_are_old_records_of_every_kind_that_there_was():
    kinds = {type(record) for record in RecordSet.read([OLD]).records}
    # A sweep was never written, and there were no steps as they are compiled, nor
    # costs of other batches, nor int8 weights.
    since = {Sweep, CompiledStep, CompiledRow, BatchCost, LogitsError}
    assert kinds == set(KINDS.values()) - since


def test_old_records_and_converted_ones_give_the_same_report(converted):
    assert reported(OLD) == reported(converted)
    assert "demo_ende + prompt_lookup" in reported(converted)


def test_converted_records_are_of_todays_form_and_stay_as_they_are(converted):
    for path in converted.iterdir():
        before = path.read_text("utf-8")
        objects = [json.loads(before)] if "scores" in path.name else []
        objects = objects or [json.loads(line) for line in before.splitlines()]
        for values in objects:
            kind = KINDS[values["kind"]]
            assert kind.from_json(values, path.name).to_json() == values
        legacy.convert(path)
        assert path.read_text("utf-8") == before


def test_no_number_is_lost_but_what_the_kind_says(converted):
    """Every key of the old form has its value under today's name."""
    dropped = {"program", "what", "of", "seed", "sentences_sha256"}
    for name in ("alpha.jsonl", "benchmark.jsonl", "peers.jsonl", "trace.jsonl"):
        old_lines = (OLD / name).read_text("utf-8").splitlines()
        new_lines = (converted / name).read_text("utf-8").splitlines()
        for old, new in zip(old_lines, new_lines, strict=True):
            old, new = json.loads(old), json.loads(new)
            named = legacy.RENAMED | legacy.RENAMED_OF.get(new["kind"], {})
            for key, value in old.items():
                if value is None or (key in dropped and named.get(key, key) not in new):
                    continue
                if isinstance(value, str):
                    value = value.replace("copying", "prompt_lookup")
                assert new[named.get(key, key)] == value, key


def test_quantities_have_the_names_of_today():
    found = RecordSet.read([OLD])
    lossless, lenient = found.of(Benchmark)
    assert lossless.pair == "demo_ende + prompt_lookup"
    assert "drafter=prompt_lookup" in lossless.command
    assert (lossless.lenience, lenient.lenience) == (1.0, 0.5)
    assert lossless.v > 1 and lossless.acceptance_rate > 0
    rejection = [one for one in found.of(Alpha) if one.rejection_alpha is not None]
    assert [(one.lenience, one.drafter) for one in rejection] == [(1.0, "neural")]
    assert rejection[0].command == "python scripts/reproduce.py --what=all"


def test_a_run_goes_on_with_a_file_of_old_records(tmp_path):
    path = tmp_path / "benchmark.jsonl"
    shutil.copy(OLD / "benchmark.jsonl", path)
    file = RecordFile(path)
    first, second = file
    file.append(first)
    assert list(file) == [first, second, first]


def test_what_is_no_record_stays_as_it_is(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"n": 1}\n{"kind": "of another project", "x": "ü"}\n', "utf-8")
    before = path.read_bytes()
    legacy.main([str(path)])
    assert path.read_bytes() == before
    with pytest.raises(SystemExit, match="nowhere"):
        legacy.main([str(tmp_path / "nowhere.jsonl")])
