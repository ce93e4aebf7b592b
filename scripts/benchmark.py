"""Measures speculative decoding against its baseline; a JSON line per setting.

python scripts/benchmark.py --gin_file=configs/runs/demo_ende.gin --out=FILE.jsonl

Settings that FILE already holds are not measured again.
"""

from absl import flags
from rich.console import Console

from specdec_jax import load_pair
from specdec_jax.cli import gin_bindings, measure_flags
from specdec_jax.cli.program import run_program
from specdec_jax.experiments.measure.benchmark import BenchmarkConfig, benchmark
from specdec_jax.experiments.summaries import benchmark_summary

flags.adopt_module_key_flags(measure_flags)


def main(_):
    gin_bindings.parse("configs/runs/demo_ende.gin")
    gin_bindings.require_use(load_pair, BenchmarkConfig, *measure_flags.used())
    config = gin_bindings.configured(BenchmarkConfig)()
    records = measure_flags.records()
    pair = gin_bindings.configured(load_pair)()
    console = Console()
    for record in benchmark(pair, measure_flags.inputs(pair), config, records):
        gin_bindings.save_operative_config(records.path)
        # From the betas, which know where nothing is drafted; with lenience from α.
        by_beta = record.beta_predicted_speedup
        predicted = record.predicted_speedup if by_beta is None else by_beta
        console.print(
            f"T={record.temperature:g} γ={record.gamma} "
            f"l={record.lenience:g}: {record.speedup:.2f}x measured, "
            f"{predicted:.2f}x predicted by {'α' if by_beta is None else 'β'}"
        )
    console.print(benchmark_summary(records))


if __name__ == "__main__":
    run_program(main)
