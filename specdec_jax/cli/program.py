"""How a program of `scripts/` runs: its command line, and its errors in one line."""

import os
import sys
import tokenize
from collections.abc import Callable, Sequence

import gin
import jax
from absl import app, flags, logging

from specdec_jax.errors import SettingsError, SpecdecError, one_line

_CACHE = flags.DEFINE_string(
    "compilation_cache",
    None,
    "folder that keeps compiled programs for later runs; JAX_COMPILATION_CACHE_DIR, or "
    "none, if not given.",
)

INTERRUPTED = 130  # the exit code of a program that Ctrl-C ends: 128 + SIGINT


def run_program(main: Callable[[list[str]], None], takes_words: bool = False) -> None:
    """Runs a script's main function.

    Bad flags and bad input become one line on stderr and exit code 1; Ctrl-C becomes
    one line and exit code 130.

    Args:
      main: takes the words of the command line that belong to no flag.
      takes_words: False if there may be none, which would otherwise pass unheard.
    """
    logging.set_verbosity(logging.WARNING)  # jax logs every backend that it lacks
    for stream in (sys.stdout, sys.stderr):
        # A letter that a terminal cannot write is no reason to stop.
        stream.reconfigure(errors="replace")

    def checked(argv: list[str]) -> None:
        words = argv[1:]
        if words and not takes_words:
            raise SettingsError(
                f"{words[0]!r} belongs to no flag: write --FLAG={words[0]!r} "
                "(--helpshort lists the flags)"
            )
        main(words)

    try:
        app.run(checked, flags_parser=_parse_flags)
    except KeyboardInterrupt:
        print("stopped; what is on record stays", file=sys.stderr)
        leave(INTERRUPTED)
    except SpecdecError as error:
        # gin adds lines on where it was called from; the first says what is wrong.
        message = str(error).partition("\n  In call to configurable")[0]
        raise SystemExit(f"error: {message}") from error


def leave(status: int) -> None:
    """Ends the process at once: XLA may still compute with what Python would free."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def rewrite_gin_args(argv: Sequence[str]) -> list[str]:
    """T5X's `--gin.NAME=VALUE` as the flag that absl knows.

    Strings may come without quotes: a value that gin cannot read is taken as a string.
    """
    rewritten = []
    for arg in argv:
        if not arg.startswith("--gin."):
            rewritten.append(arg)
            continue
        name, equals, value = arg.removeprefix("--gin.").partition("=")
        if not equals:
            raise SettingsError(f"{arg}: write --gin.NAME=VALUE")
        rewritten.append(f"--gin_bindings={name} = {_quoted(value)}")
    return rewritten


def _quoted(value: str) -> str:
    if value.startswith(("@", "%")):  # of names that gin does not know yet
        return value
    try:
        gin.config.parse_value(value)
    except (ValueError, SyntaxError, tokenize.TokenError):
        return repr(value)
    return value


def _parse_flags(argv: Sequence[str]) -> list[str]:
    """The words that belong to no flag; JAX keeps its programs where the flags say."""
    try:
        words = flags.FLAGS(rewrite_gin_args(argv))
    except flags.UnrecognizedFlagError as error:
        if error.flagname == "gin_bindings":
            raise SettingsError("this program has flags only, no --gin.NAME") from error
        raise SettingsError(
            f"{error} (--helpshort lists the flags; a macro or parameter of gin is "
            "given as --gin.NAME=VALUE)"
        ) from error
    except flags.Error as error:
        raise SettingsError(one_line(error)) from error
    if _CACHE.value:
        folder = os.path.expanduser(_CACHE.value)
        jax.config.update("jax_compilation_cache_dir", folder)
    return words
