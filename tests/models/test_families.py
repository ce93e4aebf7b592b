"""What a family tells of itself, and that nobody else asks which family it is."""

import ast
import dataclasses
from pathlib import Path

import jax
import numpy as np
import pytest

import specdec_jax
from specdec_jax.data.tokenizer import SpecialIds
from specdec_jax.models.adapters import language_model
from specdec_jax.models.config import ModelConfig
from specdec_jax.models.families import FAMILIES
from specdec_jax.models.packing import pack
from specdec_jax.models.parameters import packed_shapes, parameter_shapes, random_params
from tests.tiny_pairs import tiny_config, tiny_gpt_config

PACKAGE = Path(specdec_jax.__file__).parent
CONFIGS = (
    tiny_config(),
    tiny_config(mlp_activations=("relu",), logits_via_embedding=True),
    tiny_config(shared_relative_bias=False),
    tiny_gpt_config(),
    tiny_gpt_config(logits_via_embedding=True),
)
every_config = pytest.mark.parametrize("config", CONFIGS, ids=lambda c: c.family)


def test_each_family_has_a_name_and_a_format_of_its_own():
    assert {type(config) for config in CONFIGS} == set(FAMILIES)
    for name in ("family", "format"):
        assert len({getattr(family, name) for family in FAMILIES}) == len(FAMILIES)
    for family in FAMILIES:
        fields = {field.name for field in dataclasses.fields(family)}
        assert set(family.sizes) <= fields


@every_config
def test_every_parameter_has_axes_packed_or_not(config):
    for shapes in (parameter_shapes(config), packed_shapes(config)):
        for name, shape in shapes.items():
            assert len(config.axes_of(name, len(shape))) == len(shape)


@every_config
def test_packed_shapes_are_those_of_packed_parameters(config):
    params = random_params(config, jax.random.key(0))
    packed = dict(jax.tree.leaves_with_path(pack(config, params)))
    found = {"/".join(k.key for k in path): x.shape for path, x in packed.items()}
    assert found == packed_shapes(config)


@every_config
def test_a_batch_is_what_the_network_takes_with_the_tokenizers_own_ids(config):
    ids = SpecialIds(start_id=7, eos_id=1, pad_id=3)
    inputs, prompt = config.batch([[5, 6], [9]], ids)
    model = language_model(config)
    params = jax.eval_shape(lambda: random_params(config, jax.random.key(0)))
    cache, context = jax.eval_shape(lambda p: model.start(p, inputs, 16), params)
    assert (context is None) == config.decoder_only
    assert model.num_layers == config.decoder_layers
    first = np.asarray(prompt.tokens)
    assert (first[:, 0] == 7).all()
    if config.decoder_only:
        assert prompt.lengths.tolist() == [3, 2] and (first[1, 2:] == 3).all()
    else:
        assert prompt.lengths.tolist() == [1, 1]
        assert np.asarray(inputs.tokens)[1].tolist() == [9] + [3] * 7


def asks_which_family(tree: ast.AST) -> list[int]:
    """Lines with isinstance or type of something against a configuration's class."""
    names = {family.__name__ for family in FAMILIES}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id in ("isinstance", "issubclass", "type"):
                inside = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
                found += [node.lineno] if inside & names else []
        elif isinstance(node, ast.Compare | ast.Dict | ast.MatchClass):
            inside = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
            found += [node.lineno] if inside & names else []
    return found


def test_only_its_own_file_knows_which_family_a_configuration_is_of():
    own = {f"{family.__module__.rpartition('.')[2]}.py" for family in FAMILIES}
    places = [
        f"{path.relative_to(PACKAGE)}:{line}"
        for path in PACKAGE.rglob("*.py")
        if not (path.parent.name == "models" and path.name in own)
        for line in asks_which_family(ast.parse(path.read_text("utf-8")))
    ]
    assert places == []


def test_such_a_question_would_be_found():
    for code in ("isinstance(c, T5Config)", "type(c) is GPTConfig", "{T5Config: 1}"):
        assert asks_which_family(ast.parse(code))
    assert not isinstance(ModelConfig(), FAMILIES)
