"""Folders and files, local or in Cloud Storage (gs://), as TensorStore reads them.

And what the files beside records are called.
"""

import dataclasses
import os
from pathlib import Path
from typing import Any

import tensorstore

from specdec_jax.errors import DataError

# Small files only are read whole. TensorStore alone would try for many minutes.
TIMEOUT_SECONDS = 45.0


def beside(records: str | os.PathLike, ending: str) -> Path:
    """A file beside `NAME.jsonl`: `NAME` and the ending; `NAME` may have dots."""
    path = Path(records)
    return path.with_name(path.name.removesuffix(".jsonl") + ending)


@dataclasses.dataclass(frozen=True)
class Folder:
    """A folder that is read by name; it need not exist."""

    path: str

    @property
    def spec(self) -> dict[str, Any]:
        """TensorStore's description of the folder, a key-value store."""
        if self.path.startswith("gs://"):
            bucket, _, inner = self.path.removeprefix("gs://").partition("/")
            inner = inner.rstrip("/") + "/" if inner else ""
            return {"driver": "gcs", "bucket": bucket, "path": inner}
        return {"driver": "file", "path": os.path.join(os.path.abspath(self.path), "")}

    def at(self, name: str) -> dict[str, Any]:
        """The description of something in the folder."""
        return {**self.spec, "path": self.spec["path"] + name}

    def read(self, name: str) -> bytes | None:
        """A file's content, or None if there is no such file.

        Raises:
          DataError: the storage does not answer, or may not be read.
        """
        try:
            store = tensorstore.KvStore.open(self.spec).result(TIMEOUT_SECONDS)
            found = store.read(name).result(TIMEOUT_SECONDS)
        except TimeoutError as error:
            raise DataError(
                f"cannot read {name} in {self.path}: no answer in "
                f"{TIMEOUT_SECONDS:g} s; are there a network and credentials for it?"
            ) from error
        except Exception as error:  # TensorStore has no type of its own
            reason = " ".join(str(error).split())
            raise DataError(f"cannot read {name} in {self.path}: {reason}") from error
        return found.value if found.state == "value" else None


def read_file(path: str | os.PathLike) -> bytes | None:
    """A file's content, or None if there is no such file.

    Raises:
      DataError: the storage does not answer, or may not be read.
    """
    folder, _, name = os.fspath(path).rpartition("/")
    return Folder(folder or ".").read(name)
