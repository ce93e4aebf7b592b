import tracemalloc

import numpy as np
import pytest

from specdec_jax.data.examples import Example, TokenPairs, decode_batches
from specdec_jax.errors import SettingsError

EOS = 9


def test_token_pairs_take_little_more_than_their_ids():
    row = np.arange(10, dtype=np.int32), np.arange(5, dtype=np.int32)
    tracemalloc.start()
    pairs = TokenPairs(row for _ in range(20_000))
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(pairs) == 20_000
    assert used < 2 * 20_000 * (4 * 15 + 8 * 2)


def example(index):
    return Example(index, [5 + index, EOS], [EOS], "", "")


def test_batches_keep_the_order_and_mark_what_fills_the_last():
    rows = [example(i) for i in range(7)]
    batches = list(decode_batches(rows, 3, EOS, start=2))
    assert [e.index for b in batches for e in b.examples] == [2, 3, 4, 5, 6]
    assert [b.row_ids for b in batches] == [[2, 3, 4], [5, 6, 0]]
    assert batches[1].inputs == [[10, EOS], [11, EOS], [EOS]]
    assert [b.is_padding.tolist() for b in batches] == [
        [False, False, False],
        [False, False, True],
    ]
    assert list(decode_batches(rows, 3, EOS, start=7)) == []
    with pytest.raises(SettingsError, match="batch_size"):
        list(decode_batches(rows, 0, EOS))
