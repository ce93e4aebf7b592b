"""The flags by which a program that measures is told on what."""

from absl import flags

from specdec_jax.cli import gin_bindings
from specdec_jax.cli.decode_task import TaskRun
from specdec_jax.data.text import read_lines
from specdec_jax.job import encode
from specdec_jax.loading import ASSETS
from specdec_jax.pair import Pair

_INPUT = flags.DEFINE_string(
    "input",
    None,
    "sentences, one a line; if absent, those of the run file's task, or the packaged "
    "evaluation sentences.",
)
_LIMIT = flags.DEFINE_integer(
    "limit", None, "take the first so many sentences only.", lower_bound=1
)


def inputs(pair: Pair) -> list[list[int]]:
    """Ids of what the flags and the run file say that a pair is measured on.

    Args:
      pair: whose tokenizer and task it is.
    """
    if gin_bindings.is_bound("TaskRun.task") and not _INPUT.value:
        run = gin_bindings.configured(TaskRun)(pair=pair)
        return [row.inputs for row in run.task.examples(run.split, _LIMIT.value)]
    texts = read_lines(_INPUT.value or ASSETS / "eval_sentences.en.txt")
    return encode(pair, texts[: _LIMIT.value])
