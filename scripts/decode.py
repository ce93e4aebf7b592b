"""Decodes text, or a task's split, with a pair; shows what speculative decoding did.

python scripts/decode.py --gin_file=configs/runs/demo_ende.gin --text="A dog runs."
python scripts/decode.py --gin_file=configs/runs/ende_small_t0.gin --out=FILE.jsonl ...

A task may be decoded by several processes; process 0 writes the file.
"""

import sys

from absl import flags
from rich.console import Console

from specdec_jax import DecodeSettings, SettingsError, display, load_pair
from specdec_jax.cli import gin_bindings, process_flags
from specdec_jax.cli.arguments import only_flags
from specdec_jax.cli.decode_task import TaskRun
from specdec_jax.cli.decode_texts import DecodeRun
from specdec_jax.data.text import read_lines, read_stream
from specdec_jax.experiments.record_file import RecordFile

flags.adopt_module_key_flags(process_flags)
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


STANDARD_INPUT = "standard input"


def _read_inputs():
    """The texts, and how the n-th of them is named."""
    if _TEXT.value and _INPUT.value:
        raise SettingsError("give --text or --input, not both")
    if _TEXT.value:
        return _TEXT.value, "text {}".format
    if _INPUT.value in (None, "-"):
        lines, name = read_stream(sys.stdin.buffer, STANDARD_INPUT), STANDARD_INPUT
    else:
        lines, name = read_lines(_INPUT.value), _INPUT.value
    return lines, lambda number: f"line {number} of {name}"


def _decode_task(console, processes):
    """Returns the records, in the process that writes them."""
    if not _OUT.value:
        raise SettingsError("a task is decoded into a file: give --out=FILE.jsonl")
    with processes.together():
        records = RecordFile(_OUT.value) if processes.first else None
        run = gin_bindings.configured(TaskRun)(
            seed=_SEED.value, method=_METHOD.value, processes=processes
        )
    summary = run(records)
    if records is not None:
        run.show(summary, records, console)
    return records


def _decode_texts(console, processes):
    """Returns the records, if they are kept."""
    if processes.count > 1:
        raise SettingsError("texts are decoded by one process; several share a task")
    records = RecordFile(_OUT.value) if _OUT.value else None
    texts, name = _read_inputs()
    run = DecodeRun(
        pair=gin_bindings.configured(load_pair)(),
        settings=gin_bindings.configured(DecodeSettings)(),
        seed=_SEED.value,
        method=_METHOD.value,
        compare=_SPEEDUP.value,
        console=console,
    )
    run(texts, records, _FORMAT.value, name)
    return records


def main(argv):
    only_flags(argv)
    gin_bindings.parse("configs/runs/demo_ende.gin")
    terminal = {"auto": None, "always": True, "never": False}[_COLOR.value]
    console = Console(
        force_terminal=terminal,
        highlight=False,
        soft_wrap=True,
        record=bool(_SVG.value),
    )
    texts_given = _TEXT.value or _INPUT.value
    is_task = gin_bindings.is_bound("TaskRun.task") and not texts_given
    with process_flags.processes() as processes:
        records = (_decode_task if is_task else _decode_texts)(console, processes)
    if records is not None:
        gin_bindings.save_operative_config(records.path)
    if _SVG.value:
        display.save_svg(console, _SVG.value)


if __name__ == "__main__":
    gin_bindings.run_program(main)
