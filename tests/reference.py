"""The exact answers, in plain float64 numpy and with no code of the package."""

from collections.abc import Callable

import numpy as np
from scipy import stats

NextLaw = Callable[[tuple[int, ...]], np.ndarray]  # prefix -> [V]


def warped(logits, temperature=1.0, top_k=0, top_p=1.0) -> np.ndarray:
    """Temperature, then top-k, then top-p; temperature 0 is argmax."""
    logits = np.asarray(logits, np.float64)
    if temperature == 0:
        return np.eye(len(logits))[np.argmax(logits)]
    probs = np.exp((logits - logits.max()) / temperature)
    order = np.argsort(-probs, kind="stable")
    if top_k > 0:
        probs[order[top_k:]] = 0
    probs /= probs.sum()
    if top_p < 1:
        kept = 1 + np.searchsorted(np.cumsum(probs[order]), top_p)
        probs[order[kept:]] = 0
    return probs / probs.sum()


def table_law(table, add=0.0, **warp) -> NextLaw:
    """The next-token law of a `toy_models.table_model`."""

    def next_law(prefix):
        before = prefix[-2] if len(prefix) > 1 else 0
        return warped(table[before, prefix[-1]] + add, **warp)

    return next_law


def lenient(p: NextLaw, q: NextLaw, lenience: float) -> NextLaw:
    """Law of a token at a drafted place, under appendix A.5's lenience.

    A guess x stands with probability min(1, p/(l q)); otherwise the token comes from
    norm(max(0, p - q)), or from p if that is empty.
    """

    def next_law(prefix):
        p_v, q_v = p(prefix), q(prefix)
        stands = np.minimum(p_v / lenience, q_v)
        left = np.maximum(p_v - q_v, 0)
        left = left / left.sum() if left.sum() > 0 else p_v
        return stands + (1 - stands.sum()) * left

    return next_law


def joint_law(next_law: NextLaw, prefix, length: int, cap: int, eos: int) -> np.ndarray:
    """[V] * length: the law of what `length` places of the output buffer hold.

    A sequence ends after EOS or `cap` tokens; places past its end hold 0.
    """
    size = len(next_law(tuple(prefix)))
    law = np.zeros((size,) * length)

    def visit(drawn, mass):
        if len(drawn) == min(length, cap) or eos in drawn:
            law[drawn + (0,) * (length - len(drawn))] += mass
            return
        probs = next_law(tuple(prefix) + drawn)
        for token in np.flatnonzero(probs):
            visit((*drawn, int(token)), mass * probs[token])

    visit((), 1.0)
    return law


def greedy(next_law: NextLaw, prefix, length: int, eos: int) -> list[int]:
    """The likeliest token again and again, up to EOS or `length` tokens."""
    drawn: tuple[int, ...] = ()
    while len(drawn) < length and eos not in drawn:
        drawn += (int(np.argmax(next_law(tuple(prefix) + drawn))),)
    return list(drawn)


def ngram_law(sequences, size: int, order: int, start=0, discount=0.75) -> NextLaw:
    """Absolute discounting, interpolated, down to the uniform distribution.

    Every sequence begins after `start`; of what comes before that, -1 stands for all.
    """

    def followers(context):
        found = np.zeros(size)
        for sequence in sequences:
            text = [-1] * order + [start, *sequence]
            for i in range(order + 1, len(text)):
                if text[i - len(context) : i] == context:
                    found[text[i]] += 1
        return found

    def law(context):
        counts = followers(context)
        shorter = law(context[1:]) if context else np.full(size, 1 / size)
        if not counts.any():
            return shorter
        left = discount * np.count_nonzero(counts)
        return (np.maximum(counts - discount, 0) + left * shorter) / counts.sum()

    padding = [-1] * order
    return lambda prefix: law((padding + list(prefix))[len(prefix) + 1 :])


def copied(source, sequence, width: int, least=1, most=8) -> list[int]:
    """What prompt lookup drafts after `sequence`: up to `width` tokens."""
    best, follows, place, is_output = least, [], 0, False
    for text, ends in ((source, len(source)), (sequence, len(sequence) - 1)):
        for end in range(ends):
            longest = min(most, end + 1, len(sequence))
            same = [text[end - i] == sequence[-1 - i] for i in range(longest)]
            match = (same + [False]).index(False)
            if match >= best:
                best, follows, place = match, text, end + 1
                is_output = text is sequence
    follows, guesses = list(follows), []
    while place < len(follows) and len(guesses) < width:
        guesses.append(follows[place])
        if is_output:
            follows.append(guesses[-1])  # a copy of the output goes on from itself
        place += 1
    return guesses


def count(tokens: np.ndarray, size: int) -> np.ndarray:
    """[V] * length of how often each row of tokens [B, length] occurs."""
    length = tokens.shape[1]
    cells = np.ravel_multi_index(tuple(tokens.T), (size,) * length)
    return np.bincount(cells, minlength=size**length).reshape((size,) * length)


def assert_follows(counts: np.ndarray, law: np.ndarray, p_value: float = 1e-4) -> None:
    """The counts are a sample of the law: jointly, and at each place by itself.

    What the law rules out must not occur at all. The joint test sees any fault if it is
    big; a place's marginal has few cells and sees a small one.
    """
    assert counts.shape == law.shape
    assert counts[law == 0].sum() == 0
    axes = range(law.ndim)
    for kept in [tuple(axes), *[(axis,) for axis in axes]]:
        others = tuple(axis for axis in axes if axis not in kept)
        observed = counts.sum(axis=others).ravel()
        expected = law.sum(axis=others).ravel() * counts.sum()
        assert _chi_square(observed, expected) > p_value, f"places {kept}"


def _chi_square(observed: np.ndarray, expected: np.ndarray) -> float:
    """The p-value; cells that expect fewer than 5 are one cell."""
    rare = expected < 5
    observed = np.append(observed[~rare], observed[rare].sum())
    expected = np.append(expected[~rare], expected[rare].sum())
    filled = expected > 0
    observed, expected = observed[filled], expected[filled]
    if len(observed) == 1:
        return 1.0
    expected = expected * (observed.sum() / expected.sum())  # rounding
    return stats.chisquare(observed, expected).pvalue
