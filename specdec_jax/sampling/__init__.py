"""Pure maths on one position or one block; no models, no loops."""

from specdec_jax.sampling import laws, lenience, theory
from specdec_jax.sampling.keys import Use, position_keys, row_keys, uniforms
from specdec_jax.sampling.numerics import draw, masked_softmax, normalize
from specdec_jax.sampling.rules import RULES, Block, Noise, Rule, TokenRule, Verdict
from specdec_jax.sampling.rules.token import residual
from specdec_jax.sampling.standardize import Warp, standardize, standardize_rows

__all__ = [
    "RULES",
    "Block",
    "Noise",
    "Rule",
    "TokenRule",
    "Use",
    "Verdict",
    "Warp",
    "draw",
    "laws",
    "lenience",
    "masked_softmax",
    "normalize",
    "position_keys",
    "residual",
    "row_keys",
    "standardize",
    "standardize_rows",
    "theory",
    "uniforms",
]
