import errno
import os

import pytest

from specdec_jax.errors import DataError
from specdec_jax.runtime.json_lines import JsonLinesFile


def test_records_come_back_in_order_and_survive_reopening(tmp_path):
    path = tmp_path / "new" / "records.jsonl"
    JsonLinesFile(path).append({"text": "Mädchen\u2028", "n": 1})
    JsonLinesFile(path).append({"n": 2})
    assert list(JsonLinesFile(path)) == [{"text": "Mädchen\u2028", "n": 1}, {"n": 2}]


def test_an_unfinished_last_line_is_dropped_and_later_ones_are_whole(
    tmp_path,
):
    path = tmp_path / "records.jsonl"
    path.write_bytes('{"n": 1}\n{"text": "M\u00e4'.encode()[:-1])
    records = JsonLinesFile(path)
    records.append({"n": 2})
    assert list(records) == [{"n": 1}, {"n": 2}]
    cut = tmp_path / "records.jsonl.cut"  # nothing is lost
    assert cut.read_bytes() == '{"text": "M\u00e4'.encode()[:-1] + b"\n"


def test_a_file_of_something_else_is_named_with_its_line(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text('{"n": 1}\nnot json\n')
    with pytest.raises(DataError, match="notes.txt:2"):
        list(JsonLinesFile(path))


@pytest.mark.parametrize(
    "content",
    [
        b"dear diary",
        b"{{ notes }}",
        b'{"n": 1}\ndear diary',
        b"not json\n{",
        b"\xff\xfe",
    ],
)
def test_a_file_of_something_else_is_refused_and_left_as_it_is(tmp_path, content):
    path = tmp_path / "diary.txt"
    path.write_bytes(content)
    with pytest.raises(DataError, match="diary.txt:[12] is not JSON"):
        JsonLinesFile(path)
    assert path.read_bytes() == content


def test_a_whole_last_line_without_its_newline_is_kept(tmp_path):
    path = tmp_path / "records.jsonl"
    path.write_text('{"n": 1}\n{"n": 2}')
    records = JsonLinesFile(path)
    records.append({"n": 3})
    assert [record["n"] for record in records] == [1, 2, 3]


def test_an_unwritable_place_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file" / "records.jsonl", tmp_path):
        with pytest.raises(DataError, match="cannot write"):
            JsonLinesFile(path)


def test_records_do_not_lie_where_the_operative_config_goes(tmp_path):
    path = tmp_path / "rows.gin"
    path.write_text('{"n": 1}\n')
    with pytest.raises(DataError, match="rows.gin: records end in .jsonl"):
        JsonLinesFile(path)
    assert path.read_text() == '{"n": 1}\n'


def test_a_full_disk_is_named(tmp_path, monkeypatch):
    records = JsonLinesFile(tmp_path / "records.jsonl")

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DataError, match="cannot write to .*records.jsonl: .*No space"):
        records.append({"n": 1})


def test_a_file_that_another_run_appends_to_is_refused_until_it_ends(tmp_path):
    records = JsonLinesFile(tmp_path / "records.jsonl")
    with records.alone():
        records.append({"n": 1})
        with records.path.open("a") as file:
            file.write('{"n": ')  # the other run is in the middle of a line
        with pytest.raises(DataError, match="another run appends to .*records.jsonl"):
            JsonLinesFile(records.path)
        assert records.path.read_text().endswith('{"n": ')
    assert list(JsonLinesFile(records.path)) == [{"n": 1}]
