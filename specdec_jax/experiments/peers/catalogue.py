"""All peers by name: where each is, and what installs it."""

import dataclasses
import importlib
import json
from collections.abc import Callable
from importlib import metadata

from specdec_jax.errors import one_line
from specdec_jax.experiments.peers.protocol import Peer, PeerAbsent, Task
from specdec_jax.typing import Any

HERE = __package__
T5X = "pip install -e '.[t5x]'"
TORCH = "pip install -e '.[peers]'"


@dataclasses.dataclass(frozen=True)
class Entry:
    """A peer that there may be.

    Attributes:
      title: for tables.
      factory: "module:class", imported when it is asked for.
      options: of the class, beside the task.
      install: the command that brings its libraries.
    """

    title: str
    factory: str
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    install: str = "pip install -e ."


BASELINE = "baseline"
SPECULATIVE = "speculative"
_TORCH = f"{HERE}.torch_transformers:TorchTransformers"
PEERS = {
    BASELINE: Entry("specdec_jax, baseline", f"{HERE}.ours:Baseline"),
    SPECULATIVE: Entry("specdec_jax, speculative", f"{HERE}.ours:SpeculativeLoop"),
    "t5x": Entry("T5X, temperature_sample", f"{HERE}.t5x:T5X", install=T5X),
    "transformers": Entry("transformers, generate", _TORCH, install=TORCH),
    "transformers_assisted": Entry(
        "transformers, assisted, γ draft tokens",
        _TORCH,
        {"drafts": "assistant"},
        TORCH,
    ),
    "transformers_assisted_default": Entry(
        "transformers, assisted, γ as it chooses",
        _TORCH,
        {"drafts": "assistant_default"},
        TORCH,
    ),
    "transformers_lookup": Entry(
        "transformers, prompt lookup", _TORCH, {"drafts": "lookup"}, TORCH
    ),
}


def import_peer(entry: Entry) -> Callable[..., Peer]:
    """The class of a peer, its libraries imported.

    Raises:
      PeerAbsent: a library is not there, or one that it needs is not.
    """
    module, _, name = entry.factory.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except ImportError as error:
        if (error.name or "").startswith(f"{HERE}."):
            raise  # a fault of ours, not a library that is missing
        raise PeerAbsent(one_line(error), entry.install) from error


def open_peer(entry: Entry, task: Task) -> Peer:
    """A peer with its weights loaded.

    Raises:
      PeerAbsent: it is not there, or cannot do the task.
    """
    return import_peer(entry)(task, **entry.options)


def versions(*packages: str) -> dict[str, str]:
    """Of installed packages; one from git has its commit behind "+"."""
    found = {}
    for package in packages:
        try:
            distribution = metadata.distribution(package)
        except metadata.PackageNotFoundError:  # a checkout on the path
            module = importlib.import_module(package)
            found[package] = str(getattr(module, "__version__", "unknown"))
            continue
        origin = distribution.read_text("direct_url.json") or ""
        commit = _commit(origin)
        found[package] = distribution.version + (f"+{commit}" if commit else "")
    return found


def _commit(direct_url: str) -> str | None:
    """What PEP 610 says of a package that was installed from git."""
    return json.loads(direct_url or "{}").get("vcs_info", {}).get("commit_id")
