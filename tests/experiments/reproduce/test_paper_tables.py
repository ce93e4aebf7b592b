"""Exact numbers of the paper's tables, and what records do to them."""

import pytest

from specdec_jax.experiments import paper
from specdec_jax.experiments.record_set import RecordSet
from specdec_jax.experiments.reproduce import (
    alpha_tables,
    lenience_tables,
    oracle_table,
    paper_tables,
)
from specdec_jax.experiments.tables import Kind
from tests.experiments import found_records as records

NOTHING = RecordSet.read([])


def column(table, name, kind):
    """A column's cells as they are written."""
    heads = [(one.name, one.kind) for one in table.columns]
    index = heads.index((name, kind))
    return [row[index] for row in table.cells()[1:]]


@pytest.fixture
def found(tmp_path):
    """A roofline and a benchmark of one of the paper's rows, and a pair's records."""
    line = records.write(
        tmp_path / "ende_small_t0.jsonl",
        records.benchmark(
            pair="big + small",
            gamma=7,
            speedup=3.11,
            alpha=0.74,
            beta_predicted_speedup=3.21,
            best_gamma=6,
        ),
    )
    others = records.write(
        tmp_path / "others.jsonl",
        records.roofline(),
        records.roofline(chips=8, predicted_speedup=4.0),
        records.compiled_row(estimated_speedup=2.5),
        records.compiled_row(chips=8, estimated_speedup=4.5),
        records.benchmark(
            gamma=7, speedup=1.2
        ),  # not the line's: its file has another name
        records.benchmark(),
        records.alpha(rejection_alpha=0.02, rejection_interval=[0.01, 0.03]),
        records.alpha(lenience=0.5, alpha=0.7),
        records.alpha(temperature=0.0, alpha=0.75),
        records.alpha(temperature=0.0, lenience=0.1, alpha=0.87),
        records.alpha(drafter="bigram", alpha=0.2, top_k=40),
        records.scores(),
    )
    return RecordSet.read([line, others])


def test_table_1_is_the_papers():
    (table,) = paper_tables.table_1(NOTHING)
    assert " ".join(column(table, "operations", Kind.COMPUTED)) == (
        "1.53 1.58 1.23 1.63 1.11 1.60"
    )
    assert " ".join(column(table, "speedup", Kind.COMPUTED)) == (
        "1.96 2.53 2.44 3.69 2.71 6.86"
    )
    for name in ("operations", "speedup"):
        assert column(table, name, Kind.PAPER) == column(table, name, Kind.COMPUTED)


def test_table_4_computes_theorem_3_8_and_its_best_gamma():
    table = paper_tables.table_4(NOTHING)[0]
    assert " ".join(column(table, "Exp", Kind.COMPUTED)) == (
        "3.16 3.25 2.50 2.26 2.35 1.93 2.40 2.62 2.02 1.89 1.80 1.54"
    )
    assert " ".join(column(table, "best γ", Kind.COMPUTED)) == (
        "9 9 6 6 6 4 7 7 4 5 4 3"
    )
    assert " ".join(column(table, "Emp", Kind.PAPER)) == (
        "3.4 2.8 1.7 2.6 2.4 1.4 3.1 3.0 2.2 2.3 2.2 1.7"
    )


def test_without_records_there_are_dashes_and_commands():
    for make in (paper_tables.table_2, paper_tables.table_4):
        table = make(NOTHING)[0]
        for one in table.columns:
            if one.kind in (Kind.ROOFLINE, Kind.MEASURED):
                assert set(column(table, one.name, one.kind)) == {"–"}
        told = [(source.text, source.command) for source in table.sources]
        assert [text.partition(" of any row")[0] for text, _ in told] == [
            "No roofline record",
            "No measurement",
        ]
        assert "compile_ahead.py" in told[0][1] and "benchmark.py" in told[1][1]
    for table in (
        paper_tables.table_2(NOTHING)[-1],
        *alpha_tables.table_3(NOTHING),
        *lenience_tables.table_5(NOTHING),
        *alpha_tables.rejection(NOTHING),
    ):
        assert table.sources[0].text == "No record yet"
        for source in table.sources:
            assert source.path is None
    assert len(alpha_tables.table_3(NOTHING)[0].rows) == 16  # the paper's
    assert alpha_tables.rejection(NOTHING)[0].rows == []


def test_a_row_has_its_own_roofline_and_benchmark(found):
    table = paper_tables.table_2(found)[0]
    first, *others = zip(
        column(table, "speedup", Kind.ROOFLINE),
        column(table, "speedup", Kind.COMPILER),
        column(table, "speedup", Kind.MEASURED),
        column(table, "α", Kind.MEASURED),
        strict=True,
    )
    assert first == ("2.97", "2.50", "3.11", "0.74")
    assert set(others) == {("–", "–", "–", "–")}
    texts = [source.text for source in table.sources]
    assert texts[:2] == ["Roofline, one TPU v4", "Measured on cpu, 2 cores, jax 0.10.2"]
    assert "ende_base_t0" in texts[2] and "ende_small_t0" not in texts[2] + texts[3]
    table = paper_tables.table_4(found)[0]
    assert column(table, "c", Kind.ROOFLINE)[0] == "0.03"
    assert column(table, "v", Kind.MEASURED)[0] == "1.20"
    assert column(table, "Exp, by β", Kind.PREDICTED) == ["3.21", *["–"] * 11]


def test_all_rooflines_are_listed(found):
    table = paper_tables.table_4(found)[1]
    assert [row[1] for row in table.rows] == ["v4 × 1", "v4 × 8"]
    assert column(table, "speedup", Kind.PAPER) == ["3.4", "3.4"]


def test_an_int8_target_is_not_taken_for_the_papers(tmp_path):
    int8 = {"quantization": "int8"}
    line = records.write(
        tmp_path / "ende_small_t0.jsonl", records.benchmark(gamma=7, **int8)
    )
    others = records.write(
        tmp_path / "others.jsonl",
        records.roofline(**int8),
        records.compiled_row(**int8),
    )
    found = RecordSet.read([line, others])
    row = next(row for row in paper.ROWS if row.run == "ende_small_t0")
    assert paper_tables.of_row(found, row) == (None, None)
    table = paper_tables.table_2(found)[0]
    for kind in (Kind.ROOFLINE, Kind.COMPILER, Kind.MEASURED):
        assert set(column(table, "speedup", kind)) == {"–"}
    listed = paper_tables.table_4(found)[1]
    assert [row[1] for row in listed.rows] == ["v4 × 1, int8 target"]


def test_speeds_of_the_pairs_at_hand(found):
    table = paper_tables.table_2(found)[1]
    assert [row[:3] for row in table.rows] == [
        ("a_pair", 0.0, 2),
        ("a_pair", 0.0, 7),
        ("big + small", 0.0, 7),
    ]
    # (1 - .8^3) / .2 / (2 * .1 + 1) = 2.44 / 1.2
    assert column(table, "Theorem 3.8, v = 1", Kind.PREDICTED)[0] == "2.03"
    assert column(table, "measured / by β", Kind.KEY)[0] == "0.94"
    assert column(table, "rounds", Kind.MEASURED)[0] == "1.40–1.55"
    # Records that are older do not tell.
    assert column(table, "speedup, by β", Kind.PREDICTED) == ["–", "–", "3.21"]
    assert column(table, "best γ, by β", Kind.PREDICTED) == ["–", "–", "6"]


def test_alphas_of_the_pairs_at_hand_stand_below_the_papers(found):
    table, _, betas = alpha_tables.table_3(found)
    assert betas.rows == []
    heads, *rows = table.cells()
    assert heads[2:] == [
        *("α, T 0 (paper)", "α, T 1 (paper)"),
        *("α, T 0 (measured)", "95% (measured)"),
        *("α, T 1 (measured)", "95% (measured)"),
        *("drafted (measured)", "inputs (measured)", "tokens (measured)"),
    ]
    interval = "0.58–0.64"
    assert rows[5] == ["T5-XXL, EnDe", "T5-small", "0.75", "0.62", *["–"] * 7]
    assert rows[16:] == [
        ["a_pair", "bigram, top-40", *["–"] * 4, "0.20", interval] + ["–", "–", "1000"],
        ["a_pair", "neural", "–", "–", "0.75", interval, "0.61", interval]
        + ["–", "–", "1000"],
    ]


def test_how_beta_varies_stands_below_alpha(tmp_path):
    told = {
        "drafted_share": 0.5,
        "mean_beta": 0.4,
        "beta_by_position": [0.3, 0.5],
        "beta_autocorrelation": [0.2, 0.1, 0.05, None],
        "gammas": [1, 4],
        "tokens_per_target_call": [1.25, 1.5],
        "tokens_per_target_call_iid": [1.3, 1.6],
    }
    path = tmp_path / "alpha.jsonl"
    records.write(path, records.alpha(**told), records.alpha(**told, lenience=0.5))
    table = alpha_tables.table_3(RecordSet.read([path]))[2]
    assert table.cells()[1:] == [
        ["a_pair", "neural", "1", "50%", "0.30", "0.40"]
        + ["0.20", "0.10", "–", "4", "1.50", "1.60"]
    ]
    assert "measure_alpha.py" in table.sources[0].command


def test_alpha_in_the_loop_stands_beside_alpha_without_decoding(tmp_path):
    warm = {"temperature": 1.0}
    path = records.write(
        tmp_path / "records.jsonl",
        records.alpha(),
        records.alpha(lenience=0.5),
        records.benchmark(**warm, gamma=5, alpha=0.6),
        records.benchmark(**warm, gamma=1, alpha=0.65),
        records.benchmark(
            **warm, gamma=2, alpha=0.65, alpha_interval=[0.62, 0.68]
        ),  # .04 apart: less than the root of .03^2 + .03^2
        records.benchmark(
            **warm, gamma=3, alpha=0.65, alpha_interval=[0.63, 0.67]
        ),  # more than that of .03^2 + .02^2
        records.benchmark(**warm, gamma=5, alpha=0.9),  # another of the same: not read
        records.benchmark(**warm, gamma=5, alpha=0.7, lenience=0.5),
        records.benchmark(temperature=0.5),
    )
    table = alpha_tables.table_3(RecordSet.read([path]))[1]
    start = ["a_pair", "neural", "1", "0.610", "0.580–0.640", "–"]
    assert table.cells()[1:] == [
        [*start, "1", "0.650", "–", "–", "no"],
        [*start, "2", "0.650", "0.620–0.680", "–", "yes"],
        [*start, "3", "0.650", "0.630–0.670", "–", "no"],
        [*start, "5", "0.600", "–", "–", "yes"],
    ]
    assert "benchmark.py" in table.sources[0].command


def test_the_oracle_against_the_best_fixed_gamma():
    (table,) = oracle_table.oracle(NOTHING)
    rows = {(row[1], row[2]): row[3:] for row in table.rows}
    # At c = .05, alpha = .8: the oracle 1 / (.2 + .04), the best gamma 8.
    best, speed, tokens, bound, gain = rows[0.8, 0.05]
    assert (best, bound) == (8, pytest.approx(1 / 0.24))
    assert tokens == pytest.approx(5)
    assert speed == pytest.approx((1 - 0.8**9) / 0.2 / 1.4)
    assert gain == pytest.approx(bound / speed - 1)
    assert [rows[0.9, c][0] for c in (0.01, 0.02, 0.05, 0.1)] == [24, 19, 13, 10]


def test_the_oracle_of_a_pair_has_its_best_gamma_and_weights_of_its_own(tmp_path):
    path = records.write(
        tmp_path / "records.jsonl",
        records.benchmark(weights="a", gamma=1, speedup=1.2, alpha=0.7),
        records.benchmark(weights="a", gamma=5, speedup=1.9, alpha=0.8),
        records.benchmark(weights="b", gamma=5, speedup=9.0, alpha=0.9),
    )
    (table,) = oracle_table.oracle(RecordSet.read([path]))
    assert [row[1] for row in table.rows[-2:]] == [0.8, 0.9]


def test_lenience_at_temperature_0_gives_the_papers_speeds():
    table = lenience_tables.table_5(NOTHING)[1]
    printed = column(table, "speedup, T5-small", Kind.PAPER)
    assert printed == ["3.3", "3.3", "3.9", "4.9"]
    assert column(table, "speedup, T5-small", Kind.COMPUTED) == printed


def test_lenience_of_a_pair_stands_beside_the_papers(found, tmp_path):
    """Of all gammas that one stands here which lenience was measured at."""
    warm = {"temperature": 1.0}
    timed = records.write(
        tmp_path / "timed.jsonl",
        records.benchmark(**warm, speedup=1.3, alpha=0.6),
        records.benchmark(**warm, speedup=1.4, gamma=3),
        records.benchmark(**warm, speedup=1.7, alpha=0.72, lenience=0.5),
    )
    found = RecordSet.read([tmp_path / "others.jsonl", timed])
    warm, cold, measured = lenience_tables.table_5(found)
    name = "α, a_pair, neural"
    assert column(warm, name, Kind.MEASURED) == ["0.61", "0.70", "–", "–"]
    assert column(warm, "α, T5-small", Kind.PAPER) == ["0.62", "0.71", "0.76", "0.84"]
    assert column(cold, name, Kind.MEASURED) == ["0.75", "–", "–", "0.87"]
    keys = [row[1:4] for row in measured.rows]
    assert keys == [
        ("neural", 1.0, 1.0),
        ("neural", 1.0, 0.5),
        ("neural", 0.0, 1.0),
        ("neural", 0.0, 0.1),
    ]
    assert column(measured, "BLEU", Kind.MEASURED) == ["–", "31.2", "–", "–"]
    assert column(measured, "tokens per target call", Kind.MEASURED) == [
        "–",
        "3.00",
        "–",
        "–",
    ]
    assert column(measured, "γ", Kind.KEY) == ["2", "2", "2", "–"]
    assert column(measured, "speedup", Kind.MEASURED) == ["1.30", "1.70", "1.50", "–"]
    assert column(measured, "α in the loop", Kind.MEASURED) == [
        *("0.60", "0.72", "0.80", "–"),
    ]


def test_rejection_sampling_stands_beside_speculative(found):
    (table,) = alpha_tables.rejection(found)
    assert table.cells()[1:] == [
        ["a_pair", "neural", "1", "0.61", "0.58–0.64", "0.02", "0.01–0.03"]
        + ["–", "1000"]
    ]


def test_few_inputs_and_few_draft_tokens_are_seen_beside_a_rate(tmp_path):
    path = records.write(
        tmp_path / "records.jsonl",
        records.alpha(inputs=3, drafted_share=0.01, alpha=1.0),
        records.benchmark(inputs=3, drafted_per_target_call=0.02, alpha=1.0),
    )
    found = RecordSet.read([path])
    rates = alpha_tables.table_3(found)[0]
    assert column(rates, "drafted", Kind.MEASURED)[-1] == "1%"
    assert column(rates, "inputs", Kind.MEASURED)[-1] == "3"
    speeds = paper_tables.table_2(found)[1]
    assert column(speeds, "inputs", Kind.KEY) == ["3"]
    assert column(speeds, "drafted per target call", Kind.MEASURED) == ["0.02"]
