"""Peers as the rounds use them: in this process, or each in one of its own.

In a process of its own a peer's memory can be told from the others', its threads do
not mix with theirs, and it may have another interpreter, with libraries that would not
go together. A TPU belongs to one process: there all peers are in this one.
"""

import contextlib
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import specdec_jax
from specdec_jax.experiments.peers import catalogue, memory
from specdec_jax.experiments.peers.protocol import (
    Decoded,
    PeerAbsent,
    PeerFailed,
    Runner,
    Task,
)
from specdec_jax.typing import Any

ROOT = Path(specdec_jax.__file__).parent.parent
LAST_LINES = 15  # of what a peer said before it broke down


class Here:
    """A peer in this process."""

    def __init__(self, name: str, task: Task):
        """Opens it.

        Raises:
          PeerAbsent: it is not there, or cannot do the task.
        """
        self._peer = catalogue.open_peer(catalogue.PEERS[name], task)
        self.about = {
            "versions": dict(self._peer.versions),
            "settings": dict(self._peer.settings),
        }

    def decode(self, tokens: Sequence[int], seed: int) -> Decoded:
        return self._peer.decode(tokens, seed)

    def warmed_up(self) -> None:
        pass

    def memory(self) -> dict[str, float] | None:
        return None  # which part of this process is whose cannot be told

    def close(self) -> None:
        pass


class OwnMemory(Here):
    """The one peer of this process."""

    def __init__(self, name: str, task: Task):
        catalogue.import_peer(catalogue.PEERS[name])
        self._imports = memory.resident_mb()
        super().__init__(name, task)

    def warmed_up(self) -> None:
        memory.forget_peak()

    def memory(self) -> dict[str, float] | None:
        if self._imports is None:
            return None
        return {"peak_mb": memory.peak_mb(), "imports_mb": self._imports}


class InOwnProcess:
    """A peer in a process of its own, which `worker` runs."""

    def __init__(self, name: str, task: Task, python: str | None = None):
        """Starts it.

        Args:
          name: one of `catalogue.PEERS`.
          task: what it is to do.
          python: another interpreter, with the peer's libraries and ours.

        Raises:
          PeerAbsent: it is not there, or cannot do the task.
          PeerFailed: it broke down.
        """
        self._name = name
        self._said = tempfile.TemporaryFile("w+b")  # noqa: SIM115, closed by close()
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        more = {"PYTHONPATH": path, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
        if task.platform != "cpu":  # where float32 products may be made of less
            more["JAX_DEFAULT_MATMUL_PRECISION"] = "highest"
        try:
            self._process = subprocess.Popen(
                [python or sys.executable, "-m", f"{__package__}.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._said,
                env=os.environ | more,
                text=True,
                encoding="utf-8",
            )
        except OSError as error:
            raise PeerFailed(f"{name}: cannot start {python}: {error}") from error
        try:
            answer = self._ask(peer=name, task=dataclasses.asdict(task))
        except PeerFailed:
            self.close()
            raise
        if "absent" in answer:
            self.close()
            raise PeerAbsent(answer["absent"], answer["install"])
        self.about = answer["about"]

    def decode(self, tokens: Sequence[int], seed: int) -> Decoded:
        given = [int(token) for token in tokens]
        return Decoded(**self._ask(do="decode", tokens=given, seed=seed))

    def warmed_up(self) -> None:
        self._ask(do="warmed_up")

    def memory(self) -> dict[str, float] | None:
        return self._ask(do="memory")["memory"]

    def close(self) -> None:
        """Ends the process."""
        with contextlib.suppress(BrokenPipeError):  # what a dead one did not read
            self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
        self._said.close()

    def _ask(self, **order: Any) -> dict[str, Any]:
        try:
            print(json.dumps(order), file=self._process.stdin, flush=True)
            answer = self._process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            code = self._process.wait()
            self._said.seek(0)
            lines = self._said.read().decode("utf-8", "replace").splitlines()
            last = "\n".join(lines[-LAST_LINES:])
            raise PeerFailed(f"{self._name} ended with exit code {code}:\n{last}")
        try:
            return json.loads(answer)
        except ValueError as error:
            raise PeerFailed(
                f"{self._name} answered {answer.strip()!r}, which is not JSON: what "
                "starts its interpreter must print nothing"
            ) from error


@dataclasses.dataclass(frozen=True)
class Starter:
    """Opens peers by name for one task.

    Attributes:
      task: of all.
      pythons: interpreters of peers that have one of their own.
    """

    task: Task
    pythons: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def __call__(self, name: str) -> Runner:
        """Opens one; raises PeerAbsent, PeerFailed."""
        if self.task.platform == "tpu":
            return Here(name, self.task)
        return InOwnProcess(name, self.task, self.pythons.get(name))
