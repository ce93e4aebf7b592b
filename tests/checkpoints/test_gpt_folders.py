"""Folders of GPTs: native, and of no other format."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from specdec_jax.checkpoints import formats, native
from specdec_jax.errors import CheckpointError
from specdec_jax.models.packing import pack
from specdec_jax.models.parameters import parameter_shapes
from tests.tiny_pairs import random_params, tiny_config, tiny_gpt_config


@pytest.mark.parametrize("tied", [False, True])
def test_a_saved_gpt_loads_to_the_same_values_packed_and_not(tmp_path, tied):
    config = tiny_gpt_config(logits_via_embedding=tied)
    # Biases are zeros at first, and would hide being mixed up.
    params = jax.tree.map(
        lambda x: x + jnp.arange(x.size, dtype=x.dtype).reshape(x.shape) / x.size,
        random_params(config, 0),
    )
    native.save(tmp_path, config, params, "float32")
    fields = json.loads((tmp_path / "config.json").read_text())
    assert fields["format"] == "specdec_jax.gpt"
    checkpoint = formats.open_checkpoint(tmp_path, config)
    assert checkpoint.config == config
    jax.tree.map(np.testing.assert_array_equal, checkpoint.load(), params)
    packed = checkpoint.load(packed=1)
    jax.tree.map(np.testing.assert_array_equal, packed, pack(config, params))


def test_a_folder_of_an_unknown_family_is_named(gpt_folder, tmp_path):
    fields = json.loads((gpt_folder / "target" / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(fields | {"format": "rnn"}))
    with pytest.raises(CheckpointError, match='no "format" of specdec_jax.t5, spec'):
        native.open_folder(tmp_path)


def test_sizes_and_families_that_are_not_those_asked_for_are_named(
    gpt_folder, pair_folder, tmp_path
):
    asked = formats.open_checkpoint(gpt_folder / "target").config
    other = dataclasses.replace(asked, max_length=99)
    with pytest.raises(CheckpointError, match="max_length 96 and .* asks for 99"):
        formats.open_checkpoint(gpt_folder / "target", other)
    with pytest.raises(CheckpointError, match="is of a GPT and the .* is a T5's"):
        formats.open_checkpoint(gpt_folder / "target", tiny_config())
    with pytest.raises(CheckpointError, match="is of a T5 and the .* is a GPT's"):
        formats.open_checkpoint(pair_folder / "target", asked)
    step = formats.convert(pair_folder / "target", tmp_path / "t5x", "t5x")
    with pytest.raises(CheckpointError, match="T5X, which holds T5s"):
        formats.open_checkpoint(step, asked)


@pytest.mark.parametrize("format", ["t5x", "huggingface"])
def test_other_formats_cannot_hold_a_gpt(gpt_folder, tmp_path, format):
    with pytest.raises(CheckpointError, match=f"is of a GPT, which {format} cannot"):
        formats.convert(gpt_folder / "target", tmp_path / "out", format)
    assert not (tmp_path / "out").exists()


def test_the_papers_sizes_have_the_papers_numbers_of_parameters(gpt_sizes):
    for size, millions in (("97m", 97.5), ("6m", 5.7)):
        shapes = parameter_shapes(gpt_sizes(size))
        count = sum(np.prod(shape) for shape in shapes.values())
        assert count / 1e6 == pytest.approx(millions, abs=0.06)


@pytest.fixture
def gpt_sizes():
    """The configuration of a size, from its gin file."""
    import gin

    from specdec_jax.cli import gin_bindings

    gin_bindings.register()
    gin.clear_config()
    gin.add_config_file_search_path(str(gin_bindings.ROOT))

    def sizes(size):
        gin.parse_config_file(f"configs/models/gpt_{size}.gin")
        with gin.config_scope(f"gpt_{size}"):
            return gin.get_configurable("GPTConfig")()

    yield sizes
    gin.clear_config()
