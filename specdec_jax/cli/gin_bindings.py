"""What gin may configure, and how a program reads gin files: only here and in scripts.

As in T5X, a run file is named by `--gin_file`, later files win over earlier ones, and
`--gin.NAME=VALUE` binds one thing from the command line: a macro (`--gin.GAMMA=7`) or a
parameter (`--gin.DecodeSettings.top_p=0.9`).
"""

import functools
import os
import tokenize
from collections.abc import Callable
from pathlib import Path

import gin
from absl import flags, logging

from specdec_jax.cli.decode_task import TaskRun
from specdec_jax.cli.gin_use import check_use
from specdec_jax.data import tasks
from specdec_jax.data.lm1b import lm1b
from specdec_jax.decoding.settings import DecodeSettings
from specdec_jax.errors import DataError, SettingsError, one_line
from specdec_jax.experiments.aot.run import AOTRun
from specdec_jax.experiments.measure.alpha import AlphaConfig
from specdec_jax.experiments.measure.benchmark import BenchmarkConfig
from specdec_jax.loading import load_pair
from specdec_jax.models.gpt import GPTConfig
from specdec_jax.models.t5 import T5Config
from specdec_jax.runtime.storage import beside

ROOT = Path(__file__).parents[2]  # of the checkout: gin files are named from here
# Given on the command line, a setting of decoding is one of every measurement too, in
# place of the sweep that a run file may ask for.
ALSO = {
    "GAMMA": ("BenchmarkConfig.gammas = (%GAMMA,)", "AlphaConfig.gammas = (%GAMMA,)"),
    "TEMPERATURE": (
        "BenchmarkConfig.temperatures = (%TEMPERATURE,)",
        "AlphaConfig.temperatures = (%TEMPERATURE,)",
    ),
    "BATCH_SIZE": ("AlphaConfig.batch_size = %BATCH_SIZE",),
}

# What gin raises of a file that it cannot read.
UNREADABLE = (ValueError, OSError, SyntaxError, ImportError, tokenize.TokenError)

flags.DEFINE_multi_string(
    "gin_file", [], "gin files; a later one wins over an earlier one."
)
flags.DEFINE_multi_string("gin_bindings", [], "single gin bindings, after all files.")


@functools.cache
def register() -> None:
    """Makes what decoding needs known to gin; making a task imports seqio."""
    _register(
        AOTRun,
        AlphaConfig,
        BenchmarkConfig,
        DecodeSettings,
        GPTConfig,
        T5Config,
        TaskRun,
        lm1b,
        load_pair,
        tasks.cnn_dailymail,
        tasks.tsv_pairs,
        tasks.wmt14_ende,
    )


@functools.cache
def register_training() -> None:
    """Makes what training needs known to gin; imports optax and Orbax."""
    from specdec_jax.training import jobs, language, loop, optimizers

    _register(
        jobs.ParallelText,
        jobs.distill_drafter,
        jobs.finetune,
        jobs.train,
        jobs.train_target,
        language.PlainText,
        language.train_language_model,
        loop.TrainConfig,
        optimizers.OptimizerConfig,
    )


def _register(*configurables) -> None:
    for configurable in configurables:
        gin.external_configurable(configurable, module="specdec_jax")


def configured(function):
    """The version of a registered function or class that gin fills in."""
    register()
    return gin.get_configurable(function.__name__)


def is_bound(name: str) -> bool:
    """Whether a gin file or a flag gave the parameter `Configurable.parameter`."""
    try:
        gin.query_parameter(name)
    except ValueError:
        return False
    return True


def save_operative_config(records: str | os.PathLike) -> None:
    """Writes what gin filled in: of `FILE.jsonl` to `FILE.operative.gin`."""
    _write(beside(records, ".operative.gin"), gin.operative_config_str())


def save_config(folder: Path) -> None:
    """Writes all that gin was told to `config.gin` in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / "config.gin", gin.config_str())


def _write(path: Path, config: str) -> None:
    """Writes a gin file, unless it is one that the run was given."""
    given = {Path(file).resolve() for file in flags.FLAGS.gin_file}
    try:
        if path.resolve() not in given:
            path.write_text(config, "utf-8")
    except OSError as error:
        raise DataError(f"cannot write {path}: {error}") from error


def parse(default_file: str | None = None) -> None:
    """Reads the gin files and bindings that the flags name.

    Args:
      default_file: if the flags name none.

    Raises:
      SettingsError: a file is missing, or gin cannot read it or does not know a name.
    """
    register()
    files = flags.FLAGS.gin_file or ([default_file] if default_file else [])
    for file in files:
        if not (Path(file).is_file() or (ROOT / file).is_file()):
            raise SettingsError(f"no gin file {file}")
    gin.add_config_file_search_path(str(ROOT))
    logging.set_verbosity(logging.FATAL)  # gin logs every place that it looks in
    bindings = flags.FLAGS.gin_bindings
    given = [binding.partition("=")[0].strip() for binding in bindings]
    also = [line for name in given for line in ALSO.get(name, ())]
    try:
        # Not finalized: gin would ask for what a file requires for other programs.
        gin.parse_config_files_and_bindings(files, [*also, *bindings], False)
    except RecursionError as error:
        raise SettingsError(
            f"gin: {', '.join(files)} includes itself, or is nested too deep"
        ) from error
    except UNREADABLE as error:
        raise SettingsError(f"gin: {one_line(error)}") from error
    finally:
        logging.set_verbosity(logging.WARNING)


def require_use(*roots: Callable | str) -> None:
    """Checks the bindings of the command line against what the program calls.

    Args:
      roots: registered functions and classes, or single parameters ("TaskRun.task").

    Raises:
      SettingsError: see `gin_use.check_use`.
    """
    called = {root if isinstance(root, str) else root.__name__ for root in roots}
    also = [
        macro
        for macro, lines in ALSO.items()
        if any(line.partition(".")[0] in called for line in lines)
    ]
    check_use(roots, flags.FLAGS.gin_bindings, also)
