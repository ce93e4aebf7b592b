import sys

import numpy as np
import pytest
import sacrebleu

from specdec_jax.data.metrics import bleu, rouge
from specdec_jax.errors import SettingsError


def test_bleu_is_sacrebleus_and_is_100_for_the_reference_itself():
    references = ["der Hund – läuft im Park.", "zwei Männer spielen heute Musik"]
    predictions = ["der Hund – läuft im Garten.", "zwei Männer spielen heute Musik"]
    assert bleu(references, references) == pytest.approx(
        {"bleu": 100.0, "bleu_intl": 100.0}
    )
    scores = bleu(references, predictions)
    assert scores["bleu"] == sacrebleu.corpus_bleu(predictions, [references]).score
    assert 0 < scores["bleu_intl"] < 100
    # 13a leaves “…” on its word, international tokens cut it off.
    odd = bleu(["er kommt heute spät…"], ["er kommt heute spät"])
    assert odd["bleu_intl"] == pytest.approx(100 * np.exp(1 - 5 / 4))
    assert odd["bleu"] < odd["bleu_intl"]


def test_rouge_is_what_a_hand_counts():
    # Of 4 and 3 words: 3 common; of 3 and 2 pairs of words: 1; in one order: "the cat".
    scores = rouge(["the cat sat down"], ["sat the cat"])
    assert scores == pytest.approx(
        {"rouge1": 600 / 7, "rouge2": 40.0, "rougeLsum": 400 / 7}
    )
    mean = rouge(["the cat sat down", "yes"], ["sat the cat", "no"])
    assert mean == pytest.approx({name: score / 2 for name, score in scores.items()})


def test_lsum_compares_sentence_by_sentence():
    swapped = rouge(["a dog runs .\ntwo men play ."], ["two men play . a dog runs ."])
    assert swapped["rougeLsum"] == pytest.approx(100.0)
    in_one = rouge(["a dog runs two men play"], ["two men play a dog runs"])
    assert in_one["rougeLsum"] == pytest.approx(50.0)


@pytest.mark.parametrize(
    ("metric", "package"),
    [(bleu, "sacrebleu"), (rouge, "rouge_score.rouge_scorer")],
)
def test_a_missing_metric_is_one_clear_line(monkeypatch, metric, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(SettingsError, match=r"pip install -e '\.\[seqio\]'"):
        metric(["a"], ["a"])
