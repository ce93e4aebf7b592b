"""The flags of a program that measures: on what inputs, and into which records."""

from absl import flags

from specdec_jax.cli import gin_bindings
from specdec_jax.cli.decode_task import TaskRun
from specdec_jax.data.text import read_lines
from specdec_jax.errors import SettingsError
from specdec_jax.experiments.record_file import RecordFile
from specdec_jax.job import encode
from specdec_jax.loading import ASSETS
from specdec_jax.pair import Pair

_INPUT = flags.DEFINE_string(
    "input",
    None,
    "inputs, one a line; if absent, those of the run file's task, or the packaged "
    "evaluation sentences.",
)
_LIMIT = flags.DEFINE_integer("limit", None, "take the first N inputs only.", 1)
_OUT = flags.DEFINE_string("out", None, "JSON-lines file to append to.")


def used() -> tuple[str, ...]:
    """The parameters of gin that `inputs` reads."""
    return ("TaskRun.task", "TaskRun.split") if _has_task() else ()


def records() -> RecordFile:
    """Opens the records, which a measurement is not made without.

    Raises:
      SettingsError: no file is named.
      DataError: it cannot be appended to.
    """
    if not _OUT.value:
        raise SettingsError("--out is missing: give --out=FILE.jsonl for the records")
    return RecordFile(_OUT.value)


def inputs(pair: Pair) -> list[list[int]]:
    """Ids of what the flags and the run file say that a pair is measured on.

    Args:
      pair: whose tokenizer and task it is.
    """
    if _has_task():
        run = gin_bindings.configured(TaskRun)(pair=pair)
        return [row.inputs for row in run.task.examples(run.split, _LIMIT.value)]
    texts = read_lines(_INPUT.value or ASSETS / "eval_sentences.en.txt")
    return encode(pair, texts[: _LIMIT.value])


def _has_task() -> bool:
    return gin_bindings.is_bound("TaskRun.task") and not _INPUT.value
