"""A binding of the command line is used by the program that runs, or it is an error."""

import gin
import pytest

from specdec_jax import DecodeSettings, load_pair
from specdec_jax.cli import gin_bindings
from specdec_jax.cli.decode_task import CONFIGURED
from specdec_jax.cli.gin_use import Use
from specdec_jax.errors import SettingsError
from specdec_jax.experiments.aot.run import AOTRun
from specdec_jax.experiments.measure.alpha import AlphaConfig
from specdec_jax.experiments.measure.benchmark import BenchmarkConfig

DEMO = "configs/runs/demo_ende.gin"
TABLE_2 = "configs/runs/ende_small_t0.gin"
ENCODED = "TaskRun.task", "TaskRun.split"
# What each program calls; on the demo pair there is no task.
PROGRAMS = {
    "decode": (load_pair, DecodeSettings),
    "decode a task": CONFIGURED,
    "benchmark": (load_pair, BenchmarkConfig),
    "benchmark a task": (load_pair, BenchmarkConfig, *ENCODED),
    "measure_alpha": (load_pair, AlphaConfig),
    "benchmark_peers": (load_pair, DecodeSettings),
    "compile_ahead": (AOTRun,),
    "reproduce": (load_pair,),
}
CHECKPOINTS = {
    "TARGET_CHECKPOINT": "'a'",
    "DRAFTER_CHECKPOINT": "'b'",
    "VOCABULARY": "'c'",
}


@pytest.fixture(autouse=True)
def fresh_gin():
    gin.clear_config()
    yield
    gin.clear_config()


def check(program, file=DEMO, **given):
    """What a program does with its command line; names may have dots."""
    bindings = [f"{name} = {value}" for name, value in given.items()]
    with pytest.MonkeyPatch.context() as patch:
        chosen = type("Flags", (), {"gin_file": [file], "gin_bindings": bindings})
        patch.setattr(gin_bindings.flags, "FLAGS", chosen)
        gin_bindings.parse()
        gin_bindings.require_use(*PROGRAMS[program])


@pytest.mark.parametrize("file", [DEMO, TABLE_2])
def test_a_macro_that_is_bound_to_itself_is_named(file):
    with pytest.raises(SettingsError, match="the macro GAMMA is bound to itself"):
        check("decode", file, GAMMA="%GAMMA")
    gin.clear_config()
    with pytest.raises(SettingsError, match="is bound to itself"):
        check("benchmark", file, GAMMA="%TEMPERATURE", TEMPERATURE="%GAMMA")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("include '{file}'", "includes itself"),
        ("GAMMA = (3", "gin: .*multi-line statement"),
        ("import no_such_module", "No module named 'no_such_module'"),
        ("GAMA == 3", "gin: "),
    ],
)
def test_a_file_that_gin_cannot_read_is_an_error_in_a_line(tmp_path, text, words):
    file = tmp_path / "run.gin"
    file.write_text(text.format(file=file))
    with pytest.raises(SettingsError, match=words) as raised:
        check("decode", str(file))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("file", [DEMO, TABLE_2])
def test_a_setting_of_decoding_means_the_same_in_every_program(file):
    given = {"GAMMA": 3, "TEMPERATURE": 0.25, "MAX_NEW_TOKENS": 9, "MESH": (1, 2)}
    for program in ("decode", "benchmark", "measure_alpha", "benchmark_peers"):
        gin.clear_config()
        check(program, file, **given, **(CHECKPOINTS if file == TABLE_2 else {}))
        settings = gin_bindings.configured(DecodeSettings)()
        assert (settings.gamma, settings.temperature) == (3, 0.25)
        assert settings.rule == "token"
        for config in (BenchmarkConfig, AlphaConfig):
            made = gin_bindings.configured(config)()
            assert (made.gammas, made.temperatures) == ((3,), (0.25,))
            assert made.max_new_tokens == 9
        assert gin.get_bindings("load_pair")["mesh"] == (1, 2)
    if file == TABLE_2:
        gin.clear_config()
        check("compile_ahead", file, **given, BATCH_SIZE=6)
        run = gin_bindings.configured(AOTRun)()
        assert (run.settings.gamma, run.settings.max_new_tokens) == (3, 9)
        assert (run.batch_size, run.mesh) == (6, (1, 2))


def test_the_demo_sweeps_unless_one_value_is_given():
    check("benchmark")
    config = gin_bindings.configured(BenchmarkConfig)()
    assert config.gammas == (1, 2, 3, 4, 5, 6, 7, 8)
    assert config.temperatures == (0.0, 1.0)
    assert gin_bindings.configured(AlphaConfig)().temperatures == (0.0, 0.5, 1.0)
    gin.clear_config()
    check("benchmark", TEMPERATURE=1.0)
    config = gin_bindings.configured(BenchmarkConfig)()
    assert (len(config.gammas), config.temperatures) == (8, (1.0,))


def test_a_batch_size_reaches_tasks_and_alpha():
    check("decode a task", TABLE_2, BATCH_SIZE=5, **CHECKPOINTS)
    assert gin.query_parameter("%BATCH_SIZE") == 5
    gin.clear_config()
    check("measure_alpha", BATCH_SIZE=5)
    assert gin_bindings.configured(AlphaConfig)().batch_size == 5


@pytest.mark.parametrize(
    ("program", "file", "given"),
    [
        ("decode", DEMO, {"AlphaConfig.tokens": 5}),
        ("decode", DEMO, {"BATCH_SIZE": 5}),  # decodes one at a time
        ("benchmark", DEMO, {"BATCH_SIZE": 5}),
        ("benchmark a task", TABLE_2, {"BATCH_SIZE": 5, **CHECKPOINTS}),
        ("benchmark", DEMO, {"DecodeSettings.gamma": 5}),
        ("decode a task", TABLE_2, {"TaskRun.seed": 5, **CHECKPOINTS}),
        ("reproduce", DEMO, {"GAMMA": 5}),
        ("compile_ahead", TABLE_2, {"TARGET_CHECKPOINT": "'a'"}),
        # A size that the run does not have, and a macro that another binding replaces.
        ("compile_ahead", TABLE_2, {"t5_1_1/base/T5Config.emb_dim": 64}),
        ("decode", DEMO, {"GAMMA": 5, "DecodeSettings.gamma": 4}),
    ],
)
def test_a_binding_that_nothing_uses_is_refused(program, file, given):
    name = next(iter(given))
    with pytest.raises(SettingsError, match=f"nothing in .* uses {name} here: "):
        check(program, file, **given)


@pytest.mark.parametrize(
    "given",
    [
        {"DecodeSettings.top_p": 0.9},
        {"specdec_jax.DecodeSettings.top_p": 0.9},
        {"GAMMA": "%DEPTH", "DEPTH": 5},
        {"load_pair.drafter": "'copying'"},
    ],
)
def test_what_is_used_passes_however_it_is_named(given):
    check("decode", **given)


def test_scopes_are_followed_into_the_sizes_that_a_run_has():
    check("compile_ahead", TABLE_2, **{"t5_1_1/small/T5Config.dropout_rate": 0.5})
    assert Use([AOTRun]).has("t5_1_1/T5Config.vocab_size")


def test_a_misspelt_macro_is_answered_with_the_like():
    with pytest.raises(SettingsError, match="uses GAMA here: did you mean GAMMA"):
        check("decode", GAMA=5)


def test_all_that_is_missing_is_named_as_it_is_given():
    flags = " ".join(f"--gin.{name}=..." for name in sorted(CHECKPOINTS))
    with pytest.raises(SettingsError, match=f"needs {flags}$"):
        check("decode a task", TABLE_2)
    check("compile_ahead", TABLE_2)  # needs none of them


@pytest.mark.parametrize("name", ["PAIR", "load_pair.target", "load_pair.drafter"])
def test_a_number_is_no_path(name):
    with pytest.raises(SettingsError, match=f"{name} takes a string, and 202401 is"):
        check("decode", **{name: "2024_01"})
    gin.clear_config()
    check("decode", **{name: "'2024_01'"})


def test_a_file_that_is_not_there_is_named():
    with pytest.raises(SettingsError, match="no gin file nowhere.gin"):
        check("decode", "nowhere.gin")
