"""What a program prints of its records when it is done: a table of the main numbers."""

from collections.abc import Iterable

from specdec_jax.experiments.kinds import Alpha, Benchmark, LogitsError
from specdec_jax.experiments.tables import Column, Table

BENCHMARK = {
    "temperature": Column("T", format="g"),
    "gamma": Column("γ", format="d"),
    "lenience": Column("l", format="g"),
    "inputs": Column("inputs", format="d"),
    "drafted_per_target_call": Column("drafted/call"),
    "alpha": Column("α", format=".3f"),
    "c": Column("c", format=".3f"),
    "v": Column("v"),
    "predicted_speedup": Column("speedup by α"),
    "beta_predicted_speedup": Column("by β"),
    "speedup": Column("measured"),
    "tokens_per_second": Column("tokens/s", format=".0f"),
    "baseline_tokens_per_second": Column("baseline", format=".0f"),
}
ALPHA = {
    "temperature": Column("T", format="g"),
    "top_k": Column("top-k", format="d"),
    "top_p": Column("top-p", format="g"),
    "lenience": Column("l", format="g"),
    "alpha": Column("α", format=".3f"),
    "alpha_interval": Column("95%", format=".3f"),
    "drafted_share": Column("drafted", format=".0%"),
    "inputs": Column("inputs", format="d"),
    "tokens": Column("tokens", format="d"),
}

LOGITS_ERROR = {
    "quantization": Column("target"),
    "mean_error": Column("mean error", format=".2%"),
    "max_error": Column("largest", format=".1%"),
    "same_argmax": Column("same argmax", format=".2%"),
    "overlap": Column("Σ min(p, p')", format=".4f"),
    "inputs": Column("inputs", format="d"),
    "tokens": Column("tokens", format="d"),
}


def benchmark_summary(records: Iterable[Benchmark]) -> Table:
    """Costs and speedups, a row for each setting."""
    notes = ("measured: speedup over autoregressive decoding, by the same clock",)
    return Table.from_records("Speculative decoding", BENCHMARK, records, notes)


def alpha_summary(records: Iterable[Alpha]) -> Table:
    """α of each temperature and lenience."""
    notes = ("drafted: the share of tokens for which there was a draft token",)
    return Table.from_records("α = E[Σ min(p, q)]", ALPHA, records, notes)


def logits_summary(records: Iterable[LogitsError]) -> Table:
    """How far a quantized target's logits are from those of its float weights."""
    notes = ("errors: of the deviation of the float target's logits",)
    return Table.from_records("Logits of int8 weights", LOGITS_ERROR, records, notes)
