"""Runs notebooks, all of notebooks/ if none is named, and writes their outputs.

python scripts/run_notebooks.py
python scripts/run_notebooks.py --out=FOLDER notebooks/translate.ipynb
"""

import re
import sys
import time
from pathlib import Path

from absl import flags
from rich.console import Console

from specdec_jax import DataError, SettingsError
from specdec_jax.cli import gin_bindings

_OUT = flags.DEFINE_string(
    "out", None, "folder for the notebooks with outputs; in place if not given."
)
_TIMEOUT = flags.DEFINE_integer("timeout", 1800, "seconds that one cell may take.")

# Lines of its log, which the kernel takes for the notebook's own.
LIBTPU = re.compile(
    r"WARNING: |Failed to find host bounds|[EWI]\d{4} |=== Source Location|learning/"
)
NOTEBOOKS = Path(__file__).parent.parent / "notebooks"


def _modules():
    try:
        import nbclient
        import nbformat
    except ImportError as error:
        raise SettingsError(
            f"{error.name} runs notebooks and is missing: pip install -e '.[notebooks]'"
        ) from error
    return nbclient, nbformat


def _run(path: Path, out: Path):
    nbclient, nbformat = _modules()
    try:
        notebook = nbformat.read(path, as_version=4)
    except (OSError, ValueError, AttributeError, nbformat.ValidationError) as error:
        raise DataError(f"cannot read the notebook {path}: {error}") from error
    client = nbclient.NotebookClient(
        notebook,
        timeout=_TIMEOUT.value,
        kernel_name="python3",
        resources={"metadata": {"path": str(NOTEBOOKS)}},
        record_timing=False,
        coalesce_streams=True,  # how print was buffered is chance
        startup_timeout=600,
    )
    exceptions = nbclient.exceptions
    try:
        client.execute()
    except exceptions.CellTimeoutError as error:
        raise DataError(
            f"{path}: a cell took more than --timeout={_TIMEOUT.value} seconds"
        ) from error
    except (exceptions.CellExecutionError, exceptions.DeadKernelError) as error:
        raise DataError(f"{path} does not run:\n{error}") from error
    for cell in notebook.cells:
        _without_libtpus_log(cell)
    notebook.metadata = {  # nothing of the machine
        "kernelspec": {
            **{"display_name": "Python 3 (ipykernel)", "language": "python"},
            "name": "python3",
        },
        "language_info": {"name": "python"},
    }
    out.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, out / path.name)


def _without_libtpus_log(cell):
    """Prints what libtpu says where there is no TPU, and does not keep it."""
    kept = []
    for output in cell.get("outputs", []):
        if output.get("name") == "stderr":
            lines = output["text"].splitlines(keepends=True)
            print("".join(filter(LIBTPU.match, lines)), end="", file=sys.stderr)
            output["text"] = "".join(x for x in lines if not LIBTPU.match(x))
            if not output["text"].strip():
                continue
        kept.append(output)
    if "outputs" in cell:
        cell["outputs"] = kept


def main(argv):
    paths = [Path(name) for name in argv[1:]] or sorted(NOTEBOOKS.glob("*.ipynb"))
    console = Console(highlight=False, soft_wrap=True)
    for path in paths:
        start = time.perf_counter()
        _run(path, Path(_OUT.value) if _OUT.value else path.parent)
        console.print(f"{path.name}: {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    gin_bindings.run_program(main)
