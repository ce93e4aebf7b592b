"""A step's floor, against numbers worked out by hand."""

import dataclasses

import jax
import pytest
from jax.sharding import AbstractMesh

from specdec_jax.experiments import paper
from specdec_jax.partitioning import roofline
from specdec_jax.partitioning.description import Decode
from specdec_jax.partitioning.loops import Partition
from specdec_jax.partitioning.mesh import SECONDS_PER_SUM
from specdec_jax.partitioning.topology import CHIPS

XXL, SMALL = paper.t5_1_1("xxl"), paper.t5_1_1("small")
NORMS = 2 * (3 * 24 + 1) * 4096 + 2 * 64 * 32  # and the relative bias


def decode(mesh=None, **changes):
    sizes = {"gamma": 7, "max_new_tokens": 256, "source": 512, "mesh": None} | changes
    made = Decode(XXL, SMALL, devices=jax.devices()[:1], **sizes)
    if mesh is not None:
        made.__dict__["partition"] = Partition(AbstractMesh(mesh, ("data", "model")))
    return made


def test_a_step_of_t5_xxl_reads_its_decoder_and_its_caches_once():
    cost = roofline.step_cost(decode(), "target step")
    products = 24 * (6 * 4096 * 4096 + 3 * 4096 * 10240) + 4096 * 32128
    assert cost.weight_bytes == 2 * products + NORMS
    slots = 1 + 256 + 7 + 1
    # The baseline has no spare slots for guesses.
    assert cost.cache_bytes == 2 * 24 * 2 * 4096 * (slots - 7 + 512)
    attention = 2 * cost.cache_bytes / 2  # two operations for each two bytes
    assert cost.flops == pytest.approx(2 * products + attention, rel=1e-3)
    assert (cost.sent_bytes, cost.messages) == (0, 0)
    assert cost.seconds(CHIPS["v4"]) == pytest.approx(cost.bytes / 1.23e12)
    assert cost.seconds(CHIPS["v4"]) == pytest.approx(9.3e-3, rel=0.02)


def test_a_verify_step_reads_the_same_and_computes_more():
    one = roofline.step_cost(decode(), "target step")
    eight = roofline.step_cost(decode(), "verify step")
    assert eight.weight_bytes == one.weight_bytes
    assert eight.flops == pytest.approx(8 * one.flops, rel=0.01)
    chip = CHIPS["v4"]
    assert 1 <= eight.seconds(chip) / one.seconds(chip) < 1.01
    many = roofline.step_cost(
        decode(batch=64, source=8, max_new_tokens=8), "verify step"
    )
    assert many.seconds(chip) == pytest.approx(many.flops / chip.flops)


def test_a_cut_target_reads_its_part_and_sends_its_sums():
    whole = roofline.step_cost(decode(), "verify step")
    eighth = roofline.step_cost(decode((1, 8)), "verify step")
    assert eighth.cache_bytes == whole.cache_bytes / 8
    assert eighth.weight_bytes == pytest.approx(whole.weight_bytes / 8, rel=1e-3)
    assert eighth.messages == 3 * 24 + 1
    sums = 72 * 2 * (8 * 2 * 4096) * 7 / 8
    assert eighth.sent_bytes == pytest.approx(sums + 8 * 4 * 32128 * 7 / 8)
    draft = roofline.step_cost(decode((1, 8)), "draft step")
    assert draft.messages == 0
    assert draft.weight_bytes == roofline.step_cost(decode(), "draft step").weight_bytes
    free = dataclasses.replace(eighth, sent_bytes=0, messages=0)
    chip = CHIPS["v5e"]
    more = eighth.seconds(chip) - free.seconds(chip)
    assert more == pytest.approx(eighth.sent_bytes / 200e9 + 73 * SECONDS_PER_SUM)


def test_an_int8_target_reads_a_byte_a_weight_and_a_float_a_column():
    int8 = {"target_quantization": "int8"}
    one = roofline.step_cost(decode(**int8), "target step")
    products = 24 * (6 * 4096 * 4096 + 3 * 4096 * 10240) + 4096 * 32128
    columns = 24 * (6 * 4096 + 2 * 10240 + 4096) + 32128
    assert one.weight_bytes == products + 4 * columns + NORMS
    whole = roofline.step_cost(decode(), "target step")
    assert one.cache_bytes == whole.cache_bytes
    assert one.flops == pytest.approx(whole.flops, rel=1e-3)
    # What is summed over devices is float32, and is scaled after it.
    eighth = roofline.step_cost(decode((1, 8), **int8), "verify step")
    sums = 72 * 2 * (8 * 4 * 4096) * 7 / 8
    assert eighth.sent_bytes == pytest.approx(sums + 8 * 4 * 32128 * 7 / 8)
    draft, alone = (
        roofline.step_cost(d, "draft step") for d in (decode(**int8), decode())
    )
    assert draft == alone


def test_t5_xxl_of_int8_weights_fits_a_v5e_and_bfloat16_does_not():
    held = [
        roofline.weight_bytes(decode(target_quantization=one)) for one in (None, "int8")
    ]
    assert held[0] > CHIPS["v5e"].memory > 13e9 > held[1]


def test_chips_share_out_the_rows_of_a_replicated_drafter():
    """If they divide the batch; its weights each reads whole."""
    alone = roofline.step_cost(decode(), "draft step")
    eight = roofline.step_cost(decode((1, 8), batch=8), "draft step")
    assert eight == alone
    few = roofline.step_cost(decode((1, 8), batch=4), "draft step")
    assert few.cache_bytes == 4 * alone.cache_bytes
    assert few.flops == 4 * alone.flops
    # On (2, 4) 16 rows are two a chip, and 4 are two on each of the four along model.
    for batch in (16, 4):
        cost = roofline.step_cost(decode((2, 4), batch=batch), "draft step")
        assert (cost.cache_bytes, cost.flops, cost.messages) == (
            2 * alone.cache_bytes,
            2 * alone.flops,
            0,
        )


def test_logits_of_many_rows_are_exchanged_and_not_gathered():
    cost = roofline.step_cost(decode((1, 8), batch=8), "target step")
    sums = 72 * 2 * (8 * 2 * 4096) * 7 / 8
    assert cost.sent_bytes == sums + 4 * 32128 * 7 / 8
    assert cost.messages == 3 * 24 + 1


def test_a_partly_sharded_drafter_sums_what_is_sharded():
    """8 divides a T5-small's feed-forward and logits, and not its 6 heads."""
    alone = roofline.step_cost(decode(), "draft step")
    one = roofline.step_cost(decode((1, 8), shard_drafter=True), "draft step")
    assert one.messages == 8 + 1
    assert one.sent_bytes == 8 * 2 * (2 * 512) * 7 / 8 + 4 * 32128 * 7 / 8
    split = 2 * (8 * 3 * 512 * 1024 + 512 * 32128) * 7 / 8
    assert alone.weight_bytes - one.weight_bytes == split
    assert one.cache_bytes == alone.cache_bytes
    # With a row a chip the rows come back to all before each feed-forward.
    eight = roofline.step_cost(
        decode((1, 8), shard_drafter=True, batch=8), "draft step"
    )
    assert eight.messages == 8 * 2 + 1
    assert eight.sent_bytes == 8 * 3 * (8 * 2 * 512) * 7 / 8 + 4 * 32128 * 7 / 8
    assert eight.cache_bytes == alone.cache_bytes


def test_more_tokens_are_more_products_and_no_more_reading():
    eight = roofline.step_cost(decode((1, 8)), "verify step")
    four = eight.scaled(4, 8)
    assert (four.flops, four.sent_bytes) == (eight.flops / 2, eight.sent_bytes / 2)
    assert (four.bytes, four.messages) == (eight.bytes, eight.messages)


def test_the_papers_drafters_cost_what_their_bytes_say():
    c = {}
    for size in ("small", "base", "large"):
        made = dataclasses.replace(decode(), drafter=paper.t5_1_1(size))
        base = roofline.step_cost(made, "target step").seconds(CHIPS["v4"])
        c[size] = roofline.step_cost(made, "draft step").seconds(CHIPS["v4"]) / base
    assert c["small"] < c["base"] < c["large"]
    for size, printed in (("small", 0.02), ("base", 0.04), ("large", 0.11)):
        assert printed / 3 < c[size] < printed  # a floor


def test_the_largest_batch_fills_memory_and_no_more():
    made, chip = decode(), CHIPS["v4"]
    compiled = 11_900_000_000  # of the loop; 10.6 GB more are the encoders'
    rows = roofline.largest_batch(made, chip, compiled)
    held = roofline.resident_bytes(made, compiled)
    assert held == pytest.approx(compiled + 10.9e9, rel=0.02)
    left = chip.memory - roofline.weight_bytes(made)
    assert 1 < rows <= left / roofline.bytes_a_row(made)
    small = dataclasses.replace(chip, memory=1e9)
    assert roofline.largest_batch(made, small, compiled) == 0


@pytest.mark.parametrize("tied", [True, False])
def test_only_what_a_step_multiplies_with_counts(tied):
    def is_read(name):
        return roofline.is_read_in_a_step(name, tied)

    assert is_read("token_embedder/embedding") == tied
    assert is_read("decoder/logits_dense/kernel")
    attention = "decoder/layers_3/encoder_decoder_attention"
    assert is_read(f"{attention}/query/kernel")
    assert not is_read(f"{attention}/key_and_value/kernel")
    assert not is_read("encoder/layers_0/mlp/wo/kernel")
