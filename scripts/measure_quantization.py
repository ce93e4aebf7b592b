"""Measures what int8 weights change in a target's logits, against its float weights.

python scripts/measure_quantization.py --out=FILE.jsonl

What they change in α, speed and scores, the other programs measure with
--gin.TARGET_QUANTIZATION=int8.
"""

import inspect

from absl import flags
from rich.console import Console

from specdec_jax import load_pair
from specdec_jax.cli import gin_bindings, measure_flags
from specdec_jax.cli.program import run_program
from specdec_jax.decoding.settings import DecodeSettings
from specdec_jax.experiments.measure.quantization import measure_logits
from specdec_jax.experiments.summaries import logits_summary
from specdec_jax.models.quantization import QUANTIZATIONS

flags.adopt_module_key_flags(measure_flags)


def main(_):
    gin_bindings.parse("configs/runs/demo_ende.gin")
    # Both the float weights and the quantized ones are loaded, whatever gin says.
    loading = set(inspect.signature(load_pair).parameters) - {"target_quantization"}
    used = [f"load_pair.{name}" for name in loading]
    gin_bindings.require_use(DecodeSettings, *used, *measure_flags.used())
    settings = gin_bindings.configured(DecodeSettings)()
    records = measure_flags.records()
    load = gin_bindings.configured(load_pair)
    pair, *others = (load(target_quantization=one) for one in (None, *QUANTIZATIONS))
    inputs = measure_flags.inputs(pair)
    for quantized in others:
        measure_logits(pair, quantized, inputs, settings.max_new_tokens, records)
    gin_bindings.save_operative_config(records.path)
    Console(soft_wrap=True, highlight=False).print(logits_summary(records))


if __name__ == "__main__":
    run_program(main)
