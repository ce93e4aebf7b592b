"""Running a notebook and writing it with its outputs."""

import re
import sys
from pathlib import Path

from specdec_jax.errors import DataError, SettingsError
from specdec_jax.typing import Any

# Lines of libtpu's log, which the kernel takes for the notebook's own.
LIBTPU = re.compile(
    r"WARNING: |Failed to find host bounds|[EWI]\d{4} |=== Source Location|learning/"
)


def run_notebook(path: Path, out: Path, timeout: int) -> None:
    """Executes all cells of a notebook.

    Args:
      path: of the notebook, which runs in the folder that it is in.
      out: the folder that it is written to, under the same name.
      timeout: seconds that one cell may take.

    Raises:
      SettingsError: what runs notebooks is not installed.
      DataError: it cannot be read, a cell fails, or one takes too long.
    """
    nbclient, nbformat = _modules()
    try:
        notebook = nbformat.read(path, as_version=4)
    except (OSError, ValueError, AttributeError, nbformat.ValidationError) as error:
        raise DataError(f"cannot read the notebook {path}: {error}") from error
    client = nbclient.NotebookClient(
        notebook,
        timeout=timeout,
        kernel_name="python3",
        resources={"metadata": {"path": str(path.parent)}},
        record_timing=False,
        coalesce_streams=True,  # how print was buffered is chance
        startup_timeout=600,
    )
    exceptions = nbclient.exceptions
    try:
        client.execute()
    except exceptions.CellTimeoutError as error:
        raise DataError(
            f"{path}: a cell took more than --timeout={timeout} seconds"
        ) from error
    except (exceptions.CellExecutionError, exceptions.DeadKernelError) as error:
        raise DataError(f"{path} does not run:\n{error}") from error
    for cell in notebook.cells:
        _drop_libtpu_log(cell)
    notebook.metadata = {  # nothing of the machine
        "kernelspec": {
            "display_name": "Python 3 (ipykernel)",
            "language": "python",
            "name": "python3",
        },
        "language_info": {"name": "python"},
    }
    out.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, out / path.name)


def _modules() -> tuple[Any, Any]:
    try:
        import nbclient
        import nbformat
    except ImportError as error:
        raise SettingsError(
            f"{error.name} runs notebooks and is missing: pip install -e '.[notebooks]'"
        ) from error
    return nbclient, nbformat


def _drop_libtpu_log(cell: Any) -> None:
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
