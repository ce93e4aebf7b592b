import json
import os
import sys
from importlib import metadata

import numpy as np
import pytest

from specdec_jax.errors import DataError
from specdec_jax.runtime.records import (
    PACKAGES,
    Count,
    Interval,
    NonNegative,
    Object,
    Positive,
    Rate,
    Record,
    Text,
    Values,
    environment,
    identity,
    stored,
)


@stored
class Fruit(Record):
    """A kind with a field of each type."""

    kind = "fruit"

    name: Text = identity()
    share: Rate
    number: Count
    weight: Positive = 1.0
    age: NonNegative | None = None
    spread: Interval | None = None
    seeds: Values | None = None
    config: Object | None = identity(default=None)


APPLE = {"kind": "fruit", "name": "apple", "share": 0.5, "number": 2, "weight": 1.0}


def read(**changes):
    return Fruit.from_json(APPLE | changes, "a.jsonl:3")


def test_a_record_comes_back_as_it_was_written():
    record = Fruit(
        name="apple",
        share=0.25,
        number=3,
        spread=(0.5, 1.5),
        config={"n": (1, 2)},
        **environment(),
    )
    values = json.loads(json.dumps(record.to_json()))
    assert values["kind"] == "fruit" and values["spread"] == [0.5, 1.5]
    again = Fruit.from_json(values, "a.jsonl:1")
    assert again.to_json() == values
    assert again.device == record.device and again.versions == record.versions


def test_what_has_no_value_is_not_written():
    record = Fruit(name="apple", share=0.5, number=2)
    assert set(record.to_json()) == {*APPLE, "versions", "device"}
    assert read(age=None) == read()


def test_the_fields_of_a_run_are_declared():
    assert Fruit.identity_names() == ["name", "config"]


def test_a_record_that_is_read_knows_its_file(tmp_path):
    record = Fruit.from_json(APPLE, "a.jsonl:3", tmp_path)
    assert record.path == tmp_path and "path" not in record.to_json()
    assert record == read()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": ["apple"]}, "name must be a string, not ."),
        ({"share": None}, "share must be a rate from 0 to 1, not null"),
        ({"share": 1.5}, "share must be a rate from 0 to 1, not 1.5"),
        ({"share": float("nan")}, "share must be a rate from 0 to 1, not NaN"),
        ({"share": "0.5"}, 'share must be a rate from 0 to 1, not "0.5"'),
        ({"number": 2.5}, "number must be an integer from 0 on, not 2.5"),
        ({"number": True}, "number must be an integer from 0 on, not true"),
        ({"number": 10**400}, "number must be an integer from 0 on"),
        ({"number": -1}, "number must be an integer from 0 on, not -1"),
        ({"weight": 0}, "weight must be a number above 0, not 0"),
        ({"age": -0.1}, "age must be a number from 0 on, not -0.1"),
        ({"spread": [3.0]}, "spread must be a pair of numbers from 0 on"),
        ({"spread": [1, "2"]}, "spread must be a pair of numbers from 0 on"),
        ({"seeds": []}, "seeds must be a list that is not empty"),
        ({"config": 1}, "config must be a JSON object, not 1"),
        ({"device": None}, "device must be an object"),
    ],
)
def test_a_value_that_no_writer_has_is_named_with_its_place(change, words):
    with pytest.raises(DataError, match=f"a.jsonl:3: {words}"):
        read(**change)


def test_what_is_lacking_is_named():
    with pytest.raises(DataError, match="a.jsonl:3: the fruit lacks name, number"):
        Fruit.from_json({"kind": "fruit", "share": 0.5}, "a.jsonl:3")


def test_a_record_tells_what_it_was_made_on():
    device = {"platform": "cpu", "kind": "cpu", "count": 1, "cpu_cores": 2}
    record = read(device=device, versions={"jax": "0.10.2"})
    assert record.made_on == "cpu, 2 cores, jax 0.10.2"
    assert read().made_on == "a device not named"


def test_numbers_of_arrays_are_refused_when_written():
    """They are for the writer to make plain; nothing is rounded in silence."""
    with pytest.raises(TypeError):
        Fruit(name="apple", share=np.float32(0.5), number=1).to_json()


def test_the_environment_names_versions_and_device():
    found = environment()
    assert set(found["versions"]) >= {"python", "jax", "specdec_jax"}
    assert found["device"]["platform"] == "cpu"
    assert found["device"]["cpu_cores"] == os.cpu_count()


def test_the_environment_names_libtpu_where_it_is_installed(monkeypatch):
    installed = {name: "1.2" for name in PACKAGES}

    def version(name):
        if name not in installed:
            raise metadata.PackageNotFoundError(name)
        return installed[name]

    monkeypatch.setattr(metadata, "version", version)
    assert environment()["versions"]["libtpu"] == "1.2"
    del installed["libtpu"]
    assert "libtpu" not in environment()["versions"]


@pytest.mark.parametrize(
    ("given", "command"),
    [
        (
            ["scripts/train.py", "--gin.RUN=a b"],
            "python scripts/train.py '--gin.RUN=a b'",
        ),
        (["/home/me/scripts/x.py", "--out=a", "--n=1"], "python scripts/x.py --n=1"),
        (["scripts/x.py", "--out", "a", "--outer=1"], "python scripts/x.py --outer=1"),
        (["scripts/x.py", "-out=a\nb"], "python scripts/x.py"),
        (["/bin/pytest", "-q"], None),
        (["-c"], None),
    ],
)
def test_the_command_is_told_but_for_where_it_writes(given, command, monkeypatch):
    monkeypatch.setattr(sys, "argv", given)
    assert environment()["command"] == command
