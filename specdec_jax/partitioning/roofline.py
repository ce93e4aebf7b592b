"""How long a step must take: what it has to read, compute and send, at a chip's peaks.

This is a model, and a floor: no program is faster, and one that reaches neither peak is
slower. What a compiled program in fact reads and sends is told by `hlo`.
"""

import dataclasses
import math

import jax
import jax.numpy as jnp
from flax import traverse_util

from specdec_jax.models.cache import KeyValues
from specdec_jax.partitioning.description import Decode, Side, state_of
from specdec_jax.partitioning.mesh import (
    MODEL,
    SECONDS_PER_SUM,
    axis_size,
    step_messages,
)
from specdec_jax.partitioning.sharding import Layout
from specdec_jax.partitioning.topology import Chip

STEPS = ("target step", "verify step", "draft step")


@dataclasses.dataclass(frozen=True)
class StepCost:
    """What one chip has to do in one step; every number is of one chip.

    Attributes:
      weight_bytes: of the weights that a step multiplies with, each read once.
      cache_bytes: of the keys and values, all slots, each read once.
      flops: of the products.
      sent_bytes: to other chips, in `messages` collectives.
      messages: collectives, each of which costs `SECONDS_PER_SUM`, an assumption.
    """

    weight_bytes: int
    cache_bytes: int
    flops: int
    sent_bytes: int
    messages: int

    @property
    def bytes(self) -> int:
        return self.weight_bytes + self.cache_bytes

    def seconds(self, chip: Chip) -> float:
        """Reading and computing overlap, and sending overlaps with neither."""
        local = max(self.bytes / chip.bandwidth, self.flops / chip.flops)
        return local + self.sent_bytes / chip.links + self.messages * SECONDS_PER_SUM

    def scaled(self, tokens: int, instead_of: int) -> "StepCost":
        """A step of so many tokens a row: more products, and the same reading."""
        return dataclasses.replace(
            self,
            flops=self.flops * tokens // instead_of,
            sent_bytes=self.sent_bytes * tokens // instead_of,
        )


def step_cost(decode: Decode, name: str) -> StepCost:
    """Of a step, of `STEPS`."""
    side = decode.sides.drafter if name == "draft step" else decode.sides.target
    tokens = 1 + (decode.gamma if name == "verify step" else 0)
    weights = {
        key: _local(leaf)
        for key, leaf in traverse_util.flatten_dict(side.params, sep="/").items()
        if is_read_in_a_step(key, side.config.logits_via_embedding)
    }
    caches = [
        _local(leaf)
        for part in jax.tree.leaves(
            state_of(decode, name).target_cache,
            is_leaf=lambda x: isinstance(x, KeyValues),
        )
        if isinstance(part, KeyValues)
        for leaf in jax.tree.leaves(part)
    ]
    rows = {key: _rows_of_product(decode, side, key) for key in weights}
    flops = 2 * tokens * sum(rows[k] * math.prod(w.shape) for k, w in weights.items())
    # Each query meets every slot, once for its logits and once for its values.
    flops += 2 * tokens * sum(math.prod(c.shape) for c in caches)
    sent, messages = _sent(decode, side, tokens)
    return StepCost(
        weight_bytes=sum(map(_bytes, weights.values())),
        cache_bytes=sum(map(_bytes, caches)),
        flops=flops,
        sent_bytes=sent,
        messages=messages,
    )


def model_costs(decode: Decode, chip: Chip) -> tuple[float, float]:
    """c and v (see `theory`) of a decode's gamma, of the least times."""
    c, v = block_costs(decode, chip, decode.gamma)
    return c, v[-1]


def block_costs(
    decode: Decode, chip: Chip, max_gamma: int
) -> tuple[float, list[float]]:
    """c, and v of a pass over 1, 2, .., max_gamma + 1 tokens, of the least times."""
    target, verify, draft = (step_cost(decode, name) for name in STEPS)
    step = target.seconds(chip)
    v = [
        verify.scaled(gamma + 1, decode.gamma + 1).seconds(chip) / step
        for gamma in range(1, max_gamma + 1)
    ]
    return draft.seconds(chip) / step, [1.0, *v]


def is_read_in_a_step(name: str, tied: bool) -> bool:
    """Whether a decoder step multiplies with a parameter.

    Not with the encoder's, nor with those of cross-attention's keys and values, which
    were used up before the loop. Of the embedding a row a token is looked up.
    """
    if name.startswith("token_embedder/"):
        return tied
    layer, kernel = name.split("/")[-3:-1]
    before = layer == "encoder_decoder_attention" and kernel in (
        "key",
        "value",
        "key_and_value",
    )
    return name.startswith("decoder/") and not before


def rows_of_a_chip(decode: Decode) -> int:
    """B over the mesh's axis `data`."""
    return _local(decode.rows.prompt.lengths).shape[0]


def bytes_a_row(decode: Decode) -> int:
    """What one more row takes on a chip: its keys and values, of both models."""
    state = state_of(decode, "loop")
    caches = (state.target_cache, state.draft_state)
    local = sum(_bytes(_local(leaf)) for leaf in jax.tree.leaves(caches))
    return -(-local // rows_of_a_chip(decode))


def resident_bytes(decode: Decode, loop_bytes: int) -> int:
    """What a chip holds while the loop runs: all weights, the rows, and the rest.

    Args:
      decode: that was compiled.
      loop_bytes: of its loop, arguments, temporaries and code.
    """
    return (
        weight_bytes(decode)
        + rows_of_a_chip(decode) * bytes_a_row(decode)
        + _rest(decode, loop_bytes)
    )


def largest_batch(decode: Decode, chip: Chip, loop_bytes: int) -> int:
    """Rows that fit, on all chips together.

    What is neither a weight nor of the compiled rows is taken to stay as it is.

    Args:
      decode, loop_bytes: as in `resident_bytes`.
      chip: whose memory it is.
    """
    left = chip.memory - weight_bytes(decode) - _rest(decode, loop_bytes)
    data = decode.rows.prompt.lengths.shape[0] // rows_of_a_chip(decode)
    return max(0, int(left // bytes_a_row(decode))) * data


def weight_bytes(decode: Decode) -> int:
    """Of all weights of both models, on one chip."""
    sides = (decode.sides.target, decode.sides.drafter)
    leaves = jax.tree.leaves([side.params for side in sides])
    return sum(_bytes(_local(leaf)) for leaf in leaves)


def _rest(decode: Decode, loop_bytes: int) -> int:
    """Temporaries, code and small arrays: a loop without its weights and rows."""
    loop_weights = sum(
        _bytes(_local(leaf))
        for side in (decode.sides.target, decode.sides.drafter)
        for name, leaf in traverse_util.flatten_dict(side.params, sep="/").items()
        if name == "token_embedder/embedding"
        or is_read_in_a_step(name, side.config.logits_via_embedding)
    )
    return max(
        0, loop_bytes - loop_weights - rows_of_a_chip(decode) * bytes_a_row(decode)
    )


def _rows_of_product(decode: Decode, side: Side, weight: str) -> int:
    """Rows that a chip multiplies with a weight.

    Chips along `model` share the rows out where they hold the same, as `Layout` says.
    """
    if side.layout is None:
        return rows_of_a_chip(decode)
    if "attention" in weight:
        return _rows_as(decode, side.layout, "batch", heads=side.config.num_heads)
    return _rows_as(decode, side.layout, "batch")


def _rows_as(decode: Decode, layout: Layout, name: str, **others: int) -> int:
    """Rows of a chip of an array whose first axis has this name.

    Args:
      decode: whose rows.
      layout: says where they go.
      name: "batch" or "rows".
      **others: names and sizes of its other axes.
    """
    shape = (decode.rows.prompt.lengths.shape[0], *others.values())
    return layout.sharding((name, *others), shape).shard_shape(shape)[0]


def _sent(decode: Decode, side: Side, tokens: int) -> tuple[int, int]:
    """Bytes that a chip sends in a step, and in how many collectives.

    With rows that all chips share out, logits are exchanged and not gathered. The
    tokens that are drawn of them are too few to count.
    """
    if side.layout is None or not side.layout.is_sharded:
        return 0, 0
    mesh, config = side.layout.mesh, side.config
    parts, rows = axis_size(mesh, MODEL), rows_of_a_chip(decode)
    are_spread = _rows_as(decode, side.layout, "rows") < rows
    are_heads = config.num_heads % parts == 0
    is_vocab = config.padded_vocab_size % parts == 0
    messages = step_messages(config, parts)
    sums = messages - is_vocab
    # A ring sums in two rounds of (parts - 1) pieces, and gathers in one.
    rounds = 2 * sums
    if are_spread and not are_heads:  # rows come back to all chips after attention
        rounds += config.decoder_layers
        messages += config.decoder_layers
    # Products of quantized weights are float32 until they are summed and scaled.
    dtype = jnp.float32 if side.quantization else config.dtype
    width = jnp.dtype(dtype).itemsize * config.emb_dim
    sent = rounds * tokens * rows * width * (parts - 1) // parts
    if is_vocab:
        logits = tokens * rows * config.padded_vocab_size * 4 // parts * (parts - 1)
        sent += logits // parts if are_spread else logits
    return sent, messages


def _local(leaf: jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct:
    """The part of an array that one device holds."""
    shape = leaf.sharding.shard_shape(leaf.shape)
    return jax.ShapeDtypeStruct(shape, leaf.dtype)


def _bytes(leaf: jax.ShapeDtypeStruct) -> int:
    return math.prod(leaf.shape) * jnp.dtype(leaf.dtype).itemsize
