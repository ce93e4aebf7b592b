"""What a program uses of what gin was told, found before it begins to work.

A run file serves several programs, so that each leaves some of it unused. A binding on
the command line is meant for the program that runs: one that it does not use is an
error, and so is a required one that is missing.
"""

import difflib
import inspect
import sys
import typing
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path

import gin

from specdec_jax.errors import SettingsError
from specdec_jax.typing import Any

REQUIRED = "%gin.REQUIRED"  # how gin shows a value that somebody must still give


class Use:
    """What is read when some configurables are called.

    Attributes:
      parameters: (scope, configurable, parameter) of the bound ones: their value and
        the annotation in the signature.
      macros: the names of those that are mentioned.
      missing: macros that are not bound to anything, or only to `%gin.REQUIRED`.
    """

    def __init__(self, roots: Iterable[Callable | str]):
        """Follows references and macros.

        Args:
          roots: what is called: registered functions and classes, or a single parameter
            of one, as "TaskRun.task".
        """
        self.parameters: dict[tuple[str, str, str], tuple[Any, Any]] = {}
        self.macros: set[str] = set()
        self.missing: set[str] = set()
        for root in roots:
            name, _, only = (
                root if isinstance(root, str) else root.__name__
            ).partition(".")
            self._call("", gin.get_configurable(name), only)

    def _call(self, scope: str, function: Callable, only: str = "") -> None:
        name = function.__name__
        bound = gin.get_bindings(
            f"{scope}/{name}".lstrip("/"), resolve_references=False
        )
        called = function.__init__ if inspect.isclass(function) else function
        kinds = inspect.signature(called).parameters
        for parameter, value in bound.items():
            key = (scope, name, parameter)
            if key not in self.parameters and only in ("", parameter):
                self.parameters[key] = value, kinds[parameter].annotation
                self._read(value, scope)

    def _read(self, value: Any, scope: str, within: tuple[str, ...] = ()) -> None:
        for reference in gin.config.iterate_references({"": value}):
            macro = _macro(reference)
            if macro is None and repr(reference) != REQUIRED:
                inner = "/".join(reference.scopes) or scope
                self._call(inner, reference.configurable.wrapper)
            elif macro in within:
                raise SettingsError(f"gin: the macro {macro} is bound to itself")
            elif macro is not None and macro not in self.macros:
                self.macros.add(macro)
                found = _value_of(macro)
                if repr(found) == REQUIRED:
                    self.missing.add(macro)
                self._read(found, scope, (*within, macro))

    def has(self, name: str) -> bool:
        """Whether a macro is used, or a parameter, `scope/Configurable.parameter`."""
        if "." not in name:
            return name in self.macros
        path, _, parameter = name.rpartition(".")
        scope, _, function = path.rpartition("/")
        function = function.rpartition(".")[2]  # its module may be named too
        return any(
            (function, parameter) == key[1:]
            and f"{key[0]}/".startswith(f"{scope}/" if scope else "")
            for key in self.parameters
        )

    def hint(self, name: str, also: Collection[str] = ()) -> str:
        """What may have been meant by a name that is not used."""
        if "." in name:
            functions = sorted({function for _, function, _ in self.parameters})
            return f"it uses what is bound of {', '.join(functions)}"
        macros = sorted(self.macros.union(also))
        near = difflib.get_close_matches(name, macros, 1)
        if near:
            return f"did you mean {near[0]}?"
        return f"its macros are {', '.join(macros) or 'none'}"

    def check_text(self) -> None:
        """Raises SettingsError where a number is bound to a string, such as a path.

        On a command line, `2024_01` and `123` are numbers to gin.
        """
        for (_, function, parameter), (value, kind) in self.parameters.items():
            name = f"{function}.{parameter}"
            while (macro := _macro(value)) is not None:
                name, value = macro, _value_of(macro)
            kinds = typing.get_args(kind) or (kind,)
            is_path = str in kinds and not any(map(_may_be_a_number, kinds))
            if is_path and isinstance(value, int | float):
                raise SettingsError(
                    f"{name} takes a string, and {value!r} is a number: write "
                    f"""--gin.{name}="'...'" with quotes of its own"""
                )


def check_use(
    roots: Iterable[Callable | str],
    bindings: Sequence[str],
    also: Collection[str] = (),
) -> None:
    """Refuses bindings of the command line that no root uses, and what is missing.

    Args:
      roots: what the program calls, as `Use` takes them.
      bindings: of the command line, as "NAME = VALUE".
      also: macros that a root would use if the command line gave them.

    Raises:
      SettingsError: a binding is not used, a required macro is not bound, or a number
        stands where a string must.
    """
    use, program = Use(roots), Path(sys.argv[0]).name
    for binding in bindings:
        name = binding.partition("=")[0].strip()
        if not use.has(name):
            raise SettingsError(
                f"nothing in {program} uses {name} here: {use.hint(name, also)}"
            )
    if use.missing:
        flags = " ".join(f"--gin.{name}=..." for name in sorted(use.missing))
        raise SettingsError(f"{program} needs {flags}")
    use.check_text()


def _may_be_a_number(kind: Any) -> bool:
    """Or a sequence of numbers, of which another check says what it must be."""
    return kind in (int, float, bool) or typing.get_origin(kind) is not None


def _macro(value: Any) -> str | None:
    """The name of the macro that a value is, if it is one."""
    shown = repr(value)
    is_reference = isinstance(value, gin.config.ConfigurableReference)
    return shown[1:] if is_reference and shown[0] == "%" and shown != REQUIRED else None


def _value_of(macro: str) -> Any:
    """What a macro is bound to; `%gin.REQUIRED` if nothing."""
    try:
        return gin.query_parameter(f"%{macro}")
    except ValueError:
        return gin.config.parse_value(REQUIRED)
