"""Measures alpha on the target's own tokens, without speculative decoding.

python scripts/measure_alpha.py --gin_file=configs/runs/demo_ende.gin --out=FILE.jsonl
python scripts/measure_alpha.py --gin.load_pair.drafter=prompt_lookup --out=FILE.jsonl

A line a temperature and lenience goes to FILE.jsonl, and what they are made from to
FILE.outputs.jsonl; a run that was stopped goes on.
"""

from absl import flags
from rich import box
from rich.console import Console
from rich.table import Table

from specdec_jax import load_pair
from specdec_jax.cli import gin_bindings, measure_flags
from specdec_jax.cli.program import run_program
from specdec_jax.experiments.measure.alpha import AlphaConfig, AlphaRun

flags.adopt_module_key_flags(measure_flags)

COLUMNS = {
    "temperature": "T",
    "top_k": "top-k",
    "top_p": "top-p",
    "lenience": "l",
    "alpha": "α",
    "alpha_interval": "95%",
    "drafted_share": "drafted",
    "tokens": "tokens",
}


def _shown(value):
    if isinstance(value, list | tuple):
        return "–".join(f"{x:.3f}" for x in value)
    return str(value) if isinstance(value, int) else f"{value:.3g}"


def main(_):
    gin_bindings.parse("configs/runs/demo_ende.gin")
    gin_bindings.require_use(load_pair, AlphaConfig, *measure_flags.used())
    config = gin_bindings.configured(AlphaConfig)()
    records = measure_flags.records()
    pair = gin_bindings.configured(load_pair)()
    for _ in AlphaRun(pair, measure_flags.inputs(pair), config, records)():
        gin_bindings.save_operative_config(records.path)
    table = Table(*COLUMNS.values(), box=box.SIMPLE)
    for record in records:
        table.add_row(*(_shown(getattr(record, name)) for name in COLUMNS))
    console = Console(soft_wrap=True, highlight=False)
    console.print(table)
    console.print(
        f"{records.path} has more: β by position, its autocorrelation, tokens a target "
        "run for each γ. scripts/reproduce.py --what=table3 shows all of it."
    )


if __name__ == "__main__":
    run_program(main)
