"""Lenience: which draft tokens it accepts, by the ratio and by the target's logits."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from specdec_jax.sampling.lenience import near_argmax, near_argmax_rows
from tests.sampling.blocks import betas_rows, block, f32, verify

near = jax.jit(near_argmax, static_argnums=4)


@pytest.mark.parametrize(
    ("lenience", "expected"),
    [
        (1.0, [False, False, False]),
        (0.7, [True, False, False]),
        (0.5, [True, True, False]),
        (0.3, [True, True, True]),
    ],
)
def test_near_argmax_docstring_example(lenience, expected):
    logits = f32(np.tile(np.log([0.5, 0.3, 0.2]), (3, 1)))
    drafted = jnp.arange(3, dtype=jnp.int32)
    got = near(logits, drafted, f32(0), f32(lenience), 3)
    np.testing.assert_array_equal(got, expected)
    for temperature in (0.1, 1.0):
        assert not near(logits, drafted, f32(temperature), f32(lenience), 3).any()


def test_tied_ids_pass_below_one_and_only_the_lowest_at_one():
    logits = f32([[2.0, 5.0, 5.0, 1.0]] * 4)
    drafted = jnp.arange(4, dtype=jnp.int32)
    got = near(logits, drafted, f32(0), f32(0.999), 4)
    np.testing.assert_array_equal(got, [False, True, True, False])
    p = np.eye(4)[[1, 1]]  # as standardized at temperature 0
    for lenience, passes in ((1.0, [0, 1, 0, 0]), (0.999, [0, 1, 1, 0])):
        for x in range(4):
            every = near(logits, drafted, f32(0), f32(lenience), 4)
            b = block(p, np.eye(4)[[x]], [x], [0.9], 0.5, lenience=lenience).replace(
                forced_accept=every[x : x + 1]
            )
            verdict = verify(b)
            assert verdict.num_accepted == passes[x]
            assert verdict.next_token == 1  # correction and bonus are the argmax


def test_padding_neither_passes_nor_is_the_maximum_that_counts():
    logits = f32([[1.0, 0.9, 50.0]] * 3)
    drafted = jnp.arange(3, dtype=jnp.int32)
    got = near(logits, drafted, f32(0), f32(0.5), 2)
    np.testing.assert_array_equal(got, [True, True, False])


def test_a_forced_token_is_accepted_only_behind_accepted_ones():
    p = np.eye(3)[[0, 0, 0, 0]]
    q = np.eye(3)[[1, 2, 0]]
    b = block(p, q, [1, 2, 0], [0.5] * 3, 0.5, forced_accept=[True, False, True])
    verdict = verify(b)
    assert (verdict.num_accepted, verdict.next_token) == (1, 0)


def test_rows_equal_single_rows_whether_any_is_lenient_at_temperature_zero_or_not():
    random = np.random.default_rng(0)
    logits = f32(random.normal(size=(4, 3, 9)))
    drafted = jnp.asarray(random.integers(0, 9, (4, 3)), jnp.int32)
    rows = jax.jit(near_argmax_rows, static_argnums=4)
    for temperature in ([0.0, 1.0, 0.0, 0.5], [1.0] * 4):
        lenience = f32([0.2, 0.2, 1.0, 1.0])
        together = rows(logits, drafted, f32(temperature), lenience, 7)
        for i in range(4):
            alone = near(logits[i], drafted[i], f32(temperature[i]), lenience[i], 7)
            np.testing.assert_array_equal(together[i], alone)


def test_betas_are_the_probabilities_that_draft_tokens_are_accepted():
    p, q = np.array([[0.2, 0.8], [0.5, 0.5]]), np.array([[0.5, 0.5], [0.0, 1]])
    nowhere, first = np.zeros((1, 2), bool), np.array([[True, False]])
    for lenience, mask, expected in (
        (1.0, nowhere, [0.7, 0.5]),
        (0.5, nowhere, [0.4 + 0.5, 1.0]),
        (0.5, first, [1.0, 1.0]),
    ):
        got = betas_rows(f32(p)[None], f32(q)[None], jnp.asarray(mask), f32([lenience]))
        np.testing.assert_allclose(got[0], expected, rtol=1e-6)
