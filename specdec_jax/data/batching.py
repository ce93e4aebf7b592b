"""Batches of token ids: grouped by length, so that little work is done on padding."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from specdec_jax.data.tokenizer import SpecialIds
from specdec_jax.errors import DataError
from specdec_jax.typing import Array, Bool, Float32, Int32, record

TokenPair = tuple[Sequence[int], Sequence[int]]


@record
class Seq2SeqBatch:
    """Pairs for teacher forcing.

    Attributes:
      encoder_tokens, encoder_mask: the input, and where it is not padding.
      decoder_inputs: the output shifted right, from the start token on.
      decoder_targets: the output.
      weights: 1 at its tokens, 0 at padding.
    """

    encoder_tokens: Int32[Array, "B E"]
    encoder_mask: Bool[Array, "B E"]
    decoder_inputs: Int32[Array, "B T"]
    decoder_targets: Int32[Array, "B T"]
    weights: Float32[Array, "B T"]


def pad(
    rows: Sequence[Sequence[int]], length: int, pad_id: int, batch: int | None = None
) -> np.ndarray:
    """Rows of ids as one int32 array [batch, length], filled up with `pad_id`."""
    padded = np.full((batch or len(rows), length), pad_id, np.int32)
    for i, row in enumerate(rows):
        padded[i, : len(row)] = row
    return padded


def bucketed(length: int, multiple: int) -> int:
    """A length rounded up to a multiple, so that few shapes are compiled."""
    return -(-length // multiple) * multiple


def lengths_mask(rows: Sequence[Sequence[int]], length: int, batch: int) -> np.ndarray:
    """True where `pad` put a row's own ids; padding rows keep one position, as
    attention needs something to attend to."""
    lengths = np.array([len(row) for row in rows] + [1] * (batch - len(rows)))
    return np.arange(length)[None, :] < lengths[:, None]


def seq2seq_batch(
    pairs: Sequence[TokenPair], length: int, batch: int, special_ids: SpecialIds
) -> Seq2SeqBatch:
    """Pairs of ids as one batch [batch, length] of both sides."""
    start_id, pad_id = special_ids.start_id, special_ids.pad_id
    sources = [source for source, _ in pairs]
    targets = [target for _, target in pairs]
    decoder_targets = pad(targets, length, pad_id, batch)
    return Seq2SeqBatch(
        encoder_tokens=pad(sources, length, pad_id, batch),
        encoder_mask=lengths_mask(sources, length, batch),
        decoder_inputs=np.insert(decoder_targets[:, :-1], 0, start_id, axis=1),
        decoder_targets=decoder_targets,
        weights=(
            np.arange(length)[None, :]
            < np.array([len(t) for t in targets] + [0] * (batch - len(targets)))[
                :, None
            ]
        ).astype(np.float32),
    )


@dataclasses.dataclass(frozen=True)
class BucketedPairs:
    """Pairs grouped by length, in batches of few shapes.

    The order depends on the seed and the epoch alone, so that a resumed run
    continues exactly where the first one stopped: batch i of the whole training is
    `batch(i)`, whatever was asked for before.

    Attributes:
      pairs: ids of (source, target), both with EOS.
      boundaries: the lengths that batches are padded to; longer pairs are left out.
      tokens_per_batch: a batch padded to n has about tokens_per_batch / n rows.
      seed: of the order.
      special_ids: of the tokenizer.
    """

    pairs: Sequence[TokenPair]
    boundaries: tuple[int, ...]
    tokens_per_batch: int
    seed: int
    special_ids: SpecialIds

    def __post_init__(self):
        buckets = [[] for _ in self.boundaries]
        for i, (source, target) in enumerate(self.pairs):
            length = max(len(source), len(target))
            bucket = np.searchsorted(self.boundaries, length)
            if bucket < len(buckets):
                buckets[bucket].append(i)
        if not any(buckets):
            raise DataError(
                f"no pair is within the longest length, {self.boundaries[-1]} tokens"
            )
        object.__setattr__(self, "_buckets", [np.array(b, int) for b in buckets])
        object.__setattr__(self, "_epoch", (None, None))

    def rows(self, length: int) -> int:
        """Batch rows at one padded length: a multiple of 8."""
        return max(8, self.tokens_per_batch // length // 8 * 8)

    @property
    def batches_per_epoch(self) -> int:
        return sum(
            -(-len(bucket) // self.rows(length))
            for bucket, length in zip(self._buckets, self.boundaries, strict=True)
        )

    def batch(self, step: int) -> Seq2SeqBatch:
        """Batch number `step` of the training, counted over all epochs."""
        epoch, place = divmod(step, self.batches_per_epoch)
        if self._epoch[0] != epoch:
            object.__setattr__(self, "_epoch", (epoch, self._shuffled_batches(epoch)))
        length, indices = self._epoch[1][place]
        return seq2seq_batch(
            [self.pairs[i] for i in indices],
            length,
            self.rows(length),
            self.special_ids,
        )

    def _shuffled_batches(self, epoch: int) -> list[tuple[int, np.ndarray]]:
        random = np.random.default_rng((self.seed, epoch))
        batches = []
        for bucket, length in zip(self._buckets, self.boundaries, strict=True):
            shuffled = random.permutation(bucket)
            rows = self.rows(length)
            batches += [
                (length, shuffled[i : i + rows]) for i in range(0, len(bucket), rows)
            ]
        return [batches[i] for i in random.permutation(len(batches))]
