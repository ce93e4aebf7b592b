"""Whether the values of a configuration can be those of a T5."""

import dataclasses
import numbers
from collections.abc import Collection, Sequence
from typing import Any

_KINDS = {int: "a whole number above 0", float: "a number", bool: "true or false"}


def check_kinds(config: Any) -> None:
    """Checks the fields of a dataclass that are an int, a float or a bool.

    Raises:
      ValueError: a value is of another type, or a whole number below 1.
    """
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if field.type in _KINDS and not _is_of_kind(value, field.type):
            raise ValueError(
                f"{field.name} must be {_KINDS[field.type]}, not {value!r}"
            )


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


def _is_of_kind(value: Any, kind: type) -> bool:
    if kind is bool or isinstance(value, bool):
        return kind is bool and isinstance(value, bool)
    if kind is int:
        return isinstance(value, numbers.Integral) and value >= 1
    return isinstance(value, numbers.Real)
