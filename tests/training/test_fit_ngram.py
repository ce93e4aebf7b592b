import numpy as np
import pytest

from specdec_jax.drafters import ngram
from specdec_jax.errors import DataError, SettingsError
from specdec_jax.training.fit_ngram import fit_ngram

TEXT = [2, 3, 2, 3, 3]


def successors(params, *context):
    """{id: probability} after one context; empty if it is not known."""
    table = params.tables[len(context) - 1]
    key = ngram.context_key(np.array([context], np.int32))
    found = np.flatnonzero(np.asarray(table.keys) == key)
    if not found.size:
        return {}
    place = slice(int(table.first[found[0]]), int(table.first[found[0] + 1]))
    ids, probs = np.asarray(table.tokens)[place], np.asarray(table.probs)[place]
    return dict(zip(ids.tolist(), probs.tolist(), strict=True))


def test_what_its_docstring_works_out():
    params = fit_ngram([TEXT], 4)
    np.testing.assert_allclose(params.unigram, [0.075, 0.075, 0.325, 0.525], rtol=1e-6)
    assert successors(params, 2) == {3: 0.625}
    assert successors(params, 3) == {2: 0.125, 3: 0.125}
    assert successors(params, 0) == {2: 0.25}  # the start token's


def test_sequences_do_not_run_into_each_other():
    """3 never follows 2, and neither begins a context of the other sequence."""
    params = fit_ngram([[2], [3, 3]], 4, 3)
    assert successors(params, 0) == {2: 0.125, 3: 0.125}
    assert successors(params, 3) == {3: 0.25}
    assert successors(params, 0, 3) == {3: 0.25}
    assert successors(params, ngram.NOTHING, 0) == successors(params, 0)
    assert [len(table.keys) for table in params.tables] == [2, 2]


def test_without_a_start_token_the_first_token_begins_the_row():
    params = fit_ngram([TEXT], 4, start_id=None)
    assert successors(params, ngram.NOTHING) == {2: 0.25}
    assert len(params.tables[0].keys) == 3


def test_rare_and_surplus_successors_are_left_out_and_not_scaled_up():
    text = [2, 3] * 4 + [2, 4] * 3 + [2, 5] * 3 + [2, 6]  # 2 is followed 11 times
    params = fit_ngram([text], 8, max_successors=2)
    found = successors(params, 2)
    assert found == pytest.approx({3: 3.25 / 11, 4: 2.25 / 11})  # of 4 and 5 the lower
    assert params.max_successors == 2
    params = fit_ngram([text], 8, min_count=2)
    assert set(successors(params, 2)) == {3, 4, 5}
    assert set(successors(params, 3)) == {2}
    assert successors(params, 0) == {}  # its only successor came once


def test_tables_are_sorted_and_narrow():
    random = np.random.default_rng(0)
    params = fit_ngram(random.integers(0, 300, (50, 40)), 300, 3)
    for table in params.tables:
        keys = np.asarray(table.keys).astype(np.int64)
        assert (np.diff(keys) > 0).all()
        assert table.tokens.dtype == np.uint16
        assert table.tokens.shape == table.probs.shape
        assert table.tokens.shape[0] == table.first[-1] + params.max_successors
    assert fit_ngram([[70_000]], 70_001).tables[0].tokens.dtype == np.int32


@pytest.mark.parametrize(
    ("sequences", "changes", "words"),
    [
        ([], {}, "no tokens"),
        ([[], []], {}, "no tokens"),
        ([[1], [2, 4]], {}, "sequence 2 holds the id 4 and the vocabulary has 4"),
        ([[1], [-1]], {}, "sequence 2 holds the id -1"),
        ([[1, 2, 3]], {"min_count": 2}, "no 2 tokens follow each other 2 times"),
    ],
)
def test_texts_that_cannot_be_fitted_are_named(sequences, changes, words):
    with pytest.raises(DataError, match=words):
        fit_ngram(sequences, 4, **changes)


@pytest.mark.parametrize("name", ["order", "min_count", "max_successors"])
def test_settings_below_1_are_named(name):
    with pytest.raises(SettingsError, match=f"{name} must be at least 1"):
        fit_ngram([TEXT], 4, **{name: 0})
