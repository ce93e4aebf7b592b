"""Every run file parses, binds all that it needs, and traces its real pair."""

import copy
import dataclasses
import re
from pathlib import Path

import gin
import jax
import jax.numpy as jnp
import pytest

from specdec_jax import DecodeSettings, load_pair, loading
from specdec_jax.cli import gin_bindings
from specdec_jax.data.tokenizer import Tokenizer
from specdec_jax.decoding import compiled
from specdec_jax.decoding.contracts import Prompt
from specdec_jax.decoding.speculative import Speculative
from specdec_jax.experiments.measure.benchmark import BenchmarkConfig
from specdec_jax.loading import ASSETS
from specdec_jax.models.adapters import language_model
from specdec_jax.models.inputs import EncoderInputs, NoInputs
from specdec_jax.models.lowering import lowering_for
from specdec_jax.models.packing import pack
from specdec_jax.models.parameters import random_params
from specdec_jax.sampling import row_keys

ROOT = Path(__file__).parent.parent.parent
WIDTHS = {"small": 512, "base": 768, "large": 1024, "xl": 2048, "xxl": 4096}
# Table 2 of the paper: gamma, alpha, speedup of each drafter at temperatures 0 and 1.
TABLE_2 = {
    "ende": {
        0: {"small": (7, 0.75, 3.4), "base": (7, 0.80, 2.8), "large": (7, 0.82, 1.7)},
        1: {"small": (7, 0.62, 2.6), "base": (5, 0.68, 2.4), "large": (3, 0.71, 1.4)},
    },
    "cnndm": {
        0: {"small": (5, 0.65, 3.1), "base": (5, 0.73, 3.0), "large": (3, 0.74, 2.2)},
        1: {"small": (5, 0.53, 2.3), "base": (3, 0.55, 2.2), "large": (3, 0.56, 1.7)},
    },
}
ROWS = [
    (task, temperature, size)
    for task, temperatures in TABLE_2.items()
    for temperature, sizes in temperatures.items()
    for size in sizes
]
# What only the user knows.
USERS = {
    "CHECKPOINT",
    "DATA",
    "DRAFTER_CHECKPOINT",
    "MODEL_CONFIG",
    "RUN",
    "TARGET",
    "TARGET_CHECKPOINT",
    "TSV",
    "VOCABULARY",
}
# Files that are nothing without the run that includes them.
PARTS = set((ROOT / "configs" / "base").glob("*.gin"))
GIVEN = {"TARGET_CHECKPOINT": "a", "DRAFTER_CHECKPOINT": "b", "VOCABULARY": "c"}


def parse(file, **macros):
    gin_bindings.register()
    gin_bindings.register_training()
    gin.add_config_file_search_path(str(ROOT))
    bindings = [
        f"{name} = {value if value.startswith('@') else repr(value)}"
        for name, value in macros.items()
    ]
    gin.parse_config_files_and_bindings([str(file)], bindings)


@pytest.fixture(autouse=True)
def fresh_gin():
    gin.clear_config()
    yield
    gin.clear_config()


@pytest.fixture
def load_model_abstractly(monkeypatch):
    """Weights inside a trace: arrays of the sizes asked for, without memory."""
    asked = []
    tokenizer = Tokenizer(ASSETS / "demo_ende" / "spiece.model")

    class OpenModel(loading.OpenModel):
        def __init__(self, sizes):  # no checkpoint
            config = dataclasses.replace(
                sizes, lowering=lowering_for("cpu"), dtype="bfloat16"
            )
            vars(self).update(config=config, tokenizer=tokenizer, sizes=sizes)

        def read(self, mesh=None, sharded=True):
            assert mesh is None
            params = random_params(self.sizes, jax.random.key(0))
            params = jax.tree.map(lambda x: x.astype(jnp.bfloat16), params)
            model = language_model(self.config)
            return loading.Model(
                self.config, model, pack(self.config, params), tokenizer
            )

    def open_model(path, dtype, vocabulary, config, quantization=None):
        asked.append((path, vocabulary))
        return OpenModel(config)

    monkeypatch.setattr(loading, "open_model", open_model)
    return asked


@pytest.mark.parametrize(("task", "temperature", "size"), ROWS)
def test_a_row_of_table_2_traces_the_whole_loop_of_its_pair(
    load_model_abstractly, task, temperature, size
):
    gamma, alpha, speedup = TABLE_2[task][temperature][size]
    file = ROOT / "configs" / "runs" / f"{task}_{size}_t{temperature}.gin"
    parse(file, **GIVEN)
    settings = gin_bindings.configured(DecodeSettings)()
    assert (settings.gamma, settings.temperature) == (gamma, temperature)
    config = gin_bindings.configured(BenchmarkConfig)()
    assert (config.gammas, config.temperatures) == ((gamma,), (temperature,))
    header = file.read_text().split("\n\n")[0]
    assert f"speedup {speedup} over T5X, alpha {alpha:.2f}".replace("0.", ".") in (
        header.replace("0.", ".")
    )
    assert f"--gin_file=configs/runs/{file.name}" in header

    def decode():
        pair = gin_bindings.configured(load_pair)()
        decoder = Speculative(
            pair.target, pair.drafter, settings.static_gamma, settings.buffer_size, 1
        )
        tokens = jnp.ones((1, 512), jnp.int32)
        result = compiled.decode(
            decoder,
            row_keys(jax.random.key(0), jnp.arange(1)),
            pair.params,
            EncoderInputs(tokens, tokens > 0),
            Prompt(jnp.zeros((1, 1), jnp.int32), jnp.ones(1, jnp.int32)),
            settings.rows(1),
        )
        return result, pair.params

    out, params = jax.eval_shape(decode)
    assert load_model_abstractly == [("a", "c"), ("b", "c")]
    embeddings = [
        side["token_embedder"]["embedding"].shape
        for side in (params.target, params.drafter)
    ]
    assert embeddings == [(32128, 4096), (32128, WIDTHS[size])]
    assert out.tokens.shape == (1, 256)
    assert out.infos.drafted.shape == (256, 1, gamma)


@pytest.mark.parametrize(("temperature", "alpha"), [(0, ".88"), (1, ".89")])
def test_lm1b_traces_the_whole_loop_of_the_papers_gpts(
    load_model_abstractly, temperature, alpha
):
    file = ROOT / "configs" / "runs" / f"lm1b_6m_t{temperature}.gin"
    parse(file, **GIVEN)
    settings = gin_bindings.configured(DecodeSettings)()
    assert settings.temperature == temperature
    header = file.read_text().split("\n\n")[0]
    assert f"the paper's alpha: {alpha}" in header
    assert f"--gin_file=configs/runs/{file.name}" in header
    prompt_length = copy.deepcopy(gin.query_parameter("lm1b.prompt_length"))

    def decode():
        pair = gin_bindings.configured(load_pair)()
        assert pair.decoder_only
        longest = 1 + prompt_length + settings.buffer_size - 1
        assert longest <= pair.target.max_length
        decoder = Speculative(
            pair.target, pair.drafter, settings.static_gamma, settings.buffer_size, 1
        )
        tokens = jnp.zeros((2, 1 + prompt_length), jnp.int32)
        result = compiled.decode(
            decoder,
            row_keys(jax.random.key(0), jnp.arange(2)),
            pair.params,
            NoInputs(jnp.ones(2, bool)),
            Prompt(tokens, jnp.array([3, 1 + prompt_length], jnp.int32)),
            settings.rows(2),
        )
        return result, pair.params

    out, params = jax.eval_shape(decode)
    assert load_model_abstractly == [("a", "c"), ("b", "c")]
    for side, width in ((params.target, 768), (params.drafter, 256)):
        assert side["token_embedder"]["embedding"].shape == (8064, width)
        assert side["decoder"]["logits_dense"]["kernel"].shape == (width, 8064)
    assert out.tokens.shape == (2, settings.buffer_size)


@pytest.mark.parametrize(("size", "width"), [("97m", 768), ("6m", 256)])
def test_a_training_on_lm1b_binds_its_model_and_whole_sentences(size, width):
    parse(ROOT / "configs" / "train" / f"lm1b_{size}.gin", RUN="b", VOCABULARY="c")
    model = copy.deepcopy(gin.query_parameter("train_language_model.model"))
    assert model.emb_dim == width
    assert copy.deepcopy(gin.query_parameter("lm1b.prompt_length")) == 0
    boundaries = gin.query_parameter("TrainConfig.boundaries")
    assert max(boundaries) <= model.max_length


@pytest.mark.parametrize("size", WIDTHS)
@pytest.mark.parametrize("task", TABLE_2)
def test_a_fine_tuning_run_binds_its_model(task, size):
    file = ROOT / "configs" / "train" / f"finetune_{task}.gin"
    model = f"@t5_1_1/{size}/T5Config()"
    parse(file, CHECKPOINT="a", RUN="b", VOCABULARY="c", MODEL_CONFIG=model)
    header = file.read_text().split("\n\n")[0]
    assert f'--gin.MODEL_CONFIG="{model}"' in header
    # gin makes what a reference stands for when it copies the reference.
    model = copy.deepcopy(gin.query_parameter("finetune.model"))
    assert model.emb_dim == WIDTHS[size]
    assert copy.deepcopy(gin.query_parameter("finetune.checkpoint")) == "a"
    optimizer = copy.deepcopy(gin.query_parameter("TrainConfig.optimizer"))
    assert optimizer.name == "adafactor"


@pytest.mark.parametrize(
    "file",
    sorted(set((ROOT / "configs").rglob("*.gin")) - PARTS),
    ids=lambda p: str(p.relative_to(ROOT / "configs")),
)
def test_every_file_parses_and_only_what_the_user_knows_is_required(file):
    text = file.read_text()
    assert text.startswith("# ")
    assert set(re.findall(r"(\w+) = %gin.REQUIRED", text)) <= USERS
    parse(file, **dict.fromkeys(USERS, "x"))


def test_a_file_of_pairs_is_decoded_by_the_demo_pair_unless_another_is_named():
    parse(ROOT / "configs" / "runs" / "tsv.gin", TSV="x")
    vocabulary = copy.deepcopy(gin.query_parameter("tsv_pairs.vocabulary"))
    own = ASSETS / gin.query_parameter("%PAIR") / "spiece.model"
    assert (ROOT / vocabulary).samefile(own)
