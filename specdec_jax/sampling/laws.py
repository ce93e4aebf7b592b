"""Exact laws of Algorithm 1 on a small alphabet: float64 numpy, and nothing is drawn.

A toy model is a list of tables. `tables[n]` has shape [V] * (n + 1): along its last
axis lies the distribution of token n + 1, for each of the n tokens before it. A law has
an axis for each token, and holds the probability of each sequence.
"""

from collections.abc import Sequence

import numpy as np

Tables = Sequence[np.ndarray]


def joint_law(tables: Tables) -> np.ndarray:
    """P(x_1 .. x_N) = prod_i p(x_i | x_1 .. x_{i-1}), of N = len(tables) tokens.

    Of p(x_1) = .5 .5 and p(x_2 | x_1) = 1 0 after letter 0, 0 1 after letter 1, it is
    [[.5, 0], [0, .5]].

    Returns:
      [V] * N.

    Raises:
      ValueError: they are not tables of one alphabet.
    """
    law = np.ones(())
    for table in _tables("tables", tables):
        law = law[..., None] * table
    return law


def block_laws(p: Tables, q: Tables, lenience: float = 1.0) -> list[np.ndarray]:
    """What a block of Algorithm 1 gives, by the number n of accepted draft tokens.

    A draft token is x, and accepted, with probability min(p(x)/l, q(x)), as a draw
    from q and the accept test of `TokenRule` give together. Else the block ends
    with a token of norm(max(0, p - q)); after all G draft tokens, with one of p.

    Of p = .5 .5 and q = 1 0 everywhere and G = 1 they are [0, .5], the correction, and
    [[.25, .25], [0, 0]], the bonus.

    Args:
      p: G + 1 tables of the target.
      q: G tables of the drafter.
      lenience: l in (0, 1]; 1 is exact.

    Returns:
      G + 1 arrays. That of n has shape [V] * (n + 1): the probability that the block's
      tokens are x_1 .. x_n and then t. All of them together sum to 1.

    Raises:
      ValueError: p and q are not such tables, or lenience is outside (0, 1].
    """
    p, q = _tables("p", p), _tables("q", q)
    if len(p) != len(q) + 1 or any(a.shape != b.shape for a, b in zip(p, q)):  # noqa: B905, p is longer
        raise ValueError(
            "p must have one table more than q, of the same letters, got shapes "
            f"{[table.shape for table in p]} and {[table.shape for table in q]}"
        )
    if not 0 < lenience <= 1:
        raise ValueError(f"lenience must be in (0, 1], got {lenience}")
    laws, accepted = [], np.ones(())
    for p_n, q_n in zip(p[:-1], q, strict=True):
        accepts = np.minimum(p_n / lenience, q_n)
        ends = np.maximum(0.0, 1 - accepts.sum(axis=-1, keepdims=True))
        laws.append(accepted[..., None] * ends * _residual(p_n, q_n))
        accepted = accepted[..., None] * accepts
    return [*laws, accepted[..., None] * p[-1]]


def output_law(p: Tables, q: Tables, lenience: float = 1.0) -> np.ndarray:
    """The law of the first G + 1 tokens that come out of Algorithm 1.

    They are those of one block, and after a shorter one the target's own draws. At
    lenience 1 this is `joint_law(p)`, whatever q is: the paper's appendix A.1.

    Args:
      p, q, lenience: as in `block_laws`.

    Returns:
      [V] * (G + 1).
    """
    law = np.zeros(())
    for n, block in enumerate(block_laws(p, q, lenience)):
        for table in _tables("p", p)[n + 1 :]:
            block = block[..., None] * table
        law = law + block
    return law


def frequencies(tokens: np.ndarray, size: int) -> np.ndarray:
    """How often each sequence was seen, as a share of all: what tends to its law.

    Args:
      tokens: [samples, N] ids below `size`.
      size: V.

    Returns:
      [V] * N.
    """
    shape = (size,) * tokens.shape[1]
    place = np.ravel_multi_index(tuple(tokens.T), shape)
    counts = np.bincount(place, minlength=size ** tokens.shape[1])
    return counts.reshape(shape) / len(tokens)


def _residual(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """norm(max(0, p - q)) along the last axis; p where that is empty."""
    rest = np.maximum(0.0, p - q)
    mass = rest.sum(axis=-1, keepdims=True)
    return np.where(mass > 0, rest / np.where(mass > 0, mass, 1.0), p)


def _tables(name: str, tables: Tables) -> list[np.ndarray]:
    tables = [np.asarray(table, float) for table in tables]
    for n, table in enumerate(tables):
        is_table = table.shape == tables[0].shape[-1:] * (n + 1) and table.size
        is_table = is_table and np.all(table >= 0)
        if not (is_table and np.allclose(table.sum(axis=-1), 1, atol=1e-6)):
            raise ValueError(
                f"{name}[{n}] must hold a distribution for each {n} letters, of shape "
                f"{tables[0].shape[-1:] * (n + 1)}, got one of shape {table.shape}"
            )
    return tables
