"""Packages that do not come with the core, imported when they are needed."""

import importlib
from types import ModuleType

from specdec_jax.errors import SettingsError


def package(name: str) -> ModuleType:
    """A package of the extra "seqio".

    Raises:
      SettingsError: it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise SettingsError(
            f"tasks need the package {name} ({error}): pip install -e '.[seqio]'"
        ) from error
