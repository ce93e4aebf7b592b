"""How often draft tokens are accepted: Tables 3 and 5 of the paper, and A.2."""

import math

from specdec_jax.experiments import commands, paper
from specdec_jax.experiments.kinds import Alpha, Benchmark, TaskScores
from specdec_jax.experiments.record_set import MODEL, RecordSet, distinct, values_of
from specdec_jax.experiments.tables import Column, Kind, Source, Table
from specdec_jax.sampling import theory

BETA_LAGS = (1, 2, 4)


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
    columns.append(Column("tokens", Kind.MEASURED, "d"))
    rows = [(*line, *[None] * (len(columns) - 4)) for line in paper.TABLE_3]
    for (pair, drafter, top_k, top_p, *_), alphas in ours.items():
        filters = [f"top-{top_k}"] * bool(top_k) + [f"top-p {top_p:g}"] * (top_p < 1)
        cells = [pair, ", ".join([drafter, *filters]), None, None]
        for temperature in temperatures:
            one = alphas.get(temperature)
            cells += [one and one.alpha, one and one.alpha_interval]
        rows.append((*cells, max(one.tokens for one in alphas.values())))
    notes = (
        "The paper: on 10K tokens. Intervals are by sequences, whose positions are not "
        "independent.",
    )
    title = "Table 3: α = E[Σ min(p, q)] on tokens that the target made"
    table = Table(
        title, columns, rows, notes, Source.from_records(found, commands.ALPHA)
    )
    betas = [one for one in found if one.beta_autocorrelation]
    return [table, _in_the_loop(records), _betas(betas)]


def table_5(records: RecordSet) -> list[Table]:
    """Alpha and speedup by lenience, at temperature 1 and 0."""
    return [
        _at_temperature_1(records),
        _at_temperature_0(records),
        _measured(records),
    ]


def rejection(records: RecordSet) -> list[Table]:
    """Appendix A.2: speculative against rejection sampling, non-iterative."""
    found = [one for one in records.of(Alpha) if one.rejection_alpha is not None]
    found = distinct(found, "pair", "drafter", "temperature")
    rows = [
        (
            *(one.pair, one.drafter, one.temperature),
            *(one.alpha, one.alpha_interval),
            *(one.rejection_alpha, one.rejection_interval, one.tokens),
        )
        for one in found
    ]
    columns = (
        *(Column("pair"), Column("M_q"), Column("T", format="g")),
        Column("Σ min(p, q)", Kind.MEASURED),
        Column("95%", Kind.MEASURED),
        Column("Σ p min q/p", Kind.MEASURED, ".2g"),
        Column("95%", Kind.MEASURED, ".2g"),
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


def _in_the_loop(records: RecordSet) -> Table:
    """Two measurements of one rate: on the target's own tokens, and while decoding."""
    rows, used = [], []
    for one in _unfiltered(records):
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
                    *(one.pair, one.drafter, one.temperature),
                    *(one.alpha, one.alpha_interval, gamma),
                    *(loop.alpha, loop.alpha_interval),
                    "yes" if _agree(one, loop) else "no",
                )
            )
    columns = (
        *(Column("pair"), Column("M_q"), Column("T", format="g")),
        *(Column("α", Kind.MEASURED, ".3f"), Column("95%", Kind.MEASURED, ".3f")),
        Column("γ", format="d"),
        Column("α in the loop", Kind.MEASURED, ".3f"),
        *(Column("95%", Kind.MEASURED, ".3f"), Column("agree")),
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
            *(one.pair, one.drafter, one.temperature, one.drafted_share),
            *(one.beta_by_position[0], one.mean_beta),
            *(one.beta_autocorrelation[lag - 1] for lag in BETA_LAGS),
            *(one.gammas[-1], one.tokens_per_target_call[-1]),
            one.tokens_per_target_call_iid[-1],
        )
        for one in found
        if one.gammas
    ]
    columns = (
        *(Column("pair"), Column("M_q"), Column("T", format="g")),
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


def _at_temperature_1(records: RecordSet) -> Table:
    pairs, alphas, found = _measured_alphas(records, 1.0)
    rows = [
        (
            *(lenience, *paper.LENIENT_ALPHAS[lenience]),
            *(paper.LENIENT_SPEEDS[lenience], *alphas[lenience]),
        )
        for lenience in paper.LENIENCES
    ]
    columns = (
        Column("l", format="g"),
        *(Column(f"α, {drafter}", Kind.PAPER) for drafter in paper.LENIENT_DRAFTERS),
        Column("speedup, T5-small", Kind.PAPER, ".1f"),
        *(Column(f"α, {pair}", Kind.MEASURED) for pair in pairs),
    )
    notes = ("The paper: T5-XXL, EnDe. Theorem 3.8 does not give its speedups.",)
    title = "Table 5: lenience at temperature 1, α = E[Σ min(p/l, q)]"
    return Table(
        title, columns, rows, notes, Source.from_records(found, commands.ALPHA)
    )


def _at_temperature_0(records: RecordSet) -> Table:
    pairs, alphas, found = _measured_alphas(records, 0.0)
    gamma, c = paper.LENIENT_GAMMA, paper.LENIENT_C
    rows = [
        (
            *(lenience, alpha, speed, theory.speedup(alpha, gamma, c)),
            *alphas[lenience],
        )
        for lenience, (alpha, speed) in paper.LENIENT_GREEDY.items()
    ]
    columns = (
        Column("l", format="g"),
        Column("α, T5-small", Kind.PAPER),
        Column("speedup, T5-small", Kind.PAPER, ".1f"),
        Column("speedup, T5-small", Kind.COMPUTED, ".1f"),
        *(Column(f"α, {pair}", Kind.MEASURED) for pair in pairs),
    )
    notes = (
        f"The paper: T5-XXL, EnDe, c = {c:g}, γ = {gamma}. x is accepted where "
        "p(x) ≥ l max p, before standardizing.",
    )
    title = "Table 5: lenience at temperature 0"
    return Table(
        title, columns, rows, notes, Source.from_records(found, commands.ALPHA)
    )


def _measured(records: RecordSet) -> Table:
    """What lenience does to the pairs measured here, with BLEU where there is one."""
    alphas, rows, used = _unfiltered(records), [], {"speedup": [], "BLEU": []}
    for one in alphas:
        timed, scores = _timed(records, one), _scores(records, one)
        used["speedup"] += [timed] if timed else []
        used["BLEU"] += [scores] if scores else []
        rows.append(
            (
                *(one.pair, one.drafter, one.temperature, one.lenience),
                *(one.alpha, one.alpha_interval, one.tokens),
                *(timed and timed.gamma, timed and timed.alpha),
                *(timed and timed.speedup, timed and timed.speedup_spread),
                scores and scores.scores.get("bleu"),
                scores and scores.tokens_per_target_call,
            )
        )
    columns = (
        *(Column("pair"), Column("M_q"), Column("T", format="g")),
        Column("l", format="g"),
        *(Column("α", Kind.MEASURED), Column("95%", Kind.MEASURED)),
        Column("tokens", Kind.MEASURED, "d"),
        *(Column("γ", format="d"), Column("α in the loop", Kind.MEASURED)),
        *(Column("speedup", Kind.MEASURED), Column("rounds", Kind.MEASURED)),
        Column("BLEU", Kind.MEASURED, ".1f"),
        Column("tokens per target call", Kind.MEASURED),
    )
    notes = (
        "α is of the target's own tokens, α in the loop of the lenient loop's tokens, "
        "which are others. γ is the one that lenience was measured with, or of the "
        "best speedup. Rounds: the speedup of the slowest and of the fastest.",
        "BLEU and tokens per target call are of the task that was scored, all else of "
        "the inputs of the benchmark.",
    )
    sources = Source.from_records(alphas, commands.ALPHA)
    makers = {"speedup": commands.LENIENCE, "BLEU": commands.SCORES}
    for what, command in makers.items():
        missing = [Source(f"No record of {what} with lenience", command)]
        found = used[what]
        sources += Source.from_records(found, command) if found else missing
    title = "Lenience with the pairs measured here"
    return Table(title, columns, rows, notes, sources)


def _measured_alphas(
    records: RecordSet, temperature: float
) -> tuple[list[str], dict[float, list], list[Alpha]]:
    """For the paper's leniences: the columns, their alphas, and the records."""
    found = [one for one in _unfiltered(records) if one.temperature == temperature]
    found = [one for one in found if one.lenience in paper.LENIENCES]
    by_key = {(one.pair, one.drafter, one.lenience): one for one in found}
    pairs = list(dict.fromkeys((pair, drafter) for pair, drafter, _ in by_key))
    alphas = {
        lenience: [
            by_key[*pair, lenience].alpha if (*pair, lenience) in by_key else None
            for pair in pairs
        ]
        for lenience in paper.LENIENCES
    }
    return [", ".join(pair) for pair in pairs], alphas, found


def _unfiltered(records: RecordSet) -> list[Alpha]:
    """Alpha records without top-k and top-p, which the paper does not have here."""
    found = records.of(Alpha, top_k=0, top_p=1.0)
    found = distinct(found, "pair", "drafter", "temperature", "lenience", *MODEL)
    # By pair and temperature, from no lenience to much, as in the paper.
    return sorted(
        found,
        key=lambda one: (*(one.pair, one.drafter, -one.temperature, -one.lenience),),
    )


def _scores(records: RecordSet, alpha: Alpha) -> TaskScores | None:
    """The scores of a decode with an alpha record's pair, temperature and lenience."""
    keys = ("temperature", "lenience", "top_k", "top_p")
    for one in records.of(TaskScores, pair=alpha.pair):
        same = all(
            one.settings.get(key, getattr(alpha, key)) == getattr(alpha, key)
            for key in keys
        )
        if same and one.of_one_model(alpha):
            return one
    return None


def _timed(records: RecordSet, alpha: Alpha) -> Benchmark | None:
    """The benchmark of an alpha record's pair, temperature and lenience.

    Of several it is one of the run, or of the gamma, that lenience was measured in.
    """
    same = {"pair": alpha.pair, "temperature": alpha.temperature}
    found = records.of(Benchmark, **same)
    lenient = [one for one in found if one.lenience < 1]
    gammas = {one.gamma for one in lenient}
    runs = {one.path for one in lenient}
    found = [
        one
        for one in found
        if one.lenience == alpha.lenience and one.of_one_model(alpha)
    ]
    return max(
        found,
        key=lambda one: (one.path in runs, one.gamma in gammas, one.speedup),
        default=None,
    )
