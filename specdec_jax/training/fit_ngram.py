"""Fitting an n-gram to token ids, in numpy, by counting."""

import os
from array import array
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from specdec_jax.data.text import read_lines
from specdec_jax.data.tokenizer import T5_IDS, Tokenizer
from specdec_jax.drafters.ngram import NOTHING, NGramParams, NGramTable, context_key
from specdec_jax.errors import DataError, SettingsError
from specdec_jax.runtime.progress import progress_bar

DISCOUNT = 0.75  # taken off every count, and given to what a shorter context says


def read_sequences(
    path: str | os.PathLike, tokenizer: Tokenizer | None
) -> Iterator[list[int]]:
    """The ids of a file's lines; an empty line is none.

    Args:
      path: of the file, plain or gzip.
      tokenizer: of lines of text; None if they are ids.

    Raises:
      DataError: it cannot be read, or a line of ids holds something else.
    """
    lines = read_lines(path)
    with progress_bar("reading") as bar:
        for number, line in enumerate(bar.track(lines, description=""), 1):
            if not line.strip():
                continue
            if tokenizer is not None:
                yield tokenizer.encode(line)
                continue
            try:
                yield np.array(line.split(), np.int32).tolist()
            except (ValueError, OverflowError) as error:
                raise DataError(f"{path}:{number}: no list of ids") from error


def fit_ngram(
    sequences: Iterable[Sequence[int] | np.ndarray],
    vocab_size: int,
    order: int = 2,
    *,
    start_id: int | None = T5_IDS.start_id,
    min_count: int = 1,
    max_successors: int = 128,
) -> NGramParams:
    """Counts n-grams, discounted and backed off (absolute discounting, interpolated).

      table(x | h) = (count(h x) - d) / count(h),  d = 3/4

    and what is left goes to the shorter context, see `drafters.ngram.next_probs`. The
    unigram itself backs off to the uniform distribution, so that no id has q = 0. From
    2 3 2 3 3 over four ids, a bigram's unigram is .075 .075 .325 .525. Its table gives
    (2 - .75) / 2 = .625 to 3 after 2, so that P(3 | 2) = .625 + .375 * .525.

    Args:
      sequences: ids, EOS included, of outputs such as the target's own.
      vocab_size: of the target.
      order: n; 1 is the unigram, 2 the bigram.
      start_id: of the tokenizer, put before every sequence as it is in generation;
        None if sequences hold it themselves, or nothing does.
      min_count: longer than unigrams, n-grams seen less often are left out.
      max_successors: of each context the most frequent so many are kept.

    Raises:
      SettingsError: order, min_count or max_successors is below 1.
      DataError: no tokens, one outside the vocabulary, or no n-gram of some length is
        seen often enough.
    """
    for name, value in (
        ("vocab_size", vocab_size),
        ("order", order),
        ("min_count", min_count),
        ("max_successors", max_successors),
    ):
        if value < 1:
            raise SettingsError(f"{name} must be at least 1, not {value}")
    text, places = _joined(sequences, vocab_size, order, start_id)
    counts = np.bincount(text[places], minlength=vocab_size)
    left = DISCOUNT * (counts > 0).sum() / vocab_size
    unigram = (np.maximum(counts - DISCOUNT, 0) + left) / counts.sum()
    tables = [
        _table(text, places, n, min_count, max_successors) for n in range(1, order)
    ]
    return NGramParams.from_arrays(unigram, tables)


def _joined(sequences, vocab_size, order, start_id):
    """All sequences in one array, each after what it starts from.

    Returns:
      The array, and the places in it of the tokens that are to be predicted.
    """
    before = [NOTHING] * (order - 1) + ([] if start_id is None else [start_id])
    text, is_predicted = array("i", []), bytearray()
    for number, sequence in enumerate(sequences, 1):
        tokens = np.asarray(sequence, np.int64)
        wrong = tokens[(tokens < 0) | (tokens >= vocab_size)]
        if wrong.size:
            raise DataError(
                f"sequence {number} holds the id {wrong[0]} and the vocabulary has "
                f"{vocab_size}"
            )
        text.extend(before)
        text.frombytes(tokens.astype(np.int32).tobytes())
        is_predicted += b"\0" * len(before) + b"\1" * len(tokens)
    places = np.flatnonzero(np.frombuffer(is_predicted, np.uint8))
    if not places.size:
        raise DataError("there are no tokens to fit an n-gram to")
    return np.frombuffer(text, np.int32), places


def _table(text, places, context, min_count, max_successors):
    """What followed each context of `context` tokens, in numpy."""
    before = np.stack([text[places - i] for i in range(context, 0, -1)], axis=-1)
    pairs = context_key(before).astype(np.uint64) << np.uint64(32)
    pairs |= text[places].astype(np.uint64)
    pairs, counts = np.unique(pairs, return_counts=True)
    keys, group = np.unique(pairs >> np.uint64(32), return_inverse=True)
    tokens = (pairs & np.uint64(2**32 - 1)).astype(np.int64)
    probs = (counts - DISCOUNT) / np.bincount(group, weights=counts)[group]
    # The rank of each successor in its context: by count, and by id if counts tie.
    by_rank = np.lexsort((tokens, -counts, group))
    start = np.searchsorted(group, np.arange(len(keys)))
    rank = np.empty_like(group)
    rank[by_rank] = np.arange(len(group)) - start[group]
    kept = (rank < max_successors) & (counts >= min_count)
    sizes = np.bincount(group[kept], minlength=len(keys))
    if not kept.any():
        raise DataError(
            f"no {context + 1} tokens follow each other {min_count} times: fit a lower "
            "order, or lower min_count"
        )
    first = np.append(0, np.cumsum(sizes[sizes > 0]))
    return NGramTable(keys[sizes > 0], first, tokens[kept], probs[kept])
