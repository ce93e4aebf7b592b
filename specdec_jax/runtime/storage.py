"""Folders and files, local or in Cloud Storage (gs://), as TensorStore reads them.

And what the files beside records are called.
"""

import dataclasses
import os
from pathlib import Path
from typing import Any

import tensorstore

from specdec_jax.errors import DataError, one_line

SERVER_VARIABLE = "TENSORSTORE_GCS_HTTP_URL"  # TensorStore's, for another server

# TensorStore alone would try for many minutes. A small answer may take so long, and a
# large one as much longer as it would at the least speed that counts as a network.
TIMEOUT_SECONDS = 45.0
SLOWEST = 4e6  # bytes a second

# A refused or failed request is repeated after 1 s, 2 s, 4 s and so on: 50 s in all for
# a part of an array, which many hosts may want at once, and a few for a small file.
_RETRIES = {"max_retries": 8, "max_delay": "8s"}
_FEW_RETRIES = {"max_retries": 3}
CONTEXT = tensorstore.Context(
    {
        "gcs_request_retries": _RETRIES,
        "http_request_retries": _RETRIES,
        # As many requests at a time as to Cloud Storage: it may be a network's files.
        "file_io_concurrency": {"limit": 32},
    }
)
_SMALL_FILES = tensorstore.Context(
    {"gcs_request_retries": _FEW_RETRIES, "http_request_retries": _FEW_RETRIES}
)
# Buckets that are not read without credentials, as was found out.
_PRIVATE: set[str] = set()
_REFUSED = ("PERMISSION_DENIED", "UNAUTHENTICATED")


def beside(records: str | os.PathLike, ending: str) -> Path:
    """A file beside `NAME.jsonl`: `NAME` and the ending; `NAME` may have dots."""
    path = Path(records)
    return path.with_name(path.name.removesuffix(".jsonl") + ending)


@dataclasses.dataclass(frozen=True)
class Folder:
    """A folder that is read by name; it need not exist."""

    path: str

    @property
    def bucket(self) -> str | None:
        """In Cloud Storage; None of a local folder."""
        if not self.path.startswith("gs://"):
            return None
        return self.path.removeprefix("gs://").partition("/")[0]

    @property
    def spec(self) -> dict[str, Any]:
        """TensorStore's description of the folder, a key-value store.

        A bucket is taken for public, and read without credentials, until a `read` was
        refused: those of this machine may be expired, or of another scope.
        """
        if self.bucket is None:
            path = os.path.join(os.path.abspath(self.path), "")
            return {"driver": "file", "path": path}
        inner = self.path.removeprefix(f"gs://{self.bucket}").strip("/")
        inner = inner + "/" if inner else ""
        if self.bucket in _PRIVATE:
            return {"driver": "gcs", "bucket": self.bucket, "path": inner}
        server = os.environ.get(SERVER_VARIABLE, "https://storage.googleapis.com")
        url = f"{server}/{self.bucket}/"
        return {"driver": "http", "base_url": url, "path": inner}

    def at(self, name: str) -> dict[str, Any]:
        """The description of something in the folder."""
        return {**self.spec, "path": self.spec["path"] + name}

    def answer(self, future: tensorstore.Future, num_bytes: int = 0) -> Any:
        """What TensorStore answers; for a local folder however long it takes.

        Args:
          future: of something in the folder.
          num_bytes: of all that is under way, if that is much.

        Raises:
          TimeoutError: it takes too long.
        """
        if self.bucket is None:
            return future.result()
        seconds = TIMEOUT_SECONDS + num_bytes / SLOWEST
        try:
            return future.result(seconds)
        except TimeoutError as error:
            raise TimeoutError(
                f"no answer in {seconds:g} s; are there a network and credentials for "
                "it?"
            ) from error

    def read(self, name: str) -> bytes | None:
        """A file's content, or None if there is no such file.

        Raises:
          DataError: the storage does not answer, or may not be read.
        """
        try:
            return self._read(name)
        except Exception as error:  # TensorStore has no type of its own
            reason = one_line(error)
            if self.spec["driver"] == "http" and any(r in reason for r in _REFUSED):
                _PRIVATE.add(self.bucket)
                return self.read(name)
            raise DataError(f"cannot read {name} in {self.path}: {reason}") from error

    def _read(self, name: str) -> bytes | None:
        opening = tensorstore.KvStore.open(self.spec, context=_SMALL_FILES)
        found = self.answer(self.answer(opening).read(name))
        return found.value if found.state == "value" else None


def read_file(path: str | os.PathLike) -> bytes | None:
    """A file's content, or None if there is no such file.

    Raises:
      DataError: the storage does not answer, or may not be read.
    """
    folder, _, name = os.fspath(path).rpartition("/")
    return Folder(folder or ".").read(name)
