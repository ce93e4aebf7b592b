"""What a verification rule is, and what it sees: one stream's drafted block."""

from typing import runtime_checkable

from specdec_jax.typing import Array, Bool, Float32, Int32, Key, Protocol, record


@record
class Noise:
    """The randomness of one draw, from which a rule takes what it needs.

    `uniform` belongs to (row, step, use): no other draw has it. `key` belongs to (row,
    absolute position): the drafter, the target and the baseline have the same one where
    they draw the same token of a row.
    """

    uniform: Float32[Array, "*B"]  # in [0, 1)
    key: Key[Array, "*B"]


@record
class Block:
    """One stream's drafted block. Row i is that of draft token i, from 0.

    p and q are standardized alike, and q is what the draft tokens were drawn from:
    one-hot for a deterministic drafter.
    """

    target_probs: Float32[Array, "G+1 V"]  # p; row i given the draft tokens before i
    draft_probs: Float32[Array, "G V"]  # q
    draft_tokens: Int32[Array, " G"]  # x, in [0, V)
    gamma: Int32[Array, ""]  # draft tokens in force, 0..G; rows from here on are void
    forced_accept: Bool[Array, " G"]  # accepted whatever p and q say: lenience
    accept_uniforms: Float32[Array, " G"]  # r, in [0, 1)
    draw_uniform: Float32[Array, ""]  # of the one token that follows, in [0, 1)
    position_keys: Key[Array, " G+1"]  # of the absolute position of each row

    def noise(self, position: Int32[Array, ""]) -> Noise:
        """What the token that follows `position` accepted ones is drawn with."""
        return Noise(self.draw_uniform, self.position_keys[position])


@record
class Verdict:
    """`num_accepted` draft tokens are accepted, then comes `next_token`."""

    num_accepted: Int32[Array, ""]  # n, in 0..gamma
    next_token: Int32[Array, ""]  # t: the correction, or the bonus token if n = gamma


@runtime_checkable
class Rule(Protocol):
    """How tokens are drawn, and how many of a drafted block are accepted.

    A frozen, hashable value: it is a static argument of the jitted loop. Both functions
    are for one stream; the loop batches them by `jax.vmap`. A rule is lossless if, with
    draft tokens drawn by `draw` from q, the accepted ones and `next_token` follow p.
    """

    def draw(self, probs_v: Float32[Array, " V"], noise: Noise) -> Int32[Array, ""]:
        """One token from a distribution: of the drafter, of the baseline, of p."""

    def verify(self, block: Block) -> Verdict:
        """Judges one block."""
