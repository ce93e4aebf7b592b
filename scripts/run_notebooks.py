"""Runs notebooks, all of notebooks/ if none is named, and writes their outputs.

python scripts/run_notebooks.py
python scripts/run_notebooks.py --out=FOLDER notebooks/translate.ipynb
"""

import time
from pathlib import Path

from absl import flags

from specdec_jax.cli.notebooks import run_notebook
from specdec_jax.cli.program import run_program

_OUT = flags.DEFINE_string(
    "out", None, "folder for the notebooks with outputs; in place if not given."
)
_TIMEOUT = flags.DEFINE_integer("timeout", 1800, "seconds that one cell may take.", 1)
NOTEBOOKS = Path(__file__).parent.parent / "notebooks"


def main(names):
    for path in map(Path, names) if names else sorted(NOTEBOOKS.glob("*.ipynb")):
        start = time.perf_counter()
        run_notebook(path, Path(_OUT.value or path.parent), _TIMEOUT.value)
        print(f"{path.name}: {time.perf_counter() - start:.0f} s", flush=True)


if __name__ == "__main__":
    run_program(main, takes_words=True)
