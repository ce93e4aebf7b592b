import dataclasses
import io
from pathlib import Path

import pytest
from rich.console import Console

from specdec_jax.experiments import tables
from specdec_jax.experiments.tables import Column, Kind, Source, Table
from tests.experiments import found_records as records

FOLDER = Path("/report")
TABLE = Table(
    "A title",
    (
        Column("name"),
        Column("α", Kind.PAPER),
        Column("95%", Kind.MEASURED),
        Column("γ", format="d"),
    ),
    (("<one>", 0.5, (0.25, 0.75), 7), ("two", None, None, None)),
    notes=("a & b",),
    sources=(
        Source("Measured on a toaster", "make it", Path("/report/records/a.jsonl")),
        Source("No record of c", "make c"),
    ),
)


def test_a_table_in_markdown():
    assert tables.markdown(TABLE, FOLDER) == (
        "**A title**\n"
        "\n"
        "| name     | α (paper) | 95% (measured) | γ |\n"
        "|----------|-----------|----------------|---|\n"
        "| &lt;one> | 0.50      | 0.25–0.75      | 7 |\n"
        "| two      | –         | –              | – |\n"
        "\n"
        "- a & b\n"
        "\n"
        "- Measured on a toaster: [a.jsonl](records/a.jsonl), made by `make it`\n"
        "- No record of c: make one with `make c`\n"
    )


def test_a_table_in_html_names_the_kind_of_each_column():
    text = tables.as_html(TABLE, FOLDER)
    assert '<th class="paper">α (paper)</th>' in text
    assert '<td class="measured">0.25–0.75</td>' in text
    assert '<td class="key">&lt;one&gt;</td>' in text
    assert "<li>a &amp; b</li>" in text
    assert '<a href="records/a.jsonl">a.jsonl</a>, made by <code>make it' in text


def test_a_table_without_rows_says_so():
    empty = Table("Empty", TABLE.columns, (), sources=TABLE.sources[1:])
    assert tables.markdown(empty, FOLDER) == (
        "**Empty**\n\nNo record yet.\n\n- No record of c: make one with `make c`\n"
    )
    assert '<td colspan="4">No record yet.</td>' in tables.as_html(empty, FOLDER)


def test_a_row_must_have_a_cell_for_each_column():
    with pytest.raises(ValueError, match="A title"):
        Table("A title", TABLE.columns, (("one", 0.5),))


def test_files_outside_of_the_report_are_linked_too():
    assert tables.link(Path("/records/a.jsonl"), FOLDER) == "../records/a.jsonl"


def test_one_source_for_each_file_and_device():
    other = {"device": {"platform": "gpu", "kind": "H200"}}
    found = [
        records.alpha(path=Path("a.jsonl")),
        records.alpha(path=Path("a.jsonl"), alpha=0.3),
        records.alpha(path=Path("a.jsonl"), **other),
    ]
    assert Source.from_records(found, "make") == [
        Source("Measured on cpu, 2 cores, jax 0.10.2", "make", Path("a.jsonl")),
        Source("Measured on H200, jax 0.10.2", "make", Path("a.jsonl")),
    ]
    (own,) = Source.from_records([records.alpha(command="make this")], "make")
    assert own.command == "make this"
    assert Source.from_records([], "make") == [Source("No record yet", "make")]


def test_signs_of_markdown_in_a_cell_are_only_text():
    columns = (Column("pair"), Column("M_q"))
    table = Table("a|b", columns, [("a|b <x> & `c`\n d", "bigram")])
    *_, head, rule, row = tables.markdown(table, FOLDER).rstrip().splitlines()
    assert row.rstrip() == r"| a\|b &lt;x> &amp; \`c\` d | bigram |"
    assert len(head) == len(rule) == len(row)


def test_a_notebook_shows_a_table_as_markdown(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert TABLE._repr_markdown_() == tables.markdown(TABLE, Path())


def test_a_long_table_is_folded_with_its_commands():
    rows = TABLE.rows * tables.FOLDED_ROWS
    long = dataclasses.replace(TABLE, title="<long>", rows=rows)
    summary = f"<summary><b>&lt;long&gt;</b> ({len(rows)} rows)</summary>"
    for text in (tables.markdown(long, FOLDER), tables.as_html(long, FOLDER)):
        start, inside = text.split(summary)
        assert start == "<details>\n"
        assert inside.endswith("</details>\n") and "make it" in inside
    # Markdown inside of HTML is read as Markdown after an empty line.
    assert f"{summary}\n\n| name" in tables.markdown(long, FOLDER)
    assert "details" not in tables.markdown(TABLE, FOLDER)


def test_a_console_prints_all_cells_notes_and_sources():
    console = Console(file=io.StringIO(), width=60)
    bracket = dataclasses.replace(TABLE, notes=("install it with '.[t5x]'",))
    console.print(bracket)
    printed = console.file.getvalue()
    for text in ("A title", "α (paper)", "<one>", "0.25–0.75", "[t5x]", "make c"):
        assert text in printed


def test_a_field_without_a_value_is_an_empty_cell():
    columns = {"c": Column("c", format=".1f"), "best_gamma": Column("γ", format="d")}
    found = [records.benchmark(c=1.0, best_gamma=2), records.benchmark(c=3.0)]
    table = Table.from_records("title", columns, found)
    assert table.cells()[1:] == [["1.0", "2"], ["3.0", "–"]]


def test_many_commands_are_folded_below_the_table():
    many = dataclasses.replace(TABLE, sources=TABLE.sources * 2)
    for text in (tables.markdown(many, FOLDER), tables.as_html(many, FOLDER)):
        table, commands = text.split("<summary>4 files and commands</summary>")
        assert "0.25–0.75" in table and "make it" not in table
        assert commands.count("make it") == 2
