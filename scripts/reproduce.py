"""The paper's tables and figures, beside what is computed and measured here.

python scripts/reproduce.py --what=all
python scripts/reproduce.py --what=table4 --records=records/ende_small_t0.jsonl
"""

from pathlib import Path

from absl import flags

from specdec_jax import load_pair
from specdec_jax.cli import gin_bindings
from specdec_jax.cli.program import run_program
from specdec_jax.experiments.reproduction import WHAT, Reproduction

_WHAT = flags.DEFINE_enum("what", "all", WHAT, "which table or figure.")
_OUT = flags.DEFINE_string("out", "runs/reproduce", "folder of the report.")
_RECORDS = flags.DEFINE_multi_string(
    "records",
    None,
    "JSON-lines files, or folders of them, to read; records/ if absent. The packaged "
    "ones are read too.",
)
_SEED = flags.DEFINE_integer("seed", 0, "of what is measured here.")


def main(_):
    gin_bindings.parse("configs/runs/demo_ende.gin")
    gin_bindings.require_use(load_pair)
    places = _RECORDS.value
    if places is None:
        places = ["records"] if Path("records").is_dir() else []
    reproduction = Reproduction(
        load_pair=gin_bindings.configured(load_pair),
        out=Path(_OUT.value),
        places=places,
        seed=_SEED.value,
    )
    reproduction(_WHAT.value)


if __name__ == "__main__":
    run_program(main)
