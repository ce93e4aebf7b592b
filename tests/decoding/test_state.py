import jax.numpy as jnp
import numpy as np
import pytest

from specdec_jax.decoding.loop import at_index


@pytest.mark.parametrize("shape", [(3, 4), (3, 4, 5)])
def test_each_row_is_read_at_its_own_place(shape):
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    index = [2, 0, 3]
    expected = np.stack([row[i] for row, i in zip(x, index, strict=True)])
    found = at_index(jnp.asarray(x), jnp.asarray(index, jnp.int32))
    np.testing.assert_array_equal(found, expected)
