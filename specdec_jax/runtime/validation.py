"""Whether the values of a configuration are of the types of its fields.

Configurations come out of files and command lines, where a 2.5 may stand for a count.
"""

import dataclasses
import numbers
import operator
import types
import typing
from collections.abc import Collection, Sequence
from typing import Any

from specdec_jax.errors import SettingsError


def check_kinds(config: Any, may_be_0: Collection[str] = ()) -> None:
    """Checks the fields of a dataclass that are an int, a float or a bool, or a list.

    Fields of type `int | None` may be None. A list, `tuple[int, ...]`, holds at least
    one value and none twice. Fields of other types are not looked at.

    Args:
      config: whose fields' types are not strings.
      may_be_0: the integer fields that need not be above 0.

    Raises:
      SettingsError: a value is of another type, or an integer too small; the
        message names the field.
    """
    for field in dataclasses.fields(config):
        value, kind = getattr(config, field.name), field.type
        if isinstance(kind, types.UnionType) and kind.__args__[-1] is types.NoneType:
            if value is None:
                continue
            kind = kind.__args__[0]
        values = [value]
        if typing.get_origin(kind) is tuple:
            kind = typing.get_args(kind)[0]
            if kind in _WORDS:
                check_list(field.name, value)
                values = value
        if kind not in _WORDS:
            continue
        least = int(field.name not in may_be_0)
        for one in values:
            if not _is_of_kind(one, kind, least):
                words = _WORDS[kind].format(least=least)
                raise SettingsError(f"{field.name} must be {words}, not {one!r}")


def check_list(name: str, values: Any) -> None:
    """Raises SettingsError unless this is a list of something, none of it twice."""
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise SettingsError(f"{name} must be a list, not {values!r}")
    if not values:
        raise SettingsError(f"{name} must not be empty")
    if any(value in values[:place] for place, value in enumerate(values)):
        raise SettingsError(f"{name} has a value twice: {values}")


def check_seed(seed: Any) -> None:
    """Raises SettingsError unless this is what `jax.random.key` takes as it is."""
    try:
        good = 0 <= operator.index(seed) < 2**32 and not isinstance(seed, bool)
    except TypeError:
        good = False
    if not good:
        raise SettingsError(f"seed must be an integer from 0 to 2^32 - 1, not {seed!r}")


_WORDS = {
    int: "an integer, at least {least}",
    float: "a number",
    bool: "true or false",
}


def _is_of_kind(value: Any, kind: type, least: int) -> bool:
    if kind is bool or isinstance(value, bool):
        return kind is bool and isinstance(value, bool)
    if kind is int:
        return isinstance(value, numbers.Integral) and value >= least
    return isinstance(value, numbers.Real)
