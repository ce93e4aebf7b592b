"""Every test runs strictly: shapes are checked, ranks and types are not promoted.

The import hook must be in place before the package is imported.
"""

import jax
from jaxtyping import install_import_hook

install_import_hook("specdec_jax", "beartype.beartype")

jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")
