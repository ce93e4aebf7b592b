"""Lenience, Table 5 of the paper, and what it does to the pairs measured here."""

from specdec_jax.experiments import commands, paper
from specdec_jax.experiments.kinds import Alpha, Benchmark, TaskScores
from specdec_jax.experiments.record_set import RecordSet
from specdec_jax.experiments.reproduce.alpha_tables import PAIR_KEYS, unfiltered
from specdec_jax.experiments.tables import Column, Kind, Source, Table
from specdec_jax.sampling import theory


def table_5(records: RecordSet) -> list[Table]:
    """Alpha and speedup by lenience, at temperature 1 and 0."""
    return [
        _at_temperature_1(records),
        _at_temperature_0(records),
        _measured(records),
    ]


def _at_temperature_1(records: RecordSet) -> Table:
    pairs, alphas, found = _measured_alphas(records, 1.0)
    rows = [
        (
            lenience,
            *paper.LENIENT_ALPHAS[lenience],
            paper.LENIENT_SPEEDS[lenience],
            *alphas[lenience],
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
            lenience,
            alpha,
            speed,
            theory.speedup(alpha, gamma, c),
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
    alphas, rows, used = unfiltered(records), [], {"speedup": [], "BLEU": []}
    for one in alphas:
        timed, scores = _timed(records, one), _scores(records, one)
        used["speedup"] += [timed] if timed else []
        used["BLEU"] += [scores] if scores else []
        rows.append(
            (
                one.pair,
                one.drafter,
                one.temperature,
                one.lenience,
                one.alpha,
                one.alpha_interval,
                one.inputs,
                one.tokens,
                timed and timed.gamma,
                timed and timed.alpha,
                timed and timed.speedup,
                timed and timed.speedup_spread,
                scores and scores.scores.get("bleu"),
                scores and scores.tokens_per_target_call,
            )
        )
    columns = (
        *PAIR_KEYS,
        Column("l", format="g"),
        Column("α", Kind.MEASURED),
        Column("95%", Kind.MEASURED),
        Column("inputs", Kind.MEASURED, "d"),
        Column("tokens", Kind.MEASURED, "d"),
        Column("γ", format="d"),
        Column("α in the loop", Kind.MEASURED),
        Column("speedup", Kind.MEASURED),
        Column("rounds", Kind.MEASURED),
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
    found = [one for one in unfiltered(records) if one.temperature == temperature]
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
