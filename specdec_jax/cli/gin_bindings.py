"""What gin may configure, and how a program reads gin files: only here and in scripts.

As in T5X, a run file is named by `--gin_file`, later files win over earlier ones, and
`--gin.NAME=VALUE` binds one thing from the command line: a macro (`--gin.GAMMA=7`) or a
parameter (`--gin.DecodeSettings.top_p=0.9`).
"""

import copy
import difflib
import functools
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import gin
from absl import app, flags, logging

from specdec_jax.cli.decode_task import TaskRun
from specdec_jax.data import tasks
from specdec_jax.data.lm1b import lm1b
from specdec_jax.decoding.settings import DecodeSettings
from specdec_jax.errors import SettingsError, SpecdecError
from specdec_jax.experiments.aot.run import AOTRun
from specdec_jax.experiments.measure.alpha import AlphaConfig
from specdec_jax.experiments.measure.benchmark import BenchmarkConfig
from specdec_jax.loading import load_pair
from specdec_jax.models.gpt import GPTConfig
from specdec_jax.models.t5 import T5Config
from specdec_jax.runtime.storage import beside

ROOT = Path(__file__).parents[2]  # of the checkout: gin files are named from here

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
    """Writes what gin filled in: of `FILE.jsonl` to `FILE.gin`."""
    beside(records, ".gin").write_text(gin.operative_config_str(), "utf-8")


def save_config(folder_macro: str) -> None:
    """Writes all that gin was told to `config.gin` in the folder that a macro names."""
    folder = Path(copy.deepcopy(gin.query_parameter(f"%{folder_macro}")))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.gin").write_text(gin.config_str(), "utf-8")


def rewrite_gin_args(argv: Sequence[str]) -> list[str]:
    """T5X's `--gin.NAME=VALUE` as the flag that absl knows.

    Strings may come without quotes: a value that gin cannot read is taken as a string.
    """
    rewritten = []
    for arg in argv:
        if not arg.startswith("--gin."):
            rewritten.append(arg)
            continue
        name, equals, value = arg.removeprefix("--gin.").partition("=")
        if not equals:
            raise SettingsError(f"{arg}: write --gin.NAME=VALUE")
        rewritten.append(f"--gin_bindings={name} = {_quoted(value)}")
    return rewritten


def parse(default_file: str | None = None, not_needed: Sequence[str] = ()) -> None:
    """Reads the gin files and bindings that the flags name.

    Args:
      default_file: if the flags name none.
      not_needed: macros that a file may require, and this program does not.

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
    bindings = [f"{macro} = None" for macro in not_needed] + flags.FLAGS.gin_bindings
    try:
        gin.parse_config_files_and_bindings(files, None, finalize_config=False)
        _check_macros(flags.FLAGS.gin_bindings)
        gin.parse_config(bindings)
        gin.finalize()
    except (ValueError, OSError, SyntaxError) as error:
        raise SettingsError(f"gin: {' '.join(str(error).split())}") from error
    finally:
        logging.set_verbosity(logging.WARNING)


def _check_macros(bindings: Sequence[str]) -> None:
    """A macro that is bound and that nothing mentions is a misspelt one."""
    known = set(re.findall(r"%(\w+)|^(\w+) =", gin.config_str(), re.MULTILINE))
    known = {name for names in known for name in names if name}
    known |= {name for binding in bindings for name in re.findall(r"%(\w+)", binding)}
    for binding in bindings:
        name = binding.partition("=")[0].strip()
        if re.fullmatch(r"\w+", name) and name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {_listed(known)}"
            raise ValueError(f"no file uses a macro {name}: {hint}")


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def run_program(main) -> None:
    """Runs a script's main: bad input becomes one line on stderr and exit code 1."""
    logging.set_verbosity(logging.WARNING)  # jax tells of every backend it lacks

    def guarded(argv):
        try:
            main(argv)
        except KeyboardInterrupt:
            print("stopped; what is on record stays", file=sys.stderr)
            raise SystemExit(130) from None
        except SpecdecError as error:
            # gin adds lines on where it was called from; the first says what is wrong.
            message = str(error).partition("\n  In call to configurable")[0]
            raise SystemExit(f"error: {message}") from error

    app.run(guarded, flags_parser=lambda argv: flags.FLAGS(rewrite_gin_args(argv)))


def _quoted(value: str) -> str:
    if value.startswith(("@", "%")):  # of names that gin does not know yet
        return value
    try:
        gin.config.parse_value(value)
    except (ValueError, SyntaxError):
        return repr(value)
    return value
