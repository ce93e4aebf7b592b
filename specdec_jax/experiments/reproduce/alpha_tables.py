"""How often draft tokens are accepted: Table 3 of the paper, and appendix A.2."""

import math

from specdec_jax.experiments import commands, paper
from specdec_jax.experiments.kinds import Alpha, Benchmark
from specdec_jax.experiments.record_set import MODEL, RecordSet, distinct, values_of
from specdec_jax.experiments.tables import Column, Kind, Source, Table

BETA_LAGS = (1, 2, 4)
PAIR_KEYS = (Column("pair"), Column("M_q"), Column("T", format="g"))


def table_3(records: RecordSet) -> list[Table]:
    """Alpha of drafters, by temperature: the paper's, then those of the pairs here."""
    identity = ("pair", "drafter", "top_k", "top_p", *MODEL)
    found = distinct(records.of(Alpha, lenience=1.0), *identity, "temperature")
    temperatures = sorted({one.temperature for one in found})
    ours: dict[tuple, dict[float, Alpha]] = {}
    for one in found:
        alphas = ours.setdefault(values_of(one, *identity), {})
        alphas[one.temperature] = one
    columns = [Column("M_p"), Column("M_q")]
    columns += [Column(f"α, T {t}", Kind.PAPER) for t in (0, 1)]
    for temperature in temperatures:
        columns.append(Column(f"α, T {temperature:g}", Kind.MEASURED))
        columns.append(Column("95%", Kind.MEASURED))
    columns += [
        Column("drafted", Kind.MEASURED, ".0%"),
        Column("inputs", Kind.MEASURED, "d"),
        Column("tokens", Kind.MEASURED, "d"),
    ]
    rows = [(*line, *[None] * (len(columns) - 4)) for line in paper.TABLE_3]
    for (pair, drafter, top_k, top_p, *_), alphas in ours.items():
        filters = [f"top-{top_k}"] * bool(top_k) + [f"top-p {top_p:g}"] * (top_p < 1)
        cells = [pair, ", ".join([drafter, *filters]), None, None]
        for temperature in temperatures:
            one = alphas.get(temperature)
            cells += [one and one.alpha, one and one.alpha_interval]
        largest = max(alphas.values(), key=lambda one: one.tokens)
        cells += [largest.drafted_share, largest.inputs, largest.tokens]
        rows.append(cells)
    notes = (
        "The paper: on 10K tokens. Intervals are by sequences, whose positions are not "
        "independent.",
        "Drafted: the share of the tokens for which there was a draft token; α is of "
        "these alone.",
    )
    title = "Table 3: α = E[Σ min(p, q)] on tokens that the target made"
    table = Table(
        title, columns, rows, notes, Source.from_records(found, commands.ALPHA)
    )
    betas = [one for one in found if one.beta_autocorrelation]
    return [table, _in_the_loop(records), _betas(betas)]


def rejection(records: RecordSet) -> list[Table]:
    """Appendix A.2: speculative against rejection sampling, non-iterative."""
    found = [one for one in records.of(Alpha) if one.rejection_alpha is not None]
    found = distinct(found, "pair", "drafter", "temperature")
    rows = [
        (
            one.pair,
            one.drafter,
            one.temperature,
            one.alpha,
            one.alpha_interval,
            one.rejection_alpha,
            one.rejection_interval,
            one.inputs,
            one.tokens,
        )
        for one in found
    ]
    columns = (
        *PAIR_KEYS,
        Column("Σ min(p, q)", Kind.MEASURED),
        Column("95%", Kind.MEASURED),
        Column("Σ p min q/p", Kind.MEASURED, ".2g"),
        Column("95%", Kind.MEASURED, ".2g"),
        Column("inputs", Kind.MEASURED, "d"),
        Column("tokens", Kind.MEASURED, "d"),
    )
    notes = (
        "The share of draft tokens accepted: by speculative sampling Σ min(p, q), by "
        "rejection sampling from q Σ p(x) min_x' q(x')/p(x'), which is never more.",
    )
    title = "Appendix A.2: speculative against rejection sampling"
    return [
        Table(
            title,
            columns,
            rows,
            notes,
            Source.from_records(found, commands.REPRODUCE),
        )
    ]


def unfiltered(records: RecordSet) -> list[Alpha]:
    """Alpha records without top-k and top-p, which the paper does not have here."""
    found = records.of(Alpha, top_k=0, top_p=1.0)
    found = distinct(found, "pair", "drafter", "temperature", "lenience", *MODEL)
    # By pair and temperature, from no lenience to much, as in the paper.
    return sorted(
        found,
        key=lambda one: (
            one.pair,
            one.drafter,
            -one.temperature,
            -one.lenience,
        ),
    )


def _in_the_loop(records: RecordSet) -> Table:
    """Two measurements of one rate: on the target's own tokens, and while decoding."""
    rows, used = [], []
    for one in unfiltered(records):
        loops = []
        if one.lenience == 1:
            same = {"pair": one.pair, "temperature": one.temperature}
            loops = records.of(Benchmark, lenience=1.0, **same)
        loops = [loop for loop in loops if loop.of_one_model(one)]
        loops = {loop.gamma: loop for loop in reversed(loops)}
        used += loops.values()
        for gamma in sorted(loops):
            loop = loops[gamma]
            rows.append(
                (
                    one.pair,
                    one.drafter,
                    one.temperature,
                    one.alpha,
                    one.alpha_interval,
                    one.inputs,
                    gamma,
                    loop.alpha,
                    loop.alpha_interval,
                    loop.inputs,
                    "yes" if _agree(one, loop) else "no",
                )
            )
    columns = (
        *PAIR_KEYS,
        Column("α", Kind.MEASURED, ".3f"),
        Column("95%", Kind.MEASURED, ".3f"),
        Column("inputs", format="d"),
        Column("γ", format="d"),
        Column("α in the loop", Kind.MEASURED, ".3f"),
        Column("95%", Kind.MEASURED, ".3f"),
        Column("inputs", format="d"),
        Column("agree"),
    )
    notes = (
        "In the loop the token after a block that was accepted whole is not tested, so "
        "that with short blocks the tested tokens are another sample.",
        "They agree where their difference is within the 95% of both together.",
    )
    sources = Source.from_records(used, commands.BENCHMARK)
    return Table("α without decoding, and in the loop", columns, rows, notes, sources)


def _agree(first: Alpha, second: Benchmark) -> bool:
    """Whether two means are no further apart than both half-widths, squared, allow."""
    ranges = [one.alpha_interval or (0.0, 0.0) for one in (first, second)]
    widths = [(high - low) / 2 for low, high in ranges]
    return abs(first.alpha - second.alpha) <= math.hypot(*widths)


def _betas(found: list[Alpha]) -> Table:
    """How beta varies along outputs, and what that does to tokens per target call."""
    rows = [
        (
            one.pair,
            one.drafter,
            one.temperature,
            one.drafted_share,
            one.beta_by_position[0],
            one.mean_beta,
            *(one.beta_autocorrelation[lag - 1] for lag in BETA_LAGS),
            one.gammas[-1],
            one.tokens_per_target_call[-1],
            one.tokens_per_target_call_iid[-1],
        )
        for one in found
        if one.gammas
    ]
    columns = (
        *PAIR_KEYS,
        Column("tokens with a draft token", Kind.MEASURED, ".0%"),
        Column("β, first token", Kind.MEASURED),
        Column("β, all tokens", Kind.MEASURED),
        *(Column(f"correlation, lag {lag}", Kind.MEASURED) for lag in BETA_LAGS),
        Column("γ", format="d"),
        Column("tokens per target call", Kind.PREDICTED),
        Column("the same, i.i.d.", Kind.PREDICTED),
    )
    notes = (
        "Theorem 3.8 takes β as independent and alike at all tokens. The correlation "
        "is of β with itself so many tokens later; β is 0 where there is no draft "
        "token.",
        "Tokens per target call: from the chance of acceptance at each token of these "
        "very outputs; and for outputs of these lengths, if all had the mean chance.",
    )
    title = "How β varies along the target's outputs"
    return Table(
        title, columns, rows, notes, Source.from_records(found, commands.ALPHA)
    )
