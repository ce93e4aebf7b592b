"""What a task's outputs are scored by; the packages come with the extra "seqio"."""

from collections.abc import Sequence

import numpy as np

from specdec_jax.data.extras import package
from specdec_jax.typing import Callable

Metric = Callable[[Sequence[str], Sequence[str]], dict[str, float]]


def bleu(targets: Sequence[str], predictions: Sequence[str]) -> dict[str, float]:
    """sacreBLEU of the corpus, cased and detokenized.

    "bleu" is sacreBLEU's own, with 13a tokens; "bleu_intl" is what T5 reports, with
    international tokens.
    """
    score = package("sacrebleu").corpus_bleu
    return {
        name: score(list(predictions), [list(targets)], tokenize=tokens).score
        for name, tokens in (("bleu", "13a"), ("bleu_intl", "intl"))
    }


def rouge(targets: Sequence[str], predictions: Sequence[str]) -> dict[str, float]:
    """ROUGE-1, -2 and -Lsum: F1, without stemming, the mean over rows, times 100.

    As in T5, Lsum takes each " . " as the end of a sentence: SentencePiece turns line
    ends into spaces, so that no prediction has any.
    """
    names = ["rouge1", "rouge2", "rougeLsum"]
    scorer = package("rouge_score.rouge_scorer").RougeScorer(names)
    rows = [
        scorer.score(target=_sentence_lines(a), prediction=_sentence_lines(b))
        for a, b in zip(targets, predictions, strict=True)
    ]
    return {
        name: float(100 * np.mean([row[name].fmeasure for row in rows]))
        for name in names
    }


def _sentence_lines(summary: str) -> str:
    return summary.replace(" . ", " .\n")
