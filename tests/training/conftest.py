import jax
import pytest


@pytest.fixture(autouse=True, scope="package")
def promotion_for_optax():
    """optax raises floats to integer powers, which strict promotion forbids."""
    with jax.numpy_dtype_promotion("standard"):
        yield
