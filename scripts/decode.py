"""Decodes text, or a task's split, with a pair; shows what speculative decoding did.

python scripts/decode.py --gin_file=configs/runs/demo_ende.gin --text="A dog runs."
python scripts/decode.py --gin_file=configs/runs/ende_small_t0.gin --out=FILE.jsonl ...
"""

import sys

from absl import flags
from rich.console import Console

from specdec_jax import DecodeSettings, SettingsError, gin_bindings, load_pair
from specdec_jax.data.text import read_lines
from specdec_jax.experiments.decode_run import DecodeRun
from specdec_jax.experiments.records import RecordFile
from specdec_jax.experiments.task_run import TaskRun

_TEXT = flags.DEFINE_multi_string("text", [], "input text; may be given repeatedly.")
_INPUT = flags.DEFINE_string(
    "input",
    None,
    "a file of inputs, one a line (-: standard input). Without --text and --input the "
    "run file's task is decoded, or standard input if it has none.",
)
_OUT = flags.DEFINE_string(
    "out", None, "append JSON lines here; texts that it already holds are not redone."
)
_FORMAT = flags.DEFINE_enum(
    "format", "trace", ["trace", "text", "jsonl"], "what is printed."
)
_METHOD = flags.DEFINE_enum(
    "method", "speculative", ["speculative", "autoregressive"], "how to decode."
)
_SEED = flags.DEFINE_integer("seed", 0, "of all draws.")
_SPEEDUP = flags.DEFINE_bool("speedup", False, "also time the baseline, and compare.")
_COLOR = flags.DEFINE_enum(
    "color", "auto", ["auto", "always", "never"], "colours, or marks without them."
)
_SVG = flags.DEFINE_string("svg", None, "also draw what was printed into this file.")


def _read_inputs():
    if _TEXT.value and _INPUT.value:
        raise SettingsError("give --text or --input, not both")
    if _TEXT.value:
        return _TEXT.value
    if _INPUT.value in (None, "-"):
        return [line.rstrip("\n") for line in sys.stdin]
    return read_lines(_INPUT.value)


def main(_):
    gin_bindings.parse("configs/runs/demo_ende.gin")
    records = RecordFile(_OUT.value) if _OUT.value else None
    terminal = {"auto": None, "always": True, "never": False}[_COLOR.value]
    console = Console(
        force_terminal=terminal,
        highlight=False,
        soft_wrap=True,
        record=bool(_SVG.value),
    )
    if gin_bindings.is_bound("TaskRun.task") and not (_TEXT.value or _INPUT.value):
        if records is None:
            raise SettingsError("a task is decoded into a file: give --out=FILE.jsonl")
        run = gin_bindings.configured(TaskRun)(seed=_SEED.value, method=_METHOD.value)
        run.show(run(records), records, console)
    else:
        texts = _read_inputs()
        run = DecodeRun(
            pair=gin_bindings.configured(load_pair)(),
            settings=gin_bindings.configured(DecodeSettings)(),
            seed=_SEED.value,
            method=_METHOD.value,
            compare=_SPEEDUP.value,
            console=console,
        )
        run(texts, records, _FORMAT.value)
    if records is not None:
        gin_bindings.save_operative_config(records.path)
    if _SVG.value:
        console.save_svg(_SVG.value, title="specdec_jax")


if __name__ == "__main__":
    gin_bindings.run_program(main)
