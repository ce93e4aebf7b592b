import numpy as np
import pytest

from specdec_jax.data import batching
from specdec_jax.data.batching import BucketedPairs
from specdec_jax.data.tokenizer import T5_IDS, SpecialIds
from specdec_jax.errors import DataError


def pairs_of_lengths(*lengths):
    return [([2] * n, [3] * n) for n in lengths]


def test_targets_are_shifted_right_and_padding_has_no_weight():
    batch = batching.seq2seq_batch(
        [([5, 6, 1], [7, 1])], length=4, batch=2, special_ids=T5_IDS
    )
    np.testing.assert_array_equal(batch.encoder_tokens, [[5, 6, 1, 0], [0, 0, 0, 0]])
    np.testing.assert_array_equal(batch.encoder_mask[0], [True, True, True, False])
    np.testing.assert_array_equal(batch.decoder_inputs[0], [0, 7, 1, 0])
    np.testing.assert_array_equal(batch.decoder_targets[0], [7, 1, 0, 0])
    np.testing.assert_array_equal(batch.weights, [[1, 1, 0, 0], [0, 0, 0, 0]])


def test_a_batch_starts_and_is_filled_with_the_ids_that_it_is_given():
    special_ids = SpecialIds(start_id=8, eos_id=1, pad_id=9)
    batch = batching.seq2seq_batch([([5, 1], [7, 6, 1])], 4, 2, special_ids)
    assert batch.encoder_tokens.tolist() == [[5, 1, 9, 9], [9, 9, 9, 9]]
    assert batch.decoder_inputs.tolist() == [[8, 7, 6, 1], [8, 9, 9, 9]]
    assert batch.decoder_targets.tolist() == [[7, 6, 1, 9], [9, 9, 9, 9]]
    assert batch.weights.tolist() == [[1, 1, 1, 0], [0, 0, 0, 0]]


def test_padding_rows_keep_one_position_to_attend_to():
    assert batching.lengths_mask([[4, 4]], length=3, batch=2).tolist() == [
        [True, True, False],
        [True, False, False],
    ]


def test_every_epoch_has_every_pair_once_in_another_order():
    pairs = [([2, i], [3, i]) for i in range(10, 40)] + [
        ([4] * 9, [i] * 9) for i in (7, 8)
    ]
    data = BucketedPairs(
        pairs, (4, 12), tokens_per_batch=32, seed=0, special_ids=T5_IDS
    )
    epochs = []
    for epoch in range(2):
        seen = []
        for i in range(data.batches_per_epoch):
            batch = data.batch(epoch * data.batches_per_epoch + i)
            rows = batch.weights.sum(axis=1) > 0
            seen += batch.decoder_targets[rows, 1].tolist()
        epochs.append(seen)
    assert sorted(epochs[0]) == sorted(epochs[1]) == [7, 8, *range(10, 40)]
    assert epochs[0] != epochs[1]


def test_a_batch_is_the_same_whatever_was_asked_for_before():
    pairs = pairs_of_lengths(*range(1, 30))
    first = BucketedPairs(
        pairs, (8, 32), tokens_per_batch=64, seed=5, special_ids=T5_IDS
    )
    again = BucketedPairs(
        pairs, (8, 32), tokens_per_batch=64, seed=5, special_ids=T5_IDS
    )
    for i in range(12):
        first.batch(i)
    np.testing.assert_array_equal(
        first.batch(9).encoder_tokens, again.batch(9).encoder_tokens
    )


def test_batches_have_about_the_tokens_asked_for_and_few_shapes():
    data = BucketedPairs(
        pairs_of_lengths(*[3, 7, 15] * 50), (4, 8, 16), 256, seed=0, special_ids=T5_IDS
    )
    shapes = {data.batch(i).encoder_tokens.shape for i in range(data.batches_per_epoch)}
    assert shapes == {(64, 4), (32, 8), (16, 16)}


def test_pairs_that_are_too_long_are_left_out_and_none_left_is_an_error():
    data = BucketedPairs(
        pairs_of_lengths(3, 50), (4, 8), 32, seed=0, special_ids=T5_IDS
    )
    assert data.batches_per_epoch == 1
    with pytest.raises(DataError, match="8 tokens"):
        BucketedPairs(pairs_of_lengths(50), (4, 8), 32, seed=0, special_ids=T5_IDS)
