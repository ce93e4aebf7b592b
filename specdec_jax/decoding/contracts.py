"""What a loop needs of a model and of a drafter, and nothing of what they are."""

import dataclasses
from typing import runtime_checkable

from specdec_jax.sampling import Warp
from specdec_jax.typing import (
    Array,
    Cache,
    Callable,
    Float,
    Float32,
    Int32,
    Params,
    Protocol,
    PyTree,
    record,
)


@dataclasses.dataclass(frozen=True)
class LanguageModel:
    """An autoregressive model, as the functions that a loop calls.

    Hashable, so that it can be a static argument of a jitted loop: make one for each
    configuration and keep it.

    Attributes:
      vocab_size: ids below it can be drawn; logits past it are padding.
      padded_vocab_size: V, the width of the logits.
      start: (params, inputs, slots) -> cache. What the model conditions on besides its
        own tokens (a T5's source text; nothing for a decoder-only model) is taken in
        here, once. The cache has room for `slots` tokens of each row and holds none.
      extend: (params, cache, tokens [B, T], lengths [B]) -> (logits [B, T, V] in
        float32, features [B, T, D], cache). Scores T tokens put at each row's own
        length. Slots from `lengths` on count for nothing before and are overwritten.
      max_length: positions that it knows, if they end: of prompt and new tokens
        together, all but the last new one have one.
    """

    vocab_size: int
    padded_vocab_size: int
    start: Callable[[Params, PyTree, int], Cache]
    extend: Callable[[Params, Cache, Array, Array], tuple[Array, Array, Cache]]
    max_length: int | None = None


@record
class Prompt:
    """The tokens that generation goes on from, at least one a row.

    A T5's is the start token alone; a decoder-only model's is its text.
    """

    tokens: Int32[Array, "B P"]
    lengths: Int32[Array, " B"]  # in 1..P; later tokens of a row are padding


@record
class Proposal:
    """A drafted block, of which each row's first `num_drafted` are in force.

    A drafter that finds nothing worth guessing makes fewer than it was asked for, and
    none at all if need be. It may decide so from what was committed and from its
    guesses before, and never from the guess that it leaves out: dropping a guess that
    was drawn would bias the output.
    """

    tokens: Int32[Array, "B G"]
    probs: Float32[Array, "B G V"]  # q, what each was drawn from; one-hot if by rule
    num_drafted: Int32[Array, " B"]  # in 0..gamma, the gamma that was asked for


@record
class Commit:
    """What became of a block: what a drafter that keeps state is told.

    Row b's sequence grew by `tokens[b, : num_accepted[b] + 1]`: the guesses that stand,
    then the target's own token. The rest of `tokens` has no meaning.
    """

    tokens: Int32[Array, "B G+1"]
    num_accepted: Int32[Array, " B"]
    gamma: Int32[Array, " B"]  # guesses that were in force: the num_drafted proposed
    active: Array  # bool [B]; False: the row is finished, keep its state as it is
    features: Float[Array, "B G+1 D"]  # the target's, at the last token and the guesses


@runtime_checkable
class Drafter(Protocol):
    """Guesses tokens. With a network or without one, it is the same to the loop.

    Frozen and hashable, like `LanguageModel`. Its state is any pytree of arrays.
    """

    vocab_size: int

    def init(
        self, params: Params, inputs: PyTree, prompt: Prompt, slots: int
    ) -> PyTree:
        """The state before the first block.

        Args:
          params: the drafter's.
          inputs: what the target's `start` is given too.
          prompt: the tokens so far.
          slots: positions that a row's sequence, guesses included, may come to.
        """

    def propose(
        self,
        params: Params,
        state: PyTree,
        uniforms: Float32[Array, "B G"],
        warp: Warp,
        gamma: Int32[Array, " B"],
    ) -> tuple[Proposal, PyTree]:
        """G guesses after all tokens committed so far.

        Args:
          params, state: the drafter's.
          uniforms: in [0, 1), the only randomness, one for each guess.
          warp: of shape [B], how each row's q is standardized.
          gamma: [B], in 0..G: guesses wanted of each row, at most.
        """

    def commit(self, state: PyTree, commit: Commit) -> PyTree:
        """Takes in what became of the block that was just proposed."""
