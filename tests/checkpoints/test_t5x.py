"""T5X's layouts: written by T5X (golden/), by hand with TensorStore, and bad ones."""

import dataclasses
import pathlib
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
import pytest
import tensorstore as ts
from flax import serialization, traverse_util

from specdec_jax.checkpoints import t5x
from specdec_jax.decoding.autoregressive import Autoregressive
from specdec_jax.decoding.settings import DecodeSettings
from specdec_jax.errors import CheckpointError
from specdec_jax.models.adapters import language_model
from specdec_jax.models.inputs import EncoderInputs
from specdec_jax.models.parameters import parameter_shapes
from specdec_jax.models.t5 import T5
from tests import toy_models as toys
from tests.checkpoints.scalable import stacked
from tests.tiny_pairs import tiny_config

GOLDEN = pathlib.Path(__file__).parent / "golden"
EOS = 1

CONFIG = dataclasses.replace(
    tiny_config(16, 3), vocab_size=56, num_decoder_layers=2, dropout_rate=0.1
)
PER_LAYER = dataclasses.replace(CONFIG, shared_relative_bias=False)


def random_params(config=CONFIG, seed=0):
    random = np.random.default_rng(seed)
    return {
        name: random.normal(size=shape).astype(np.float32)
        for name, shape in parameter_shapes(config).items()
    }


def array_spec(folder, name, array, driver="file"):
    """Writes an array; returns the description that an index of T5X has of it."""
    place = {"driver": "file", "path": str(folder / name)}
    metadata = {
        "compressor": {"id": "gzip"},
        "shape": list(array.shape),
        "chunks": [max(1, size // 2) for size in array.shape],
    }
    written = {"driver": "zarr", "kvstore": place, "metadata": metadata}
    ts.open({**written, "dtype": array.dtype.name}, create=True).result().write(
        array
    ).result()
    relative = {"driver": driver, "path": name}
    if driver == "gcs":
        relative = {"driver": "gcs", "bucket": "t5x-dummy-bucket"}
    spec = {**written, "dtype": array.dtype.name, "kvstore": relative}
    return {**spec, "path": name} if driver == "gcs" else spec


def write(folder, leaves, version=3, driver="file", inline=lambda name: False):
    """A step folder in T5X's own layout."""
    folder.mkdir(parents=True, exist_ok=True)
    target = {
        tuple(name.split("/")): (
            array
            if inline(name)
            else array_spec(folder, "target." + name.replace("/", "."), array, driver)
        )
        for name, array in leaves.items()
    }
    optimizer = {
        "target": traverse_util.unflatten_dict(target),
        "state": {
            "step": np.int32(7),
            "param_states": {"token_embedder": {"embedding": {"m": None, "v": None}}},
        },
    }
    index = serialization.msgpack_serialize(
        {"version": version, "optimizer": optimizer}
    )
    (folder / "checkpoint").write_bytes(index)
    return folder


def assert_loads(folder, leaves, config=CONFIG, **options):
    checkpoint = t5x.open_folder(folder)
    assert checkpoint.config == config
    loaded = traverse_util.flatten_dict(checkpoint.load(**options), sep="/")
    assert set(loaded) == set(leaves)
    for name, array in leaves.items():
        np.testing.assert_array_equal(loaded[name], array, err_msg=name)


@pytest.mark.parametrize("written", ["t5", "orbax", "scalable_t5"])
def test_logits_and_greedy_tokens_are_those_of_t5x(tmp_path, written):
    shutil.unpack_archive(GOLDEN / f"{written}.tar.gz", tmp_path, filter="data")
    checkpoint = t5x.open_folder(tmp_path / "checkpoint_3")
    assert checkpoint.config.shared_relative_bias == (written != "scalable_t5")
    network = "t5" if written == "orbax" else written
    with np.load(GOLDEN / "t5x.npz") as file:
        tokens, decoder_inputs = file["encoder_tokens"], file["decoder_inputs"]
        logits, generated = file[f"{network}/logits"], file[f"{network}/generated"]
    params = checkpoint.load()
    inputs = EncoderInputs(jnp.asarray(tokens), jnp.asarray(tokens > 0))
    found = T5(checkpoint.config).apply(
        {"params": params}, inputs.tokens, inputs.mask, jnp.asarray(decoder_inputs)
    )
    np.testing.assert_allclose(found, logits, rtol=1e-4, atol=1e-4)
    batch, length = generated.shape
    out = toys.decode(
        Autoregressive(language_model(checkpoint.config), length, EOS),
        params,
        inputs,
        DecodeSettings(max_new_tokens=length).rows(batch),
    )
    np.testing.assert_array_equal(out.tokens, generated)


@pytest.mark.parametrize("driver", ["file", "gfile", "gcs"])
def test_version_3_with_some_leaves_inline(tmp_path, driver):
    leaves = random_params()
    inline = lambda name: name.endswith("scale")  # noqa: E731
    write(tmp_path / "checkpoint_7", leaves, driver=driver, inline=inline)
    assert_loads(tmp_path / "checkpoint_7", leaves)


def test_version_2_has_the_bits_of_bfloat16(tmp_path):
    leaves = {n: a.astype(jnp.bfloat16) for n, a in random_params().items()}
    bits = {n: a.view(np.uint16) for n, a in leaves.items()}
    inline = lambda name: name.endswith("scale")  # noqa: E731
    folder = write(tmp_path / "checkpoint_7", bits, version=2, inline=inline)
    assert_loads(folder, {n: a.astype(np.float32) for n, a in leaves.items()})


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_stacked_layers_with_a_bias_of_each_layer(tmp_path, dtype):
    leaves = random_params(PER_LAYER)
    folder = write(tmp_path / "checkpoint_7", stacked(leaves, PER_LAYER))
    expected = {n: a.astype(jnp.dtype(dtype)) for n, a in leaves.items()}
    assert_loads(folder, expected, PER_LAYER, dtype=dtype)


def test_a_sharding_reads_its_parts_only(tmp_path):
    """Parts that cut heads, layers and chunks come out as the whole is cut."""
    leaves = random_params(PER_LAYER)
    folder = write(tmp_path / "checkpoint_7", stacked(leaves, PER_LAYER))
    tensors = t5x.open_folder(folder).tensors
    for name, array in leaves.items():
        for axis in range(array.ndim):
            size = array.shape[axis]
            for start, stop in ((0, size // 2), (size // 2, size), (1, size - 1)):
                index = [slice(None)] * array.ndim
                index[axis] = slice(start, stop)
                part = tensors[name].read(tuple(index))
                np.testing.assert_array_equal(part, array[tuple(index)], name)


def test_a_placing_is_asked_for_every_parameter(tmp_path):
    leaves = random_params()
    folder = write(tmp_path / "checkpoint_7", leaves)
    device = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    asked = {}

    def place(name, shape):
        asked[name] = shape
        return device

    assert_loads(folder, leaves, place=place)
    assert asked == parameter_shapes(CONFIG)


@pytest.mark.parametrize("ocdbt", [True, False])
@pytest.mark.parametrize("below", ["", "state"])
def test_checkpoints_that_orbax_wrote(tmp_path, ocdbt, below):
    leaves = random_params()
    tree = {
        "target": traverse_util.unflatten_dict(leaves, sep="/"),
        "state": {"step": np.int32(7)},
    }
    handler = ocp.PyTreeCheckpointHandler(use_ocdbt=ocdbt)
    ocp.Checkpointer(handler).save((tmp_path / "step" / below).absolute(), tree)
    assert_loads(tmp_path / "step", leaves)


def test_an_orbax_index_of_placeholders(tmp_path):
    leaves = random_params()
    folder = tmp_path / "checkpoint_7"
    folder.mkdir()
    target = {}
    for name, array in leaves.items():
        stored = "_optimizer.target." + name.replace("/", ".")
        array_spec(folder, stored, array)
        target[tuple(name.split("/"))] = f"PLACEHOLDER://{stored}"
    tree = {"_optimizer": {"target": traverse_util.unflatten_dict(target)}}
    (folder / "checkpoint").write_bytes(serialization.msgpack_serialize(tree))
    assert_loads(folder, leaves)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_what_is_written_here_reads_back_bit_for_bit(tmp_path, dtype):
    leaves = {n: a.astype(jnp.dtype(dtype)) for n, a in random_params().items()}
    params = traverse_util.unflatten_dict(jax.tree.map(jnp.asarray, leaves), sep="/")
    folder = t5x.save(tmp_path, params, step=12, dtype=dtype)
    assert folder == tmp_path / "checkpoint_12"
    assert_loads(folder, leaves, dtype=dtype)
    index = serialization.msgpack_restore((folder / "checkpoint").read_bytes())
    assert index["version"] == 3 and index["optimizer"]["state"]["step"] == 12
    spec = index["optimizer"]["target"]["token_embedder"]["embedding"]
    assert spec["kvstore"]["path"] == "target.token_embedder.embedding"
    assert spec["dtype"] == dtype


def test_zeros_written_here_are_stored(tmp_path):
    leaves = {n: np.zeros_like(a) for n, a in random_params().items()}
    params = traverse_util.unflatten_dict(jax.tree.map(jnp.asarray, leaves), sep="/")
    assert_loads(t5x.save(tmp_path, params), leaves)


# --- bad ones


def lose_a_chunk(place):
    metadata = (".zarray", "zarr.json")
    next(
        p for p in sorted(place.rglob("*")) if p.is_file() and p.name not in metadata
    ).unlink()


@pytest.mark.parametrize("written", ["t5", "scalable_t5"])
def test_a_chunk_lost_of_what_t5x_wrote_is_named(tmp_path, written):
    shutil.unpack_archive(GOLDEN / f"{written}.tar.gz", tmp_path, filter="data")
    place = next((tmp_path / "checkpoint_3").glob("*.wo.kernel"))
    lose_a_chunk(place)
    with pytest.raises(CheckpointError, match="wo/kernel cannot be read.*missing"):
        t5x.open_folder(tmp_path / "checkpoint_3").load()


@pytest.mark.parametrize("zarr3", [True, False])
def test_a_chunk_lost_of_what_orbax_wrote_is_named(tmp_path, zarr3):
    tree = {"target": traverse_util.unflatten_dict(random_params(), sep="/")}
    handler = ocp.PyTreeCheckpointHandler(use_ocdbt=False, use_zarr3=zarr3)
    ocp.Checkpointer(handler).save((tmp_path / "step").absolute(), tree)
    lose_a_chunk(tmp_path / "step" / "target.token_embedder.embedding")
    with pytest.raises(CheckpointError, match="token_embedder/embedding cannot be"):
        t5x.open_folder(tmp_path / "step").load()


@pytest.mark.parametrize("zarr3", [True, False])
def test_a_chunk_lost_of_a_merged_store_is_named(tmp_path, zarr3):
    tree = {"target": traverse_util.unflatten_dict(random_params(), sep="/")}
    handler = ocp.PyTreeCheckpointHandler(use_ocdbt=True, use_zarr3=zarr3)
    ocp.Checkpointer(handler).save((tmp_path / "step").absolute(), tree)
    base = {"driver": "file", "path": f"{tmp_path / 'step'}/"}
    store = ts.KvStore.open({"driver": "ocdbt", "base": base}).result()
    name = b"target.token_embedder.embedding/"
    for key in store.list().result():
        if key.startswith(name) and not key.endswith((b".zarray", b"zarr.json")):
            store.delete_range(ts.KvStore.KeyRange(key, key + b"\0")).result()
    with pytest.raises(CheckpointError, match="token_embedder/embedding cannot be"):
        t5x.open_folder(tmp_path / "step").load()


def broken(folder, change):
    path = folder / "checkpoint"
    tree = serialization.msgpack_restore(path.read_bytes())
    change(tree)
    path.write_bytes(serialization.msgpack_serialize(tree))


@pytest.fixture
def folder(tmp_path):
    return write(tmp_path / "checkpoint_7", random_params())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: t.update(version=1), "version 1"),
        (lambda t: t.update(optimizer={"state": {}}), "neither target nor params"),
        (
            lambda t: t["optimizer"]["target"].pop("token_embedder"),
            "lacks tensor token_embedder/embedding",
        ),
        (
            lambda t: t["optimizer"]["target"]["decoder"]["layers_1"].pop("mlp"),
            "lacks tensor target/decoder/layers_1/mlp/wi_0/kernel and 2 more",
        ),
        (
            lambda t: t["optimizer"]["target"].update(odd=np.zeros(2, np.float32)),
            "does not know: target/odd",
        ),
        (
            lambda t: t["optimizer"]["target"]["encoder"]["encoder_norm"].update(
                scale=np.zeros(5, np.float32)
            ),
            r"target/encoder/encoder_norm/scale has shape \[5\].*asks for \[16\]",
        ),
        (
            lambda t: t["optimizer"]["target"]["encoder"]["encoder_norm"].update(
                scale=np.zeros(16, np.int32)
            ),
            "target/encoder/encoder_norm/scale has dtype int32",
        ),
    ],
)
def test_a_wrong_tree_is_named(folder, change, words):
    broken(folder, change)
    with pytest.raises(CheckpointError, match=words):
        t5x.open_folder(folder).load()


def test_a_configuration_that_does_not_fit_is_named(folder):
    config = dataclasses.replace(CONFIG, mlp_dim=33)
    with pytest.raises(CheckpointError, match=r"wi_0/kernel has shape \[16, 32\]"):
        t5x.open_folder(folder, config).load()


def test_truncated_and_missing_files_are_named(folder):
    name = "target.decoder.layers_0.mlp.wo.kernel"
    chunk = next(p for p in (folder / name).iterdir() if p.name != ".zarray")
    chunk.write_bytes(chunk.read_bytes()[:-9])
    with pytest.raises(CheckpointError, match="layers_0/mlp/wo/kernel cannot be read"):
        t5x.open_folder(folder).load()
    index = folder / "checkpoint"
    index.write_bytes(index.read_bytes()[:-9])
    with pytest.raises(CheckpointError, match="is not msgpack"):
        t5x.open_folder(folder)
    index.unlink()
    with pytest.raises(CheckpointError, match="name a step folder"):
        t5x.open_folder(folder)
