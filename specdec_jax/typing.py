"""Array aliases, and the one legend of dimension letters.

Every annotation and every suffix of an array's name in this project reads from this
legend:

  B  batch rows               T  tokens in one call        S  cache slots
  E  encoder positions        G  gamma, drafts a block     V  vocabulary
  D  model width              N  attention heads           H  head size
  F  feed-forward width       L  layers                    M  new tokens, at most

p is always the target's distribution and q the drafter's; gamma, alpha, beta, c and l
(lenience) keep the meaning they have in "Fast Inference from Transformers via
Speculative Decoding" (Leviathan, Kalman, Matias, ICML 2023), called "the paper" here.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, Protocol, TypeVar, dataclass_transform, no_type_check

from flax import struct
from jax import Array
from jaxtyping import Bool, Float, Float32, Int8, Int32, Key, PyTree

# What a network learns, and what it remembers of a prefix: nested dicts of arrays.
Params = PyTree[Array]
Cache = PyTree[Array]

Class = TypeVar("Class", bound=type)


@dataclass_transform(frozen_default=True, field_specifiers=(struct.field,))
def record(cls: Class) -> Class:
    """A frozen dataclass of arrays that is a pytree, with `replace`.

    Its annotations say shapes and types and are not checked when one is made: JAX
    rebuilds a pytree around tracers, shapes, axes and sentinels as well as arrays.
    """
    return no_type_check(struct.dataclass(cls))


@dataclass_transform(frozen_default=True)
def self_checked(cls: Class) -> Class:
    """A frozen dataclass whose `__post_init__` says what is wrong with its values.

    They come out of files and command lines, where a type checker's error would not
    help anyone.
    """
    return no_type_check(dataclasses.dataclass(frozen=True)(cls))


__all__ = [
    "Any",
    "Array",
    "Bool",
    "Cache",
    "Callable",
    "Float",
    "Float32",
    "Int8",
    "Int32",
    "Key",
    "Params",
    "Protocol",
    "PyTree",
    "record",
    "self_checked",
]
