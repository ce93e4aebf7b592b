"""Lenience at temperature 0: which guesses the target's logits endorse."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from specdec_jax.sampling import endorsed_by_argmax
from tests.sampling.blocks import block, f32, verify

endorsed = jax.jit(endorsed_by_argmax, static_argnums=4)


@pytest.mark.parametrize(
    ("lenience", "expected"),
    [
        (1.0, [False, False, False]),
        (0.7, [True, False, False]),
        (0.5, [True, True, False]),
        (0.3, [True, True, True]),
    ],
)
def test_endorsed_docstring_example(lenience, expected):
    logits = f32(np.tile(np.log([0.5, 0.3, 0.2]), (3, 1)))
    guesses = jnp.arange(3, dtype=jnp.int32)
    got = endorsed(logits, guesses, f32(0), f32(lenience), 3)
    np.testing.assert_array_equal(got, expected)
    for temperature in (0.1, 1.0):
        assert not endorsed(logits, guesses, f32(temperature), f32(lenience), 3).any()


def test_tied_ids_are_endorsed_below_one_and_only_the_lowest_passes_at_one():
    logits = f32([[2.0, 5.0, 5.0, 1.0]] * 4)
    guesses = jnp.arange(4, dtype=jnp.int32)
    got = endorsed(logits, guesses, f32(0), f32(0.999), 4)
    np.testing.assert_array_equal(got, [False, True, True, False])
    p = np.eye(4)[[1, 1]]  # as standardized at temperature 0
    for lenience, passes in ((1.0, [0, 1, 0, 0]), (0.999, [0, 1, 1, 0])):
        for x in range(4):
            every = endorsed(logits, guesses, f32(0), f32(lenience), 4)
            b = block(p, np.eye(4)[[x]], [x], [0.9], 0.5, lenience=lenience).replace(
                endorsed=every[x : x + 1]
            )
            verdict = verify(b)
            assert verdict.num_accepted == passes[x]
            assert verdict.next_token == 1  # correction and bonus are the argmax


def test_padding_is_neither_endorsed_nor_the_maximum_that_counts():
    logits = f32([[1.0, 0.9, 50.0]] * 3)
    guesses = jnp.arange(3, dtype=jnp.int32)
    got = endorsed(logits, guesses, f32(0), f32(0.5), 2)
    np.testing.assert_array_equal(got, [True, True, False])


def test_an_endorsement_lets_a_guess_stand_only_behind_guesses_that_stand():
    p = np.eye(3)[[0, 0, 0, 0]]
    q = np.eye(3)[[1, 2, 0]]
    b = block(p, q, [1, 2, 0], [0.5] * 3, 0.5, endorsed=[True, False, True])
    verdict = verify(b)
    assert (verdict.num_accepted, verdict.next_token) == (1, 0)
