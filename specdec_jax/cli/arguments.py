"""What a program's command line may hold besides flags: nothing."""

from collections.abc import Sequence

from specdec_jax.errors import SettingsError


def only_flags(argv: Sequence[str]) -> None:
    """Refuses words that belong to no flag, which would otherwise pass unheard.

    Args:
      argv: what absl left: the program's name, and such words.

    Raises:
      SettingsError: there is a word.
    """
    if len(argv) > 1:
        raise SettingsError(
            f"{argv[1]!r} belongs to no flag: write --FLAG={argv[1]!r} "
            "(--helpshort names the flags)"
        )
