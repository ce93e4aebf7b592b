"""Gains by batch and their notes, against numbers worked out by hand."""

import dataclasses

import pytest

from specdec_jax.decoding.settings import DecodeSettings
from specdec_jax.experiments import paper
from specdec_jax.experiments.aot import batches, report
from specdec_jax.experiments.aot.run import AOTRun
from specdec_jax.experiments.kinds import KINDS, BatchCost
from specdec_jax.partitioning import roofline, topology
from specdec_jax.partitioning.topology import CHIPS

LARGE = AOTRun(
    target=paper.t5_1_1("xxl"),
    drafter=paper.t5_1_1("large"),
    settings=DecodeSettings(gamma=7, max_new_tokens=256, temperature=0.0),
)


def test_the_best_gamma_is_not_the_runs():
    """1 + .5 + .25 tokens over .2 + 1.6, and 1.5 over .1 + 1.2."""
    found = batches.gains(0.5, 0.1, [1.0, 1.2, 1.6], gamma=2)
    assert found["speedup"] == pytest.approx(1.75 / 1.8)
    assert found["best_gamma"] == 1
    assert found["best_speedup"] == pytest.approx(1.5 / 1.3)
    assert (found["c"], found["v"]) == (0.1, 1.6)


def test_where_no_gamma_wins_the_best_is_0():
    """1.5 over .6 + 1.2 is a loss, and so is 1.75 over 1.2 + 1.6."""
    found = batches.gains(0.5, 0.6, [1.0, 1.2, 1.6], gamma=2)
    assert (found["best_gamma"], found["best_speedup"]) == (0, 1.0)
    assert found["speedup"] == pytest.approx(1.75 / 2.8)


def test_a_large_drafter_must_be_sharded_on_eight_chips():
    decode = LARGE.decode(topology.describe("v5e", 8))
    assert decode.is_drafter_sharded
    chip = CHIPS["v5e"]
    found = list(batches.batch_costs(decode, chip, 0.82, (1, 256)))
    whole, split, many_whole, many_split = found
    assert (whole["speedup"] < 1) and (whole["is_used"], whole["is_better"]) == (0, 0)
    assert (split["is_used"], split["is_better"]) == (True, True)
    assert split["speedup"] == pytest.approx(1.66, abs=0.01)
    assert (split["c"], split["v"]) == pytest.approx(roofline.model_costs(decode, chip))
    # 1.5 GB of the drafter are on each chip whole, and an eighth of them if sharded.
    assert whole["resident"] - split["resident"] > 1e9
    assert whole["fits"] and not many_whole["fits"] and many_split["fits"]
    # A row's keys and values: a slot of either model has 2 * 24 * (4096 + 1024) numbers
    # of 2 bytes, and an eighth is on a chip.
    target, drafter = (2 * 24 * 2 * width * (265 + 512) / 8 for width in (4096, 1024))
    assert many_split["bytes_a_row"] == pytest.approx(target + drafter, rel=0.01)
    # At 256 rows a replicated drafter's keys and values are shared out too.
    assert many_whole["bytes_a_row"] == pytest.approx(target + drafter, rel=0.01)
    assert whole["bytes_a_row"] == pytest.approx(target + 8 * drafter, rel=0.01)


def test_a_run_may_say_where_its_drafter_is():
    devices = topology.describe("v5e", 8)
    for given in (False, True):
        run = dataclasses.replace(LARGE, shard_drafter=given)
        assert run.decode(devices).is_drafter_sharded == given


def test_one_chip_has_no_choice():
    decode = LARGE.decode(topology.describe("v4", 1))
    (found,) = batches.batch_costs(decode, CHIPS["v4"], 0.82, (1,))
    assert not found["shard_drafter"] and found["is_used"] and found["is_better"]


def test_alpha_is_that_of_the_nearest_row():
    def alpha(**changes):
        settings = dataclasses.replace(LARGE.settings, **changes)
        return dataclasses.replace(LARGE, settings=settings).papers_alpha

    assert alpha() == alpha(gamma=5) == 0.82
    assert alpha(gamma=3) == 0.74  # CNNDM's
    assert alpha(gamma=3, temperature=1.0) == 0.71


def record(**changes):
    values = {
        "topology": "v5e",
        "chips": 8,
        "mesh": {"data": 1, "model": 8},
        "gamma": 7,
        "batch": 32,
        "shard_drafter": False,
        "is_used": True,
        "is_better": True,
        "alpha": 0.75,
        "c": 0.05,
        "v": 1.3,
        "speedup": 2.2,
        "best_gamma": 5,
        "best_speedup": 2.3,
        "bytes_a_row": 39_400_000,
        "resident": 4_430_000_000,
        "fits": True,
    }
    return BatchCost(**values | changes)


def test_the_report_says_where_not_to_speculate():
    gains = [
        record(),
        record(shard_drafter=True, is_used=False, is_better=False),
        record(batch=128, speedup=0.9, best_gamma=2, best_speedup=1.2),
        record(batch=256, speedup=0.5, best_gamma=0, best_speedup=1.0, fits=False),
    ]
    table = report.batch_table(gains)
    assert [row[1] for row in table.rows][:2] == ["replicated (better)", "sharded"]
    assert table.rows[3][-1] == "4.43 GB, too much"
    assert table.notes[1:] == [
        "In this run the drafter is replicated.",
        "Batch 128, drafter replicated: the baseline is faster than γ = 7; take γ = 2.",
        "Batch 256, drafter replicated: best γ 0: the baseline is faster. Do not "
        "speculate.",
    ]


def test_a_record_is_read_as_it_was_written():
    values = record().to_json()
    assert KINDS["aot_batch"].from_json(values, "here") == record()
