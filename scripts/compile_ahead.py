r"""Compiles a run ahead of time for a TPU that is not there, and reports on it.

python scripts/compile_ahead.py --gin_file=configs/runs/ende_small_t0.gin \
    --topology=v4 --chips=1 --out=FOLDER

Needs no checkpoint. `pip install -e '.[aot]'` brings the compiler.
"""

from pathlib import Path

import jax
from absl import flags

from specdec_jax import SettingsError
from specdec_jax.cli import gin_bindings
from specdec_jax.cli.program import run_program
from specdec_jax.experiments.aot import compile as aot_compile
from specdec_jax.experiments.aot import report
from specdec_jax.experiments.aot.run import AOTRun
from specdec_jax.experiments.kinds import CompiledProgram
from specdec_jax.experiments.record_file import RecordFile
from specdec_jax.partitioning import topology

_TOPOLOGY = flags.DEFINE_enum(
    "topology", "v4", list(topology.CHIPS), "generation of TPU."
)
_CHIPS = flags.DEFINE_integer("chips", 1, "1, or the size of a slice: 4 to 64.", 1)
_PROGRAMS = flags.DEFINE_list(
    "programs", list(aot_compile.PROGRAMS), "which ones to compile."
)
_TABLE_2 = flags.DEFINE_bool(
    "table_2", False, "compile the paper's twelve runs too: seven pairs, minutes each."
)
_OUT = flags.DEFINE_string("out", None, "a new folder for records, report and figure.")


def _new_path(folder):
    """Of the records in a folder that has none, checked before compiling begins."""
    path = folder / "aot.jsonl"
    try:
        if path.exists() and path.stat().st_size:
            raise SettingsError(f"{path} holds a report: give another folder")
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(f"cannot write records to {path}: {error}") from error
    return path


def main(_):
    jax.config.update("jax_platforms", "cpu")  # nothing is run; a TPU stays untouched
    gin_bindings.parse()
    if not gin_bindings.is_bound("AOTRun.target"):
        raise SettingsError("give --gin_file=configs/runs/..., of a pair of T5 sizes")
    gin_bindings.require_use(AOTRun)
    unknown = set(_PROGRAMS.value) - set(aot_compile.PROGRAMS)
    if unknown:
        known = ", ".join(aot_compile.PROGRAMS)
        raise SettingsError(f"programs are {known}, not {', '.join(unknown)}")
    run = gin_bindings.configured(AOTRun)()
    path = _new_path(Path(_OUT.value)) if _OUT.value else None
    file, records = None, []
    for record in run(_TOPOLOGY.value, _CHIPS.value, _PROGRAMS.value, _TABLE_2.value):
        records.append(record)
        if path:
            file = file or RecordFile(path)  # a run that fails before leaves no file
            file.append(record)
        if isinstance(record, CompiledProgram):
            print(f"{record.program}: {record.compile_seconds:.0f} s", flush=True)
    if file:
        report.save(file.path.parent, records)
        gin_bindings.save_operative_config(file.path)
    print(report.markdown(records))


if __name__ == "__main__":
    run_program(main)
