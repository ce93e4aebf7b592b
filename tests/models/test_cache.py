"""Overwriting a cache at each row's own length."""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from specdec_jax.models import cache as kv
from specdec_jax.models.lowering import CacheWrite

BATCH, HEADS, SLOTS, SIZE = 3, 2, 7, 4


def numbered(first: int, slots: int) -> kv.KeyValues:
    """Keys and values of B rows in which no number occurs twice."""
    shape = (BATCH, HEADS, slots, SIZE)
    count = int(np.prod(shape))
    numbers = jnp.arange(first, first + 2 * count, dtype=jnp.float32)
    keys, values = numbers.reshape(2, *shape)
    return kv.KeyValues(keys=keys, values=values)


def overwritten_by_loop(old, new, lengths):
    result = np.array(old)
    for row, length in enumerate(lengths):
        for t in range(new.shape[2]):
            result[row, :, length + t] = new[row, :, t]
    return result


def test_an_empty_cache_is_zeros_of_its_type():
    cache = kv.empty(BATCH, HEADS, SLOTS, SIZE, jnp.dtype("bfloat16"))
    for buffer in (cache.keys, cache.values):
        assert buffer.shape == (BATCH, HEADS, SLOTS, SIZE)
        assert buffer.dtype == jnp.bfloat16
        assert not buffer.any()


@pytest.mark.parametrize("how", CacheWrite)
@pytest.mark.parametrize("block", [1, 2, 3, SLOTS])
def test_every_place_that_fits_is_written_and_no_other(block, how):
    """All combinations of lengths with lengths + T <= S, the last slot included."""
    old, new = numbered(1, SLOTS), numbered(1000, block)
    last = SLOTS - block
    write = jax.jit(functools.partial(kv.overwrite, how=how))
    for start in range(last + 1):
        lengths = np.array([start, last - start, last], np.int32)
        got = write(old, new, lengths)
        np.testing.assert_array_equal(
            got.keys, overwritten_by_loop(old.keys, new.keys, lengths)
        )
        np.testing.assert_array_equal(
            got.values, overwritten_by_loop(old.values, new.values, lengths)
        )


@pytest.mark.parametrize("how", CacheWrite)
@pytest.mark.parametrize("block", [1, 2])
def test_a_row_alone_is_written_like_any_other(block, how):
    old, new = (
        jax.tree.map(lambda x: x[:1], numbered(first, slots))
        for first, slots in ((1, SLOTS), (1000, block))
    )
    for start in range(SLOTS - block + 1):
        got = kv.overwrite(old, new, jnp.array([start], jnp.int32), how)
        np.testing.assert_array_equal(
            got.keys, overwritten_by_loop(old.keys, new.keys, [start])
        )


def test_what_was_there_is_replaced_not_added_to():
    lengths = jnp.array([0, 3, 5], jnp.int32)
    once = kv.overwrite(numbered(1, SLOTS), numbered(500, 2), lengths)
    junk = kv.overwrite(numbered(1, SLOTS), numbered(9000, 2), lengths)
    again = kv.overwrite(junk, numbered(500, 2), lengths)
    np.testing.assert_array_equal(again.keys, once.keys)
    np.testing.assert_array_equal(again.values, once.values)


def test_a_block_past_the_last_slot_is_clamped_onto_older_ones():
    """Why callers must keep lengths + T <= S: JAX moves such a block, in silence."""
    old, new = numbered(1, SLOTS), numbered(1000, 3)
    lengths = np.array([SLOTS - 2, SLOTS, 0], np.int32)
    got = kv.overwrite(old, new, jnp.asarray(lengths))
    moved = np.minimum(lengths, SLOTS - 3)
    np.testing.assert_array_equal(
        got.keys, overwritten_by_loop(old.keys, new.keys, moved)
    )


def test_bfloat16_stays_bfloat16():
    old = kv.empty(1, 1, 4, 2, jnp.dtype("bfloat16"))
    new = jax.tree.map(lambda x: x[:, :, :1] + 1, old)
    got = kv.overwrite(old, new, jnp.array([2], jnp.int32))
    assert got.keys.dtype == jnp.bfloat16
    np.testing.assert_array_equal(got.keys[0, 0, :, 0], jnp.array([0, 0, 1, 0]))


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="is about XLA on CPU")
@pytest.mark.parametrize("block", [1, 2])
def test_a_step_of_one_row_copies_no_cache(block):
    """XLA would write a single slot twice, in copies; see `cache._widen`."""
    old = kv.empty(1, HEADS, 32, 16, jnp.dtype("float32"))

    def step(i, state):
        cache, x = state
        new = jnp.swapaxes((x @ kernel).reshape(1, block, HEADS, 16), 1, 2)
        new_slots = kv.KeyValues(new, 2 * new)
        cache = kv.overwrite(cache, new_slots, i[None], CacheWrite.WIDE_SLICE)
        seen = jnp.einsum("bnth,bnsh->bnts", new, cache.keys)
        mixed = jnp.einsum("bnts,bnsh->bnth", jax.nn.softmax(seen), cache.values)
        return cache, jnp.swapaxes(mixed, 1, 2).reshape(block, -1)

    kernel = jnp.ones((HEADS * 16, HEADS * 16))
    loop = jax.jit(lambda *state: jax.lax.fori_loop(0, 9, step, state))
    program = loop.lower(old, jnp.ones((block, HEADS * 16))).compile().as_text()
    buffer = rf"f32\[1,{HEADS},32,16\]\S* copy\("
    # The loop may copy its arguments once, before it starts: see that it does no more.
    assert len(re.findall(buffer, program)) <= 2
