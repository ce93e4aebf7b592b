"""Every array of a T5 has a place on a mesh, and one that fits."""

import dataclasses

import jax
import pytest
from jax.sharding import AbstractMesh, PartitionSpec

from specdec_jax.axes import constrain, constrained_by
from specdec_jax.errors import SettingsError
from specdec_jax.models.gpt import GPTConfig
from specdec_jax.models.packing import packed_parts, packed_shape
from specdec_jax.models.parameters import parameter_shapes
from specdec_jax.models.t5 import T5Config
from specdec_jax.partitioning.sharding import layout_of

V1_1 = T5Config(60, 64, 32, 8, 4, 64, 1, 1)
V1_0 = dataclasses.replace(
    V1_1,
    mlp_activations=("relu",),
    logits_via_embedding=True,
    shared_relative_bias=False,
)
GPT = GPTConfig(60, 64, 32, 8, 4, 64, 1, 48)
MESH = AbstractMesh((2, 4), ("data", "model"))
ATTENTION = "decoder/layers_0/encoder_decoder_attention"
MLP = "encoder/layers_0/mlp"


def specs(config, sharded=True):
    """The spec of every parameter, packed and not."""
    layout = layout_of(config, MESH, sharded)
    shapes = parameter_shapes(config)
    packed = {
        name: packed_shape(shapes[parts[0]], len(parts))
        for name, parts in packed_parts(config, shapes).items()
        if len(parts) > 1
    }
    shapes |= packed
    return {n: layout.parameter(n, shape).spec for n, shape in shapes.items()}


@pytest.mark.parametrize("config", [V1_1, V1_0])
def test_products_are_cut_by_columns_and_then_by_rows(config):
    found = specs(config)
    columns, rows = PartitionSpec(None, "model"), PartitionSpec("model", None)
    for name in ("query", "key", "value"):
        assert found[f"{ATTENTION}/{name}/kernel"] == columns
    assert found[f"{ATTENTION}/key_and_value/kernel"] == columns
    assert found[f"{ATTENTION}/out/kernel"] == rows
    assert found[f"{MLP}/wo/kernel"] == rows
    assert found["decoder/decoder_norm/scale"] == PartitionSpec(None)
    table = found["token_embedder/embedding"]
    if config is V1_1:
        assert found[f"{MLP}/wi_0_and_wi_1/kernel"] == columns
        assert found["decoder/logits_dense/kernel"] == columns
        assert found["decoder/relpos_bias/rel_embedding"] == rows
        assert table == PartitionSpec(None, None)
    else:  # the table is the logits' kernel too
        assert found[f"{MLP}/wi/kernel"] == columns
        assert found["decoder/layers_0/relpos_bias/rel_embedding"] == rows
        assert table == rows


def test_biases_of_a_gpt_lie_where_their_products_do():
    found = specs(GPT)
    layer, cut, whole = "decoder/layers_0", ("model",), (None,)
    for name in ("query", "key", "value"):
        assert found[f"{layer}/self_attention/{name}/bias"] == PartitionSpec(*cut)
    packed = f"{layer}/self_attention/query_and_key_and_value"
    assert found[f"{packed}/kernel"] == PartitionSpec(None, "model")
    assert found[f"{packed}/bias"] == PartitionSpec("model")
    assert found[f"{layer}/mlp/wi/bias"] == PartitionSpec(*cut)
    for name in ("self_attention/out", "mlp/wo", "pre_mlp_layer_norm"):
        assert found[f"{layer}/{name}/bias"] == PartitionSpec(*whole)
    assert found["position_embedder/embedding"] == PartitionSpec(None, None)


def test_a_model_that_is_not_cut_is_whole_on_every_device():
    assert all(
        spec == PartitionSpec(*[None] * len(spec))
        for spec in specs(V1_1, False).values()
    )
    layout = layout_of(V1_1, MESH, sharded=False)
    names = ("batch", "heads")
    assert layout.sharding(names, (6, 8)).spec == PartitionSpec("data", None)
    # Devices along `model` would do the same for all rows: each takes some.
    everywhere = PartitionSpec(("data", "model"), None)
    assert layout.sharding(names, (8, 8)).spec == everywhere


def test_rows_are_spread_where_devices_would_do_the_same():
    """What is sampled from, and an attention whose heads are not divided."""
    everywhere = PartitionSpec(("data", "model"), None)
    by_data = PartitionSpec("data", None)
    odd_heads = dataclasses.replace(V1_1, num_heads=6)
    for config, heads in (
        (V1_1, PartitionSpec("data", "model")),
        (odd_heads, everywhere),
    ):
        layout = layout_of(config, MESH)
        assert layout.sharding(("rows", None), (8, 64)).spec == everywhere
        assert layout.sharding(("rows", None), (4, 64)).spec == by_data
        assert layout.sharding(("batch", "embed"), (8, 64)).spec == by_data
        assert layout.sharding(("batch", "heads"), (8, 6)).spec == heads


def test_heads_that_cannot_be_dealt_out_leave_attention_whole_and_no_more():
    found = specs(dataclasses.replace(V1_1, num_heads=6))
    assert found[f"{ATTENTION}/query/kernel"] == PartitionSpec(None, None)
    assert found[f"{ATTENTION}/out/kernel"] == PartitionSpec(None, None)
    assert found[f"{MLP}/wo/kernel"] == PartitionSpec("model", None)
    assert found["decoder/logits_dense/kernel"] == PartitionSpec(None, "model")


def test_a_mesh_that_divides_nothing_is_refused():
    odd = dataclasses.replace(V1_1, num_heads=6, mlp_dim=66, padded_vocab_size=62)
    with pytest.raises(SettingsError, match="4 devices .* num_heads 6, mlp_dim 66"):
        layout_of(odd, MESH)


def test_an_unknown_parameter_is_named():
    with pytest.raises(ValueError, match="decoder/experts/kernel of rank 2"):
        V1_1.axes_of("decoder/experts/kernel", 2)


def test_names_do_nothing_without_a_mesh_and_are_as_many_as_the_axes():
    x = jax.numpy.ones((2, 3))
    assert constrain(x, "batch", "embed") is x
    with pytest.raises(ValueError, match="2 axes of .* and 1 names"):
        constrain(x, "batch")
    seen = []
    with constrained_by(lambda x, names: seen.append(names) or x):
        constrain(x, "batch", None)
    assert seen == [("batch", None)]
    assert constrain(x, "batch", "embed") is x
