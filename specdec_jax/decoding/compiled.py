"""The two jitted programs of a decoder: begin, and the whole loop.

One compilation serves every prompt of one shape and every traced setting; the loop's
state is donated, so its caches are updated in place.
"""

import functools
from typing import runtime_checkable

import jax

from specdec_jax.decoding.contracts import Prompt
from specdec_jax.decoding.loop import finish
from specdec_jax.decoding.state import DecodeResult, LoopState, RowSettings
from specdec_jax.typing import Array, Key, Params, Protocol, PyTree


@runtime_checkable
class Decoder(Protocol):
    """`Autoregressive`, `Speculative`, or either under a mesh. Frozen and hashable."""

    def init(self, params: Params, inputs: PyTree, prompt: Prompt) -> LoopState:
        """Encodes and prefills."""

    def run(
        self,
        keys: Key[Array, " B"],
        state: LoopState,
        params: Params,
        rows: RowSettings,
    ) -> LoopState:
        """Steps until every row is finished."""


@functools.partial(jax.jit, static_argnums=0)
def begin(
    decoder: Decoder, params: Params, inputs: PyTree, prompt: Prompt
) -> LoopState:
    """Encode and prefill."""
    return decoder.init(params, inputs, prompt)


@functools.partial(jax.jit, static_argnums=0, donate_argnums=2)
def run(
    decoder: Decoder,
    keys: Key[Array, " B"],
    state: LoopState,
    params: Params,
    rows: RowSettings,
) -> LoopState:
    """The loop, to the end of the last row. `state` is consumed."""
    return decoder.run(keys, state, params, rows)


def decode(
    decoder: Decoder,
    keys: Key[Array, " B"],
    params: Params,
    inputs: PyTree,
    prompt: Prompt,
    rows: RowSettings,
) -> DecodeResult:
    """Both, one after the other."""
    state = run(decoder, keys, begin(decoder, params, inputs, prompt), params, rows)
    return finish(state)
