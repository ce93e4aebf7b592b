"""The flag by which a program compiles for inputs to come, and reads none of them."""

import jax
from absl import flags

from specdec_jax import job
from specdec_jax.cli import gin_bindings
from specdec_jax.cli.decode_task import CONFIGURED, TaskRun
from specdec_jax.decoding.settings import DecodeSettings
from specdec_jax.errors import SettingsError
from specdec_jax.loading import load_pair
from specdec_jax.runtime.distributed import Processes
from specdec_jax.runtime.progress import progress_bar

_PRECOMPILE = flags.DEFINE_integer(
    "precompile",
    None,
    "compile for inputs of up to so many tokens into --compilation_cache, and end.",
    1,
)


def is_given() -> bool:
    """Whether the program is to compile, and to end."""
    return _PRECOMPILE.value is not None


def precompile(is_task: bool, method: str, processes: Processes) -> None:
    """Compiles what a task, or texts one by one, will run; the data is not read.

    Args:
      is_task: whether it is a task that is to come.
      method: as in `generate`.
      processes: those of the run; each compiles, and JAX keeps what process 0 did.

    Raises:
      SettingsError: there is no cache that would keep it.
    """
    if not jax.config.jax_compilation_cache_dir:
        raise SettingsError("nothing would be kept: give --compilation_cache=FOLDER")
    if is_task:
        gin_bindings.require_use(*CONFIGURED)
        with processes.together():
            run = gin_bindings.configured(TaskRun)(method=method, processes=processes)
        pair, settings, batch = run.pair, run.settings, run.batch_size
        longest = run.task.lengths["inputs"]
    else:
        gin_bindings.require_use(load_pair, DecodeSettings)
        settings = gin_bindings.configured(DecodeSettings)()
        pair = gin_bindings.configured(load_pair)()
        batch, longest = 1, job.MAX_INPUT_TOKENS
    longest = min(longest, _PRECOMPILE.value)
    with progress_bar("compiling", shown=processes.first) as bar:
        lengths = job.bucket_lengths(pair, settings, longest)
        for length in bar.track(lengths, description=""):
            job.precompile(pair, settings, batch, length, method)
