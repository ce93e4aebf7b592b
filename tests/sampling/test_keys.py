import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from specdec_jax.sampling import Use, row_keys, uniforms

draw = jax.jit(uniforms, static_argnums=(1, 3))


def ids(*rows):
    return jnp.array(rows, jnp.int32)


def test_each_row_step_and_use_has_its_own_numbers():
    rows = row_keys(jax.random.key(0), ids(0, 1, 2, 3))
    arrays = [
        draw(rows, use, jnp.full(4, step, jnp.int32), (5,))
        for use, step in itertools.product(Use, range(20))
    ]
    # 1600 numbers on a grid of 2^23 collide about 0.15 times by chance; a key
    # used twice would repeat five at once.
    assert len(np.unique(np.stack(arrays))) >= 4 * 20 * len(Use) * 5 - 4


@pytest.mark.parametrize("use", Use)
@pytest.mark.parametrize("shape", [(), (4,), (2, 3)])
def test_numbers_are_those_of_the_documented_derivation(use, shape):
    key = jax.random.key(7)
    numbers = draw(row_keys(key, ids(5, 3)), use, ids(11, 0), shape)
    assert numbers.shape == (2, *shape) and numbers.dtype == jnp.float32
    for number, row, step in zip(numbers, (5, 3), (11, 0), strict=True):
        step_key = jax.random.fold_in(jax.random.fold_in(key, row), step)
        expected = jax.random.uniform(jax.random.fold_in(step_key, int(use)), shape)
        np.testing.assert_array_equal(number, expected)


def test_use_values_are_pinned_because_they_are_part_of_a_seed():
    assert {use.name: int(use) for use in Use} == dict(
        DRAFT=0, ACCEPT=1, CORRECT=2, SAMPLE=3
    )


def test_a_row_depends_on_its_own_id_and_step_only():
    key = jax.random.key(1)
    alone = draw(row_keys(key, ids(9)), Use.ACCEPT, ids(2), (3,))[0]
    among = draw(row_keys(key, ids(1, 9, 9, 9)), Use.ACCEPT, ids(4, 2, 2, 3), (3,))
    np.testing.assert_array_equal(among[1], alone)
    np.testing.assert_array_equal(among[2], alone)  # equal ids, equal steps
    assert (among[3] != alone).all() and (among[0] != alone).all()


def test_a_shorter_draft_gets_the_first_numbers_of_a_longer_one():
    # So that a row's output does not depend on the largest gamma of its batch. It holds
    # while jax_threefry_partitionable is on, jax's default.
    rows = row_keys(jax.random.key(2), ids(0, 1))
    short, long = (draw(rows, Use.DRAFT, ids(0, 0), (n,)) for n in (3, 8))
    np.testing.assert_array_equal(short, long[:, :3])


def test_numbers_are_uniform_and_below_one():
    rows = row_keys(jax.random.key(3), jnp.arange(50, dtype=jnp.int32))
    numbers = np.asarray(draw(rows, Use.CORRECT, ids(*[0] * 50), (2000,)))
    assert numbers.min() >= 0 and numbers.max() < 1
    counts = np.histogram(numbers, 20, (0, 1))[0]
    chi_square = np.sum((counts - 5000) ** 2 / 5000)
    assert chi_square < 43.8  # 19 degrees of freedom, p = .001
