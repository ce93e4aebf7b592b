"""Measures alpha on the target's own tokens, without speculative decoding.

python scripts/measure_alpha.py --gin_file=configs/runs/demo_ende.gin --out=FILE.jsonl
python scripts/measure_alpha.py --gin.load_pair.drafter=prompt_lookup --out=FILE.jsonl

A line a temperature and lenience goes to FILE.jsonl, and what they are made from to
FILE.outputs.jsonl; a run that was stopped goes on.
"""

from absl import flags
from rich.console import Console

from specdec_jax import load_pair
from specdec_jax.cli import gin_bindings, measure_flags
from specdec_jax.cli.program import run_program
from specdec_jax.experiments.measure.alpha import AlphaConfig, AlphaRun
from specdec_jax.experiments.summaries import alpha_summary

flags.adopt_module_key_flags(measure_flags)


def main(_):
    gin_bindings.parse("configs/runs/demo_ende.gin")
    gin_bindings.require_use(load_pair, AlphaConfig, *measure_flags.used())
    config = gin_bindings.configured(AlphaConfig)()
    records = measure_flags.records()
    pair = gin_bindings.configured(load_pair)()
    for _ in AlphaRun(pair, measure_flags.inputs(pair), config, records)():
        gin_bindings.save_operative_config(records.path)
    console = Console(soft_wrap=True, highlight=False)
    console.print(alpha_summary(records))
    console.print(
        f"{records.path} has more: β by position, its autocorrelation, tokens per "
        "target call for each γ. scripts/reproduce.py --what=table3 shows all of it."
    )


if __name__ == "__main__":
    run_program(main)
