"""Logical axes: what an array's axes are called, whatever a mesh makes of them.

Networks and loops name the axes of what they compute with `constrain`. Without a mesh
that is nothing: the array itself comes back, and nothing is added to the program. Under
a mesh (`specdec_jax.partitioning`) the names say how an array is sharded over devices.

    batch     rows                           length    positions of one call
    embed     the width between layers       mlp       the feed-forward's hidden width
    heads     attention heads                head_dim  the size of a head
    joined_kv heads times head size          slots     slots of a cache, or positions
    vocab     ids, in logits                 lookup    ids, in the embedding
    positions that have an embedding         buckets   of relative distances
    rows      rows, of what is sampled from
"""

import contextlib
import contextvars
from collections.abc import Iterator

from specdec_jax.typing import Array, Callable

Constrain = Callable[[Array, tuple[str | None, ...]], Array]

_CONSTRAIN: contextvars.ContextVar[Constrain | None] = contextvars.ContextVar(
    "constrain", default=None
)


def constrain(x: Array, *names: str | None) -> Array:
    """The same array, sharded over the devices as the names of its axes say.

    Args:
      x: of any shape.
      names: one for each axis; None for an axis that is never sharded.
    """
    if len(names) != x.ndim:
        raise ValueError(f"{x.ndim} axes of {x.shape} and {len(names)} names: {names}")
    inner = _CONSTRAIN.get()
    return x if inner is None else inner(x, names)


@contextlib.contextmanager
def constrained_by(inner: Constrain) -> Iterator[None]:
    """What is traced inside is sharded as `inner` says."""
    token = _CONSTRAIN.set(inner)
    try:
        yield
    finally:
        _CONSTRAIN.reset(token)
