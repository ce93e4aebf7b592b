"""Pure maths on one position or one block; no models, no loops."""

from specdec_jax.sampling import laws, theory
from specdec_jax.sampling.keys import Use, row_keys, uniforms
from specdec_jax.sampling.numerics import draw, masked_softmax, normalize
from specdec_jax.sampling.standardize import Warp, standardize, standardize_rows
from specdec_jax.sampling.verification import (
    Block,
    Verdict,
    VerificationRule,
    endorsed_by_argmax,
    residual,
    verify_tokens,
)

__all__ = [
    "Block",
    "Use",
    "VerificationRule",
    "Verdict",
    "Warp",
    "draw",
    "endorsed_by_argmax",
    "laws",
    "masked_softmax",
    "normalize",
    "residual",
    "row_keys",
    "standardize",
    "standardize_rows",
    "theory",
    "uniforms",
    "verify_tokens",
]
