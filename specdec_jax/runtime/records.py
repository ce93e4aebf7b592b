"""Records: one frozen dataclass a kind, which writers make and readers get back.

A record says with what it was made: the command, the versions, the device. Its fields
say by their types what they may hold, so that a value that no writer has written is
refused where it is read, with its file, line and key.
"""

import contextlib
import dataclasses
import hashlib
import json
import os
import platform
import re
import shlex
import sys
import typing
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any, ClassVar, dataclass_transform, no_type_check

import jax

from specdec_jax._version import __version__
from specdec_jax.errors import DataError

PACKAGES = ("jax", "jaxlib", "flax", "numpy", "libtpu")


@dataclasses.dataclass(frozen=True)
class Constraint:
    """What a value of JSON must be: in words for an error, and as a test."""

    words: str
    holds: Callable[[Any], bool]


def _is_number(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and abs(value) < 1e300  # NaN is not either


def _is_non_negative(value: Any) -> bool:
    return _is_number(value) and value >= 0


def _is_interval(value: Any) -> bool:
    is_pair = isinstance(value, list | tuple) and len(value) == 2
    return is_pair and all(map(_is_non_negative, value))


# The types of fields.
Rate = Annotated[
    float,
    Constraint("a rate from 0 to 1", lambda x: _is_non_negative(x) and x <= 1),
]
Count = Annotated[
    int,
    Constraint("an integer from 0 on", lambda x: _is_non_negative(x) and x == int(x)),
]
NonNegative = Annotated[float, Constraint("a number from 0 on", _is_non_negative)]
Positive = Annotated[
    float, Constraint("a number above 0", lambda x: _is_non_negative(x) and x > 0)
]
Interval = Annotated[
    tuple[float, float], Constraint("a pair of numbers from 0 on", _is_interval)
]
Flag = Annotated[bool, Constraint("true or false", lambda x: isinstance(x, bool))]
Text = Annotated[str, Constraint("a string", lambda x: isinstance(x, str))]
Values = Annotated[
    list, Constraint("a list that is not empty", lambda x: isinstance(x, list) and x)
]
Object = Annotated[dict, Constraint("a JSON object", lambda x: isinstance(x, dict))]
Ids = Annotated[
    list,
    Constraint(
        "a list of integers from 0 on",
        lambda x: isinstance(x, list) and all(type(i) is int and i >= 0 for i in x),
    ),
]
Versions = Annotated[
    dict,
    Constraint(
        "an object of strings",
        lambda x: isinstance(x, dict) and all(isinstance(v, str) for v in x.values()),
    ),
]
Device = Annotated[
    dict,
    Constraint(
        "an object whose kind and platform are strings",
        lambda x: (
            isinstance(x, dict)
            and all(isinstance(x.get(name, ""), str) for name in ("kind", "platform"))
        ),
    ),
]


def holding_counts(*names: str, more: Callable[[dict], bool] = lambda x: True) -> Any:
    """An object of which these are numbers from 0 on.

    Args:
      names: of the numbers; there may be other fields.
      more: what else holds of it.
    """
    return Annotated[
        dict,
        Constraint(
            f"an object with the numbers {', '.join(names)}",
            lambda x: (
                isinstance(x, dict)
                and all(_is_non_negative(x.get(name)) for name in names)
                and more(x)
            ),
        ),
    ]


def identity(**options: Any) -> Any:
    """A field that all records of one run share: what keeps runs' files apart."""
    return dataclasses.field(metadata={"identity": True}, **options)


@dataclass_transform(
    frozen_default=True,
    kw_only_default=True,
    field_specifiers=(dataclasses.field, identity),
)
def stored(cls: type) -> type:
    """Makes a class a frozen dataclass of keyword fields.

    Its types are those of JSON and are checked when a record is read, by `from_json`.
    """
    return no_type_check(dataclasses.dataclass(frozen=True, kw_only=True)(cls))


@stored
class Record:
    """The base of all kinds: what a record was made with.

    Attributes:
      kind: its name in files; each kind has its own.
      command: what made it; None if it was none of `scripts/`.
      versions, device: of the software and of the hardware.
      path: the file that it was read from; None if it was made just now.
    """

    kind: ClassVar[str]

    command: Text | None = None
    versions: Versions = dataclasses.field(default_factory=dict)
    device: Device = dataclasses.field(default_factory=dict)
    path: Path | None = dataclasses.field(default=None, compare=False, repr=False)

    @classmethod
    def identity_names(cls) -> list[str]:
        """The fields that all records of one run share."""
        return [f.name for f in dataclasses.fields(cls) if "identity" in f.metadata]

    @classmethod
    def from_json(
        cls, values: dict[str, Any], place: str, path: Path | None = None
    ) -> "Record":
        """A record from the object that `to_json` gave.

        Args:
          values: the object; keys that the kind does not have are passed over.
          place: file and line, for errors.
          path: the file.

        Raises:
          DataError: a field is lacking, or holds what it cannot; the message names it.
        """
        given, lacking = {}, []
        for field in _fields(cls):
            if field.name in values:
                _require(field, values[field.name], place)
                given[field.name] = values[field.name]
            elif _is_required(field):
                lacking.append(field.name)
        if lacking:
            raise DataError(f"{place}: the {cls.kind} lacks {', '.join(lacking)}")
        try:
            return cls(**given, path=path)
        except ValueError as error:  # of several fields together
            raise DataError(f"{place}: {error}") from error

    def to_json(self) -> dict[str, Any]:
        """Its kind and its fields, as JSON has them; those without a value left out."""
        own, made_with = [], []
        for field in _fields(type(self)):
            (made_with if field.name in _MADE_WITH else own).append(field.name)
        values = {name: getattr(self, name) for name in (*own, *made_with)}
        values = {name: value for name, value in values.items() if value is not None}
        return json.loads(json.dumps({"kind": self.kind, **values}))

    @property
    def made_on(self) -> str:
        """The device and the version of JAX, as far as the record says."""
        parts = [self.device.get("kind", "a device not named")]
        if self.device.get("platform") == "cpu":
            parts.append(f"{self.device.get('cpu_cores')} cores")
        version = self.versions.get("jax")
        return ", ".join(parts + ([f"jax {version}"] if version else []))


_MADE_WITH = ("command", "versions", "device")


def _fields(kind: type[Record]) -> list[dataclasses.Field]:
    """Those that are written."""
    return [field for field in dataclasses.fields(kind) if field.name != "path"]


def _is_required(field: dataclasses.Field) -> bool:
    missing = dataclasses.MISSING
    return field.default is missing and field.default_factory is missing


def _require(field: dataclasses.Field, value: Any, place: str) -> None:
    """Raises DataError unless a field may hold a value."""
    allowed = [field.type]
    if type(None) in typing.get_args(field.type):
        if value is None:
            return
        allowed = typing.get_args(field.type)
    constraints = [
        constraint
        for kind in allowed
        for constraint in getattr(kind, "__metadata__", ())
        if isinstance(constraint, Constraint)
    ]
    for constraint in constraints:
        if not constraint.holds(value):
            told = json.dumps(value)[:100]
            raise DataError(
                f"{place}: {field.name} must be {constraint.words}, not {told}"
            )


def environment() -> dict[str, Any]:
    """What a record that is made now was made with, as fields of `Record`."""
    devices = jax.devices()
    return {
        "command": command(),
        "versions": {
            "python": platform.python_version(),
            "specdec_jax": __version__,  # also of a checkout on the path
            **_installed(PACKAGES),
        },
        "device": {
            "platform": devices[0].platform,
            "kind": devices[0].device_kind,
            "count": len(devices),
            "cpu_cores": os.cpu_count(),
        },
    }


def _installed(packages: Sequence[str]) -> dict[str, str]:
    """The versions of packages; those that are not installed, as libtpu, left out."""
    versions = {}
    for name in packages:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    return versions


def command() -> str | None:
    """The command that runs now, without `--out`; None if it is none of `scripts/`."""
    program, *given = sys.argv
    if Path(program).parent.name != "scripts":
        return None
    kept, after_out = [], False
    for argument in given:
        is_out = re.fullmatch("--?out(=.*)?", argument, re.DOTALL)
        if not (is_out or after_out):
            kept.append(argument)
        after_out = bool(is_out) and "=" not in argument
    return shlex.join(["python", f"scripts/{Path(program).name}", *kept])


def digest(values: Any) -> str:
    """SHA-256, in hex, of numbers and strings in lists: what tells inputs apart."""
    return hashlib.sha256(json.dumps(values).encode()).hexdigest()
