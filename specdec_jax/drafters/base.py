"""What drafters without a network share, and what wrapping a drafter keeps."""

import dataclasses
from typing import ClassVar

import jax

from specdec_jax.decoding.contracts import Commit, Drafter, Draw, Prompt, Proposal
from specdec_jax.sampling import Warp
from specdec_jax.typing import Array, Int32, Params, PyTree


@dataclasses.dataclass(frozen=True)
class RuleBasedDrafter:
    """Base of drafters without a network: write `propose`, and what state it needs.

    Attributes:
      vocab_size: of the target.
      padded_vocab_size: V, the width of the target's logits.
    """

    vocab_size: int
    padded_vocab_size: int

    taps: ClassVar[tuple[int, ...]] = ()
    max_length: ClassVar[int | None] = None

    def init(
        self,
        params: Params,
        inputs: PyTree,
        context: PyTree,
        prompt: Prompt,
        prompt_features: Array | None,
        slots: int,
    ) -> PyTree:
        """No state."""
        return ()

    def commit(self, params: Params, state: PyTree, commit: Commit) -> PyTree:
        """The state as it is."""
        return state

    def one_hot(
        self, tokens: Int32[Array, "B G"], num_drafted: Int32[Array, " B"]
    ) -> Proposal:
        """A block of tokens that were chosen and not drawn: q is one-hot at them."""
        q = jax.nn.one_hot(tokens, self.padded_vocab_size)
        return Proposal(tokens, q, num_drafted)


@dataclasses.dataclass(frozen=True)
class WrappedDrafter:
    """Base of drafters that change another one: it is as the inner one in all else.

    Attributes:
      inner: any drafter.
    """

    inner: Drafter

    @property
    def vocab_size(self) -> int:
        return self.inner.vocab_size

    @property
    def max_length(self) -> int | None:
        return self.inner.max_length

    @property
    def taps(self) -> tuple[int, ...]:
        return self.inner.taps

    def init(
        self,
        params: Params,
        inputs: PyTree,
        context: PyTree,
        prompt: Prompt,
        prompt_features: Array | None,
        slots: int,
    ) -> PyTree:
        """The inner one's."""
        return self.inner.init(params, inputs, context, prompt, prompt_features, slots)

    def propose(
        self,
        params: Params,
        state: PyTree,
        draw: Draw,
        warp: Warp,
        gamma: Int32[Array, " B"],
    ) -> tuple[Proposal, PyTree]:
        """The inner one's."""
        return self.inner.propose(params, state, draw, warp, gamma)

    def commit(self, params: Params, state: PyTree, commit: Commit) -> PyTree:
        """The inner one's."""
        return self.inner.commit(params, state, commit)
