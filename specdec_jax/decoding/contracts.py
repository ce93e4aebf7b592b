"""What a loop needs of a model and of a drafter, and nothing of what they are."""

import dataclasses
from typing import runtime_checkable

import jax
from flax import struct

from specdec_jax.axes import constrain
from specdec_jax.sampling import Noise, Rule, Warp
from specdec_jax.typing import (
    Array,
    Cache,
    Callable,
    Float,
    Float32,
    Int32,
    Key,
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
      start: (params, inputs, slots) -> (cache, context). What the model conditions on
        besides its own tokens (a T5's source; nothing for a decoder-only model) is
        taken in here, once. The cache has room for `slots` tokens of each row and holds
        none. The context is what the model has worked out of its inputs, for drafters
        that read it: a T5's encoder output [B, E, D]; None of a decoder-only model.
      extend: (params, cache, tokens [B, T], lengths [B], taps=()) -> (logits [B, T, V]
        in float32, features, cache). Scores T tokens put at each row's own length.
        Slots from `lengths` on count for nothing before and are overwritten. `taps` is
        static and names decoder layers, from 0; their outputs are the features,
        [B, T, K, D], in the order of taps. Without taps features are None, and nothing
        is computed for them.
      max_length: positions that it knows, if they end: of prompt and new tokens
        together, all but the last new one have one.
      num_layers: L, of the decoder: taps are below it.
    """

    vocab_size: int
    padded_vocab_size: int
    start: Callable[[Params, PyTree, int], tuple[Cache, PyTree]]
    extend: Callable[..., tuple[Array, Array | None, Cache]]
    max_length: int | None = None
    num_layers: int = 0


@record
class Prompt:
    """The tokens that generation goes on from, at least one a row.

    A T5's is the start token alone; a decoder-only model's is its input.
    """

    tokens: Int32[Array, "B P"]
    lengths: Int32[Array, " B"]  # in 1..P; later tokens of a row are padding


@record
class Draw:
    """How a drafter draws its tokens: `draw(q, i)`, and no random numbers of its own.

    The rule says how a token is drawn from a distribution, so one drafter works under
    every rule.
    """

    uniforms: Float32[Array, "B G"]
    keys: Key[Array, "B G"]  # of the absolute positions of the draft tokens
    rule: Rule = struct.field(pytree_node=False)

    @property
    def max_gamma(self) -> int:
        """G, the width of the block: static, and at least every row's gamma."""
        return self.uniforms.shape[1]

    def __call__(
        self, probs_bv: Float32[Array, "B V"], i: int | Int32[Array, ""]
    ) -> Int32[Array, " B"]:
        """Draws draft token i of every row, each from its own distribution.

        Args:
          probs_bv: [B, V], q of each row at this place: what `Proposal.probs` declares.
          i: the place in the block, from 0; traced or not.

        Raises:
          IndexError: `i` is an integer, and past the block.
        """
        if isinstance(i, int) and not 0 <= i < self.max_gamma:
            raise IndexError(f"a block of {self.max_gamma} has no place {i}")
        at = (jax.lax.dynamic_index_in_dim(x, i, 1, keepdims=False) for x in self._all)
        return constrain(jax.vmap(self.rule.draw)(probs_bv, Noise(*at)), "batch")

    @property
    def _all(self) -> tuple[Array, Array]:
        return self.uniforms, self.keys


@record
class Proposal:
    """A drafted block, of which each row's first `num_drafted` are in force.

    A drafter that finds nothing worth drafting makes fewer than it was asked for, and
    none at all if need be. It may decide so from what was committed and from its
    draft tokens before, and never from the token that it leaves out: dropping a token
    that was drawn would bias the output.
    """

    tokens: Int32[Array, "B G"]
    probs: Float32[Array, "B G V"]  # q, what each was drawn from; one-hot if by rule
    num_drafted: Int32[Array, " B"]  # in 0..gamma, the gamma that was asked for


@record
class Commit:
    """What became of a block: what a drafter that keeps state is told.

    Row b's sequence grew by `tokens[b, : num_accepted[b] + 1]`: the accepted draft
    tokens, then the target's own token. The rest of `tokens` has no meaning.
    """

    tokens: Int32[Array, "B G+1"]
    num_accepted: Int32[Array, " B"]
    gamma: Int32[Array, " B"]  # draft tokens in force: the num_drafted proposed
    active: Array  # bool [B]; False: the row is finished, keep its state as it is
    # The target's at the drafter's taps, at the last token and the draft tokens.
    features: Float[Array, "B G+1 K D"] | None


@runtime_checkable
class Drafter(Protocol):
    """Drafts tokens. With a network or without one, it is the same to the loop.

    Frozen and hashable, like `LanguageModel`. Its state is any pytree of arrays. It
    never handles random numbers: it draws with the `draw` that it is handed.
    `drafters.base` has bases to build on.

    Attributes:
      vocab_size: of the target.
      max_length: positions that it knows, as a `LanguageModel`'s; None if they do not
        end.
      taps: layers of the target's decoder whose outputs it wants as features; () for
        none, which are then not computed.
    """

    vocab_size: int
    max_length: int | None
    taps: tuple[int, ...]

    def init(
        self,
        params: Params,
        inputs: PyTree,
        context: PyTree,
        prompt: Prompt,
        prompt_features: Array | None,
        slots: int,
    ) -> PyTree:
        """The state before the first block.

        Args:
          params: the drafter's.
          inputs: what the target's `start` is given too.
          context: what the target's `start` made of them.
          prompt: the tokens so far.
          prompt_features: [B, P - 1, K, D], the target's at the drafter's taps, at all
            prompt tokens but the last; None without taps, or if P is 1.
          slots: positions that a row's sequence, draft tokens included, may come to.
        """

    def propose(
        self,
        params: Params,
        state: PyTree,
        draw: Draw,
        warp: Warp,
        gamma: Int32[Array, " B"],
    ) -> tuple[Proposal, PyTree]:
        """A block of G = `draw.max_gamma` draft tokens after all tokens committed.

        Args:
          params, state: the drafter's.
          draw: (q [B, V], i) -> tokens [B]: draws draft token i.
          warp: of shape [B], how each row's q is standardized.
          gamma: [B], in 0..G: draft tokens wanted of each row, at most.
        """

    def commit(self, params: Params, state: PyTree, commit: Commit) -> PyTree:
        """Takes in what became of the block that was just proposed."""
