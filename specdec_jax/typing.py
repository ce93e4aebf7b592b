"""Array aliases, and the one legend of dimension letters.

Every annotation and every suffix of an array's name in this project reads from this
legend:

  B  batch rows               T  tokens in one call        S  cache slots
  E  encoder positions        G  gamma, guesses a block    V  vocabulary
  D  model width              N  attention heads           H  head size
  F  feed-forward width       L  layers                    M  new tokens, at most

p is always the target's distribution and q the drafter's; gamma, alpha, beta, c and l
(lenience) keep the meaning they have in "Fast Inference from Transformers via
Speculative Decoding" (Leviathan, Kalman, Matias, ICML 2023), called "the paper" here.
"""

from collections.abc import Callable
from typing import Any, Protocol

from jax import Array
from jaxtyping import Bool, Float, Float32, Int32, Key, PyTree

# What a network learns, and what it remembers of a prefix: nested dicts of arrays.
Params = PyTree[Array]
Cache = PyTree[Array]

__all__ = [
    "Any",
    "Array",
    "Bool",
    "Cache",
    "Callable",
    "Float",
    "Float32",
    "Int32",
    "Key",
    "Params",
    "Protocol",
    "PyTree",
]
