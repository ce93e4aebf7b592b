"""Measures speculative decoding against its baseline; a JSON line per setting.

python scripts/benchmark.py --gin_file=configs/runs/demo_ende.gin --out=FILE.jsonl

Settings that FILE already holds are not measured again.
"""

from absl import flags
from rich import box
from rich.console import Console
from rich.table import Table

from specdec_jax import load_pair
from specdec_jax.cli import gin_bindings, measure_flags
from specdec_jax.cli.arguments import only_flags
from specdec_jax.experiments.measure.benchmark import BenchmarkConfig, benchmark
from specdec_jax.experiments.record_file import RecordFile

flags.adopt_module_key_flags(measure_flags)
_OUT = flags.DEFINE_string("out", None, "JSON-lines file to append to.")

COLUMNS = {
    "temperature": "T",
    "gamma": "γ",
    "lenience": "l",
    "alpha": "α",
    "c": "c",
    "v": "v",
    "predicted_speedup": "by α",
    "beta_predicted_speedup": "by β",
    "speedup": "measured",
    "tokens_per_second": "tok/s",
    "baseline_tokens_per_second": "baseline",
}


def main(argv):
    only_flags(argv)
    gin_bindings.parse("configs/runs/demo_ende.gin")
    pair = gin_bindings.configured(load_pair)()
    inputs = measure_flags.inputs(pair)
    config = gin_bindings.configured(BenchmarkConfig)()
    records = RecordFile(_OUT.value) if _OUT.value else None
    done = list(records or [])
    console = Console()
    for record in benchmark(pair, inputs, config, records):
        done.append(record)
        if records:
            gin_bindings.save_operative_config(records.path)
        # From the betas, which know of places without a guess; with lenience from α.
        by_beta = record.beta_predicted_speedup
        predicted = record.predicted_speedup if by_beta is None else by_beta
        console.print(
            f"T={record.temperature:g} γ={record.gamma} "
            f"l={record.lenience:g}: {record.speedup:.2f}x measured, "
            f"{predicted:.2f}x predicted by {'α' if by_beta is None else 'β'}"
        )
    table = Table(*COLUMNS.values(), box=box.SIMPLE, padding=(0, 1, 0, 0))
    for record in done:
        # Older records lack what was added since.
        values = (getattr(record, name) for name in COLUMNS)
        table.add_row(*("–" if x is None else f"{x:.3g}" for x in values))
    console.print(table)


if __name__ == "__main__":
    gin_bindings.run_program(main)
