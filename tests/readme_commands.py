"""Checks commands of one script as the READMEs give them, without doing their work.

A program of its own, since a process defines a script's flags once:

    python -m tests.readme_commands scripts/NAME.py < COMMANDS.json

COMMANDS is a list of lists of arguments. Flags are parsed, gin files read, and bindings
held against what the program uses; there it ends. Faults are printed, a line each.
"""

import contextlib
import json
import runpy
import sys

import gin
from absl import app, flags

from specdec_jax.cli import gin_bindings, process_flags, program
from specdec_jax.errors import SpecdecError
from specdec_jax.runtime.distributed import Processes


class Checked(Exception):
    """The command line is good, and the work would begin."""


def stop(*args, **kwargs):
    raise Checked


def fault(script: str, argv: list[str], main, takes_words: bool, uses_gin: bool):
    """What is wrong with one command line; None if nothing is."""
    flags.FLAGS.unparse_flags()
    for name in flags.FLAGS:
        flags.FLAGS[name].unparse()
    gin.clear_config()
    sys.argv = [script, *argv]
    try:
        words = program._parse_flags(sys.argv)[1:]
        if words and not takes_words:
            return f"{words[0]!r} belongs to no flag"
        if uses_gin:
            main(words)
    except Checked:
        return None
    except (SpecdecError, SystemExit) as error:
        return str(error)
    return "it does not check what it uses of gin" if uses_gin else None


def main():
    script, commands = sys.argv[1], json.load(sys.stdin)
    found = {}
    app.run = None  # a script that runs by itself would show

    def caught(main, takes_words=False):
        found.update(main=main, takes_words=takes_words)

    program.run_program, inner = caught, gin_bindings.require_use

    def check_and_stop(*roots):
        inner(*roots)
        stop()

    gin_bindings.require_use = check_and_stop
    process_flags.processes = lambda: contextlib.nullcontext(Processes())
    code = runpy.run_path(script, run_name="__main__")
    uses_gin = "gin_bindings" in code
    for argv in commands:
        wrong = fault(script, argv, found["main"], found["takes_words"], uses_gin)
        if wrong:
            print(f"{' '.join(argv)}: {wrong}")


if __name__ == "__main__":
    main()
