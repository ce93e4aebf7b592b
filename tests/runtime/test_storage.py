"""Names beside records, and Cloud Storage, played by a server of this machine."""

import http.server
import threading
import urllib.parse
from pathlib import Path

import jax
import pytest

from specdec_jax.checkpoints import t5x
from specdec_jax.errors import CheckpointError, DataError
from specdec_jax.runtime import storage
from specdec_jax.runtime.storage import Folder, beside, read_file
from tests.checkpoints import amplification


@pytest.mark.parametrize(
    ("records", "expected"),
    [("a/t0.5.jsonl", "a/t0.5.gin"), ("alpha.v1", "alpha.v1.gin"), ("x", "x.gin")],
)
def test_a_name_with_dots_keeps_them(records, expected):
    assert beside(records, ".gin") == Path(expected)


class Server(http.server.ThreadingHTTPServer):
    """Buckets `public` and `private`, folders below a root, and one that is locked."""

    daemon_threads = True

    def __init__(self, root):
        super().__init__(("127.0.0.1", 0), Handler)
        self.root, self.seen = root, []
        self.silent = lambda path: False
        self.goes_on = threading.Event()  # with what it was silent about


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path).path
        if url.startswith("/storage/v1/b/"):  # what credentials are used with
            bucket, _, name = url.removeprefix("/storage/v1/b/").partition("/o/")
            path = f"{bucket}/{urllib.parse.unquote(name)}"
        else:
            path = urllib.parse.unquote(url.strip("/"))
        token = self.headers.get("Authorization")
        self.server.seen.append((path, token))
        if self.server.silent(path):
            self.server.goes_on.wait()
        file = self.server.root / path
        if path.startswith("private/") and token != "Bearer good":
            self.answer(401)
        elif path.startswith("locked/"):
            self.answer(403)
        elif file.is_file():
            self.answer(200, file.read_bytes())
        else:
            self.answer(404)

    def answer(self, status, content=b""):
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("ETag", '"1"')
        self.send_header("x-goog-generation", "1")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args):
        pass


@pytest.fixture
def server(tmp_path, monkeypatch):
    for bucket in ("public", "private"):
        (tmp_path / bucket).mkdir()
    monkeypatch.setattr(storage, "_PRIVATE", set())
    with Server(tmp_path) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        monkeypatch.setenv(storage.SERVER_VARIABLE, url)
        yield server
        server.goes_on.set()
        server.shutdown()


def test_a_public_bucket_is_read_without_credentials(server, monkeypatch):
    """Though this machine has some, which are no good."""
    monkeypatch.setenv("GOOGLE_AUTH_TOKEN_FOR_TESTING", "expired")
    step = server.root / "public" / "models" / "checkpoint_7"
    step.mkdir(parents=True)
    amplification.write(step, (2, 2), stacked=True)
    found = t5x.open_folder("gs://public/models/checkpoint_7").load()
    expected = t5x.open_folder(step).load()
    same = jax.tree.map(lambda a, b: bool((a == b).all()), found, expected)
    assert all(jax.tree.leaves(same))
    assert {token for _, token in server.seen} == {None}
    (server.root / "public" / "spiece.model").write_bytes(b"pieces")
    assert read_file("gs://public/spiece.model") == b"pieces"
    assert read_file("gs://public/no.model") is None


def test_a_private_bucket_is_read_with_them(server, monkeypatch):
    monkeypatch.setenv("GOOGLE_AUTH_TOKEN_FOR_TESTING", "good")
    (server.root / "private" / "a").write_bytes(b"content")
    for _ in range(2):
        assert read_file("gs://private/a") == b"content"
    assert [token for _, token in server.seen] == [None, "Bearer good", "Bearer good"]


def test_a_bucket_that_may_not_be_read_is_named(server, monkeypatch):
    monkeypatch.setenv("GOOGLE_AUTH_TOKEN_FOR_TESTING", "good")
    with pytest.raises(DataError, match=r"^cannot read a in gs://locked: .*403") as e:
        Folder("gs://locked").read("a")
    assert "\n" not in str(e.value)


def test_a_storage_that_falls_silent_is_given_up_and_the_tensor_named(
    server, monkeypatch
):
    step = server.root / "public" / "checkpoint_7"
    step.mkdir()
    amplification.write(step, (2, 2), stacked=False)
    checkpoint = t5x.open_folder("gs://public/checkpoint_7")
    for tensor in checkpoint.tensors.values():
        for piece in tensor.pieces:
            if piece.source.chunks is not None:
                piece.source.chunks()  # opens the array
    server.silent = lambda path: True
    monkeypatch.setattr(storage, "TIMEOUT_SECONDS", 0.1)
    monkeypatch.setattr(storage, "SLOWEST", 1e12)
    words = r"tensor target/\S+ cannot be read: no answer in 0.1.* s; are there a"
    with pytest.raises(CheckpointError, match=words):
        checkpoint.load()
