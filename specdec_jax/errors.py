"""The errors that this package raises for what a user can mend.

Each message names the wrong thing and what to do. The programs print it as one line.
"""


class SpecdecError(Exception):
    """Base of all errors below."""


class SettingsError(SpecdecError, ValueError):
    """A setting is outside what it may be."""


class DataError(SpecdecError, ValueError):
    """Text or a data file cannot be used."""


class CheckpointError(SpecdecError, ValueError):
    """Weights are missing, corrupt, or do not fit their configuration."""


class PairError(SpecdecError, ValueError):
    """A drafter and a target that cannot work together, or an unknown pair."""


def one_line(error: BaseException) -> str:
    """An error's message without its line breaks."""
    return " ".join(str(error).split())
