"""On any mesh of eight devices the output and the records are those of one device."""

import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.partitioning import eight_devices

ROOT = Path(__file__).parent.parent.parent
MESHES = ["1x8", "2x4", "4x2", "8x1", "2x4, drafter cut"]
G, LAYERS, PADDED = eight_devices.G, eight_devices.LAYERS, eight_devices.PADDED


@pytest.fixture(scope="module")
def decodes(pair_folder, tmp_path_factory):
    out = tmp_path_factory.mktemp("decodes") / "out.pickle"
    command = [sys.executable, "-m", eight_devices.__name__, pair_folder, out]
    subprocess.run(command, check=True, cwd=ROOT)
    with out.open("rb") as file:
        return pickle.load(file)


@pytest.mark.parametrize("mesh", MESHES)
def test_tokens_lengths_and_records_are_those_of_one_device(decodes, mesh):
    """Five rows, so that the axis `data` never divides them."""
    assert_same(decodes[mesh]["result"], decodes["one device"]["result"])


def assert_same(ours, one):
    np.testing.assert_array_equal(ours.tokens, one.tokens)
    np.testing.assert_array_equal(ours.lengths, one.lengths)
    assert ours.num_steps == one.num_steps
    for name in ("drafted", "gamma", "num_accepted", "next_token", "num_emitted"):
        np.testing.assert_array_equal(
            getattr(ours.infos, name), getattr(one.infos, name), err_msg=name
        )
    np.testing.assert_allclose(ours.infos.betas, one.infos.betas, atol=1e-5)


def test_the_rows_are_unlike_and_guesses_stand_and_fall(decodes):
    one = decodes["one device"]["result"]
    assert len({tuple(row) for row in one.tokens.tolist()}) == len(one.tokens)
    assert set(one.lengths.tolist()) >= {7, 12}
    accepted = one.infos.num_accepted
    assert accepted.max() >= 2 and (accepted < one.infos.gamma).any()


def test_gpts_with_prompts_of_unlike_lengths_decode_the_same_on_a_mesh(decodes):
    one = decodes["GPTs"]["result"]
    assert len({tuple(row) for row in one.tokens.tolist()}) == len(one.tokens)
    assert one.infos.num_accepted.max() >= 1
    assert_same(decodes["GPTs, 2x4"]["result"], one)
    sums = {
        shape
        for kind, arrays, in_loop in decodes["GPTs, 2x4"]["run"]
        for _, shape in arrays
        if in_loop and kind == "all-reduce" and len(shape) > 1
    }
    # Dealt out over `data`, five rows are six, three on each.
    assert sums == {(3 * (G + 1), 32)}


def test_a_cut_target_sums_after_each_product_by_rows_and_gathers_logits(decodes):
    """A target run moves nothing else, and the whole drafter nothing at all."""
    batch = eight_devices.BATCH
    run = decodes["1x8"]["run"]
    assert all(in_loop for *_, in_loop in run)
    sums = [("all-reduce", [("f32", (batch * (G + 1), 32))])] * (3 * LAYERS)
    gathered = [("all-gather", [("f32", (batch, G + 1, PADDED))])]
    assert sorted(move[:2] for move in run) == sorted(sums + gathered)


def test_encoding_sums_after_each_product_by_rows(decodes):
    shape = (eight_devices.BATCH * 8, 32)
    expected = [("all-reduce", [("f32", shape)])] * 2
    assert [move[:2] for move in decodes["1x8"]["begin"]] == expected


@pytest.mark.parametrize("mesh", ["2x4", "4x2", "8x1", "2x4, drafter cut"])
def test_no_weights_and_no_caches_are_moved(decodes, mesh):
    """Rows on other devices are asked only whether, and how far, they go on."""
    for program in ("begin", "run"):
        for kind, arrays, _ in decodes[mesh][program]:
            assert kind in ("all-reduce", "all-gather", "all-to-all")
            if kind != "all-reduce":
                for _, (*_, last) in arrays:
                    # Logits, also in parts; activations; or a block of tokens.
                    assert last in (PADDED, 16, 32) or last <= G + 1
            else:
                for _, shape in arrays:
                    assert shape == () or shape[-1] in (16, 32)  # activations
    in_loop = [arrays for _, arrays, in_loop in decodes["8x1"]["run"] if in_loop]
    assert in_loop and all(shape == () for arrays in in_loop for _, shape in arrays)


def test_caches_are_cut_by_rows_and_heads(decodes):
    target, drafter = decodes["2x4"]["caches"]
    assert all(tuple(spec) == ("data", "model") for spec in target)
    keys_values = [spec for spec in drafter if len(spec) > 1]
    assert not keys_values  # the drafter's are whole along `model`
    target, drafter = decodes["8x1"]["caches"]
    assert all(spec[0] == "data" for spec in target + drafter)


def test_a_pair_is_loaded_onto_a_mesh_and_generates_the_same(decodes):
    ours, one = decodes["loaded, 2x2"], decodes["loaded"]
    assert ours["texts"] == one["texts"]
    np.testing.assert_array_equal(ours["tokens"], one["tokens"])
    for name in ("tokens", "target_calls"):
        np.testing.assert_array_equal(
            getattr(ours["stats"], name), getattr(one["stats"], name)
        )


def test_of_what_is_cut_a_device_reads_its_own_part_alone(decodes):
    read = decodes["loaded, 2x2"]["read"]
    assert read[32, 56] == {(32, 28)}  # the target's logits
    assert read[32, 48] == {(32, 24)}  # and its self-attention, packed
    assert read[64, 32] == {(32, 32)}  # and out of its feed-forward
    assert read[16, 56] == {(16, 56)}  # the drafter's logits are whole
    assert decodes["loaded"]["read"][32, 56] == {(32, 56)}


def test_gamma_is_chosen_by_what_each_device_holds(decodes):
    """On two devices along `model` the tiny target's sums outweigh its reading."""
    ours, one = decodes["loaded, 2x2"], decodes["loaded"]
    assert ours["is_sharded"] == [True, False] and one["is_sharded"] == [False, False]
    assert 0 <= one["auto"] <= ours["auto"] <= 5


@pytest.mark.parametrize("mesh", [None, (1, 8), (2, 4), (4, 2)])
def test_an_int8_target_is_the_same_on_any_mesh(decodes, mesh):
    """To the bit, also where the rows of a column are on several devices."""
    ours = decodes[f"int8, {mesh}"]
    assert set(ours["found"]) == set(ours["expected"])
    for name, leaf in ours["found"].items():
        assert leaf.dtype == ours["expected"][name].dtype
        np.testing.assert_array_equal(leaf, ours["expected"][name], err_msg=name)
    np.testing.assert_array_equal(ours["tokens"], decodes["int8, None"]["tokens"])


def test_scales_lie_with_their_columns(decodes):
    specs, mlp = decodes["int8, (4, 2)"]["specs"], "decoder/layers_0/mlp"
    assert tuple(specs[f"{mlp}/wi_0_and_wi_1/kernel"]) == (None, "model")
    assert tuple(specs[f"{mlp}/wi_0_and_wi_1/scale"]) == ("model",)
    assert tuple(specs[f"{mlp}/wo/kernel"]) == ("model", None)
    assert tuple(specs[f"{mlp}/wo/scale"]) == (None,)
