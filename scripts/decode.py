"""Decodes text, or a task's split, with a pair; shows what speculative decoding did.

python scripts/decode.py --gin_file=configs/runs/demo_ende.gin --text="A dog runs."
python scripts/decode.py --gin_file=configs/runs/ende_small_t0.gin --out=FILE.jsonl ...

A task may be decoded by several processes; process 0 writes the file.
"""

from absl import flags
from rich.console import Console

from specdec_jax import DecodeSettings, SettingsError, display, load_pair
from specdec_jax.cli import compile_flags, gin_bindings, process_flags, text_flags
from specdec_jax.cli.decode_task import CONFIGURED, TaskRun
from specdec_jax.cli.decode_texts import DecodeRun
from specdec_jax.cli.program import run_program
from specdec_jax.experiments.record_file import RecordFile
from specdec_jax.job import METHODS

flags.adopt_module_key_flags(compile_flags)
flags.adopt_module_key_flags(process_flags)
flags.adopt_module_key_flags(text_flags)
_OUT = flags.DEFINE_string("out", None, "append JSON lines; what it holds is done.")
_FORMAT = flags.DEFINE_enum("format", "trace", ["trace", "text", "jsonl"], "to print.")
_METHOD = flags.DEFINE_enum("method", METHODS[0], METHODS, "how to decode.")
_SEED = flags.DEFINE_integer("seed", 0, "of all draws.")
_SPEEDUP = flags.DEFINE_bool("speedup", False, "also time the baseline, and compare.")
_COLOR = flags.DEFINE_enum(
    "color", "auto", ["auto", "always", "never"], "colours, or marks without them."
)
_SVG = flags.DEFINE_string("svg", None, "also draw what was printed into this file.")


def _decode_task(console, processes):
    gin_bindings.require_use(*CONFIGURED)
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
    gin_bindings.require_use(load_pair, DecodeSettings)
    if processes.count > 1:
        raise SettingsError("texts are decoded by one process; several share a task")
    records = RecordFile(_OUT.value) if _OUT.value else None
    settings = gin_bindings.configured(DecodeSettings)()
    texts, name = text_flags.read()
    pair = gin_bindings.configured(load_pair)()
    run = DecodeRun(pair, settings, _SEED.value, _METHOD.value, _SPEEDUP.value, console)
    run(texts, records, _FORMAT.value, name)
    return records


def main(_):
    gin_bindings.parse("configs/runs/demo_ende.gin")
    terminal = {"auto": None, "always": True, "never": False}[_COLOR.value]
    shown = {"highlight": False, "soft_wrap": True, "record": bool(_SVG.value)}
    console = Console(force_terminal=terminal, **shown)
    is_task = gin_bindings.is_bound("TaskRun.task") and not text_flags.are_given()
    with process_flags.processes() as processes:
        if compile_flags.is_given():
            return compile_flags.precompile(is_task, _METHOD.value, processes)
        records = (_decode_task if is_task else _decode_texts)(console, processes)
    if records is not None:
        gin_bindings.save_operative_config(records.path)
    if _SVG.value:
        display.save_svg(console, _SVG.value)


if __name__ == "__main__":
    run_program(main)
