import gzip
import io

import pytest

from specdec_jax.data.text import read_lines, read_pairs, read_stream
from specdec_jax.errors import DataError


def test_plain_and_gzip_files_give_the_same_lines(tmp_path):
    text = "ein Hund\nzwei\u2028Hunde\n"
    (tmp_path / "a.txt").write_text(text, "utf-8")
    with gzip.open(tmp_path / "a.txt.gz", "wt", encoding="utf-8") as file:
        file.write(text)
    assert read_lines(tmp_path / "a.txt") == ["ein Hund", "zwei\u2028Hunde"]
    assert read_lines(tmp_path / "a.txt.gz") == read_lines(tmp_path / "a.txt")


def test_a_missing_a_broken_and_a_binary_file_are_named(tmp_path):
    (tmp_path / "broken.gz").write_bytes(b"not gzip")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\xfa")
    for name in ("missing", "broken.gz", "binary"):
        with pytest.raises(DataError, match=name):
            read_lines(tmp_path / name)


def test_a_line_that_is_not_utf8_is_named():
    with pytest.raises(DataError, match="line 2 of the stream is not UTF-8"):
        read_stream(io.BytesIO(b"a\n\xff\n"), "the stream")
    assert read_stream(io.BytesIO("ä\r\nb".encode()), "the stream") == ["ä", "b"]


def test_unaligned_files_are_refused(tmp_path):
    (tmp_path / "a").write_text("1\n2\n")
    (tmp_path / "b").write_text("1\n")
    with pytest.raises(DataError, match="2 lines"):
        read_pairs(tmp_path / "a", tmp_path / "b")
