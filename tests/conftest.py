"""Every test runs strictly: shapes are checked, ranks and types are not promoted.

The import hook must be in place before the package is imported.
"""

import gc
from pathlib import Path

import jax
import jaxtyping
import pytest
from jaxtyping import install_import_hook

import tests.type_checking  # noqa: F401, the hook looks it up by name

install_import_hook("specdec_jax", "tests.type_checking.checked")

jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")

MAPS = Path("/proc/self/maps")  # Linux lets a process have 65,530
MANY = 25_000


@pytest.fixture(scope="module", autouse=True)
def _compiled_programs_do_not_pile_up():
    """XLA maps memory for each program; past the system's limit it would crash."""
    yield
    if MAPS.exists() and MAPS.read_bytes().count(b"\n") > MANY:
        jax.clear_caches()
        gc.collect()


@pytest.fixture
def unannotated():
    """Annotations are not checked, as with a user, who may give anything."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture(scope="session")
def pair_folder(tmp_path_factory):
    """A folder with a random tiny pair; copy it before changing anything in it."""
    from tests import tiny_pairs

    return tiny_pairs.make_pair(tmp_path_factory.mktemp("pair"))


@pytest.fixture(scope="session")
def tiny_pair(pair_folder):
    """That pair, loaded."""
    from specdec_jax import load_pair

    return load_pair(pair_folder)


@pytest.fixture(scope="session")
def gpt_folder(tmp_path_factory):
    """A folder with a random tiny pair of GPTs; copy it before changing anything."""
    from tests import tiny_pairs

    return tiny_pairs.make_gpt_pair(tmp_path_factory.mktemp("gpt_pair"))


@pytest.fixture(scope="session")
def gpt_pair(gpt_folder):
    """That pair, loaded."""
    from specdec_jax import load_pair

    return load_pair(gpt_folder)
