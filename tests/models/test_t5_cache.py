"""T5 decoding from its cache: in chunks, at unlike offsets, after rollbacks."""

import functools

import numpy as np
import pytest

from tests.models.blocks import PREFIX, decode
from tests.models.goldens import TOLERANCE


@pytest.mark.parametrize("chunk", [1, 2, 3, 5])
def test_decoding_in_chunks_equals_golden_with_rows_at_unlike_offsets(golden, chunk):
    starts = np.array([9, 2, 5])[: len(golden.logits)]
    logits = decode(golden, chunk, starts, lambda _: np.full_like(starts, chunk), 1)
    np.testing.assert_allclose(logits, golden.logits, **TOLERANCE)


@pytest.mark.parametrize("chunk", [2, 5])
def test_rows_that_each_forget_junk_at_every_step_equal_golden(golden, chunk):
    rows = np.arange(len(golden.logits))
    starts = 1 + rows
    keep = lambda step: 1 + (step + 2 * rows) % chunk  # noqa: E731
    logits = decode(golden, chunk, starts, keep, 2)
    np.testing.assert_allclose(logits, golden.logits, **TOLERANCE)


def test_a_cache_after_a_rollback_decodes_as_if_it_had_never_seen_the_junk(golden):
    rows = len(golden.logits)
    tokens = np.asarray(golden.decoder_tokens)
    lengths = np.array([3, 8, 6], np.int32)[:rows]
    call = functools.partial(golden.extend, golden.variables)
    _, _, clean = call(golden.start(), tokens[:, :PREFIX], np.zeros(rows, np.int32))
    # Junk over all that follows each row's length, more than once.
    junked = clean
    rng = np.random.default_rng(3)
    for begin in (lengths, lengths + 4, lengths + 1):
        junk = rng.integers(0, 90, (rows, 5)).astype(np.int32)
        _, _, junked = call(junked, junk, begin)
    before, after = np.asarray(clean.past[0].keys), np.asarray(junked.past[0].keys)
    changed = (before != after).any(axis=(1, 3))
    for row, length in enumerate(lengths):
        assert changed[row, length : length + 9].all()
        assert not changed[row, :length].any()

    fresh = np.stack([tokens[row, n : n + 5] for row, n in enumerate(lengths)])
    expected, expected_features, _ = call(clean, fresh, lengths, (0, 1))
    logits, features, _ = call(junked, fresh, lengths, (0, 1))
    np.testing.assert_array_equal(logits, expected)
    np.testing.assert_array_equal(features, expected_features)
