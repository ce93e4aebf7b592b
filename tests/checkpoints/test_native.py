import dataclasses
import json
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy

from specdec_jax.checkpoints import native
from specdec_jax.checkpoints.tensors import StoredArray, Tensor
from specdec_jax.errors import CheckpointError
from specdec_jax.models.packing import pack
from tests.tiny_pairs import random_params, tiny_config


@pytest.fixture
def folder(pair_folder, tmp_path):
    return shutil.copytree(pair_folder / "target", tmp_path / "target")


def change_tensors(folder, change):
    path = folder / native.WEIGHTS_FILE
    tensors = safetensors.numpy.load_file(path)
    change(tensors)
    safetensors.numpy.save_file(tensors, path)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_saved_model_loads_to_the_same_values(tmp_path, dtype):
    config = tiny_config(mlp_activations=("relu",), logits_via_embedding=True)
    params = random_params(config, 0)
    native.save(tmp_path, config, params, dtype)
    checkpoint = native.open_folder(tmp_path)
    assert checkpoint.config == config
    loaded = checkpoint.load()
    stored = jax.tree.map(lambda x: x.astype(dtype).astype(jnp.float32), params)
    jax.tree.map(np.testing.assert_array_equal, loaded, stored)


def test_a_missing_an_unknown_and_a_misshapen_tensor_are_named(folder):
    name = "decoder/layers_0/mlp/wo/kernel"
    for change, words in (
        (lambda t: t.pop(name), f"lacks tensor {name}"),
        (lambda t: t.update({name: np.zeros((3, 3), np.float32)}), f"{name} has shape"),
        (lambda t: t.update(other=np.zeros(1, np.float32)), "does not know: other"),
    ):
        copy = shutil.copytree(folder, folder.parent / "copy", dirs_exist_ok=True)
        change_tensors(copy, change)
        with pytest.raises(CheckpointError, match=words):
            native.open_folder(copy).load()


def test_truncated_and_missing_files_are_named(folder):
    weights = folder / native.WEIGHTS_FILE
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(CheckpointError, match=native.WEIGHTS_FILE):
        native.open_folder(folder).load()
    weights.unlink()
    with pytest.raises(CheckpointError, match=native.WEIGHTS_FILE):
        native.open_folder(folder).load()
    with pytest.raises(CheckpointError, match=native.CONFIG_FILE):
        native.open_folder(folder / "nowhere")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": "other"}, "format"),
        ({"depth": 3}, "depth"),
        ({"vocab_size": 0}, "vocab_size"),
        ({"emb_dim": 128.0}, "emb_dim must be an integer, at least 1, not 128.0"),
        ({"num_heads": "2"}, "num_heads must be an integer, at least 1, not '2'"),
        ({"head_dim": -8}, "head_dim must be an integer, at least 1, not -8"),
        ({"dropout_rate": None}, "dropout_rate must be a number, not None"),
        ({"logits_via_embedding": 1}, "logits_via_embedding must be true or false"),
        ({"mlp_activations": "gelu"}, "one or two of gelu, relu, linear, not 'gelu'"),
        ({"mlp_activations": ["swish", "linear"]}, "mlp_activations .*'swish'"),
        ({"mlp_activations": ["gelu"] * 3}, "mlp_activations must be a list of one or"),
        ({"mlp_activations": [1]}, r"mlp_activations .*not \[1\]"),
    ],
)
def test_a_config_that_is_not_ours_is_named(folder, change, words):
    path = folder / native.CONFIG_FILE
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(CheckpointError, match=words):
        native.open_folder(folder).load()


def test_reading_packed_is_reading_and_packing(folder):
    checkpoint = native.open_folder(folder)
    packed = checkpoint.load("float32", packed=1)
    expected = pack(checkpoint.config, checkpoint.load("float32"))
    assert jax.tree.structure(packed) == jax.tree.structure(expected)
    jax.tree.map(np.testing.assert_array_equal, packed, expected)


def test_of_packed_tensors_the_one_that_cannot_be_read_is_named(folder):
    checkpoint = native.open_folder(folder)
    name = "decoder/layers_0/mlp/wi_1/kernel"

    def fail(index):
        raise OSError("the disk is gone")

    good = checkpoint.tensors[name]
    broken = Tensor.from_array(StoredArray(good.shape, good.dtype, fail))
    tensors = {**checkpoint.tensors, name: broken}
    checkpoint = dataclasses.replace(checkpoint, tensors=tensors)
    with pytest.raises(CheckpointError, match=f"{name} cannot be read: the disk"):
        checkpoint.load(packed=1)
