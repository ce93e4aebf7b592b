"""Whether the values of a configuration can be those of a T5."""

import dataclasses
import numbers
from collections.abc import Collection, Sequence
from typing import Any


def check_kinds(config: Any, may_be_0: Collection[str] = ()) -> None:
    """Checks the fields of a dataclass that are an int, a float or a bool.

    Args:
      config: whose field's types are classes.
      may_be_0: the whole numbers that need not be above 0.

    Raises:
      ValueError: a value is of another type, or a whole number too small.
    """
    for field in dataclasses.fields(config):
        value, least = getattr(config, field.name), int(field.name not in may_be_0)
        words = {
            int: f"a whole number from {least} on",
            float: "a number",
            bool: "true or false",
        }
        if field.type in words and not _is_of_kind(value, field.type, least):
            raise ValueError(f"{field.name} must be {words[field.type]}, not {value!r}")


def check_activations(activations: Any, known: Collection[str]) -> None:
    """Checks the activations of a feed-forward layer.

    Raises:
      ValueError: they are not one or two of `known`.
    """
    of_strings = isinstance(activations, Sequence) and not isinstance(activations, str)
    if (
        not of_strings
        or len(activations) not in (1, 2)
        or not all(isinstance(a, str) and a in known for a in activations)
    ):
        raise ValueError(
            f"mlp_activations must be a list of one or two of {', '.join(known)}, not "
            f"{activations!r}"
        )


def _is_of_kind(value: Any, kind: type, least: int) -> bool:
    if kind is bool or isinstance(value, bool):
        return kind is bool and isinstance(value, bool)
    if kind is int:
        return isinstance(value, numbers.Integral) and value >= least
    return isinstance(value, numbers.Real)
