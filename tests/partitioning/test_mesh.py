"""Which mesh is chosen, and what it refuses."""

import pytest
from jax.sharding import AbstractMesh

from specdec_jax.errors import SettingsError
from specdec_jax.experiments import paper
from specdec_jax.models.gpt import GPTConfig
from specdec_jax.models.t5 import T5Config
from specdec_jax.partitioning import topology
from specdec_jax.partitioning.mesh import (
    choose_mesh,
    default_shape,
    default_shard_drafter,
    is_drafter_sharded,
    step_bytes,
    step_messages,
)

SMALL = T5Config(32100, 32128, 512, 6, 64, 1024, 8, 8)
GPT = GPTConfig(8000, 8064, 768, 12, 64, 3072, 12, 128)
XXL = T5Config(32100, 32128, 4096, 64, 64, 10240, 24, 24)


def config():
    raise AssertionError("sizes are asked for only where they matter")


def test_one_device_needs_no_mesh():
    for shape in ("auto", None, (1, 1)):
        assert choose_mesh(shape, config) is None


def test_large_targets_are_cut_and_small_ones_are_not():
    assert default_shape(8, XXL) == (1, 8)
    assert default_shape(8, SMALL) == (8, 1)
    assert default_shape(1, XXL) == (1, 1)
    # 182 us of weights, or a quarter of that and 25 sums; with 37 it would not pay.
    assert default_shape(8, GPT) == (2, 4)


@pytest.mark.parametrize("heads, devices, model", [(60, 8, 4), (64, 6, 2), (7, 8, 1)])
def test_only_what_divides_devices_and_sizes_is_chosen(heads, devices, model):
    odd = T5Config(32100, 32128, 4096, heads, 64, 10240, 24, 24)
    assert default_shape(devices, odd) == (devices // model, model)


def test_a_step_reads_the_weights_that_it_multiplies_with():
    layer = 6 * 512 * 384 + 3 * 512 * 1024  # of cross-attention only query and output
    assert step_bytes(SMALL) == 2 * (8 * layer + 512 * 32128)
    layer = 4 * 768 * 768 + 2 * 768 * 3072
    assert step_bytes(GPT) == 2 * (12 * layer + 768 * 8064)


@pytest.mark.parametrize("shape", ["fast", (2,), (1, 2, 3), (0, 1), (1.5, 1), 8])
def test_what_is_no_mesh_is_refused(shape):
    with pytest.raises(SettingsError, match="mesh must be 'auto' or"):
        choose_mesh(shape, config)


def test_a_mesh_of_more_devices_than_there_are_is_refused():
    with pytest.raises(SettingsError, match="2 x 4 needs 8 devices and there are 1"):
        choose_mesh((2, 4), config)


@pytest.mark.parametrize("shape", [(1, 3), (3, 1), (1, 2)])
def test_devices_that_are_no_grid_of_their_own_make_a_mesh_too(shape):
    """As three chips of a TPU's four."""
    devices = topology.describe("v5e", 4)
    mesh = choose_mesh(shape, config, devices)
    assert dict(mesh.shape) == {"data": shape[0], "model": shape[1]}
    assert list(mesh.devices.flat) == devices[: shape[0] * shape[1]]


def test_a_drafter_is_sharded_where_its_step_is_clearly_faster():
    """Bytes over 1e12 a second, and 5 us a sum."""
    large = paper.t5_1_1("large")
    layer = 6 * 1024 * 1024 + 3 * 1024 * 2816
    weights = 2 * (24 * layer + 1024 * 32128)
    assert step_bytes(large, 8) == weights / 8
    assert step_messages(large, 8) == 3 * 24 + 1
    assert weights / 8 / 1e12 + 73 * 5e-6 < 0.6 * weights / 1e12
    assert default_shard_drafter(large, 8)
    assert default_shard_drafter(paper.t5_1_1("base"), 8)
    # 37 sums take 185 us, of which a quarter of 248 us of weights leaves no gain.
    assert not default_shard_drafter(paper.t5_1_1("base"), 4)


def test_a_small_drafter_is_replicated():
    """8 divides its feed-forward and logits, and not its 6 heads."""
    attention, mlp, logits = 6 * 512 * 384, 3 * 512 * 1024, 512 * 32128
    assert step_bytes(SMALL, 8) == 2 * (8 * (attention + mlp // 8) + logits // 8)
    assert step_messages(SMALL, 8) == 8 + 1
    assert not any(default_shard_drafter(SMALL, model) for model in (1, 2, 4, 8))


def test_on_one_device_nothing_is_sharded():
    assert not any(default_shard_drafter(paper.t5_1_1(size), 1) for size in paper.SIZES)
    assert step_messages(XXL, 1) == 0
    assert not is_drafter_sharded(None, XXL, None)


def test_what_is_given_is_taken():
    mesh = AbstractMesh((1, 8), ("data", "model"))
    large = paper.t5_1_1("large")
    assert is_drafter_sharded(None, large, mesh)
    assert not is_drafter_sharded(False, large, mesh)
    assert is_drafter_sharded(True, SMALL, mesh)
    assert not is_drafter_sharded(None, SMALL, mesh)
    across = AbstractMesh((8, 1), ("data", "model"))
    assert not is_drafter_sharded(None, large, across)
