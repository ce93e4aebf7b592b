"""What a peer is told, and what it gives back.

A peer is one way to decode the target: a library, with its own network and loop. All
get the same weights, prompts and settings, one prompt at a time, as in the paper.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import runtime_checkable

from specdec_jax.errors import SpecdecError
from specdec_jax.typing import Any, Protocol


class PeerAbsent(SpecdecError):
    """A peer that cannot take part.

    Attributes:
      install: the command that would bring it; None if none would.
    """

    def __init__(self, reason: str, install: str | None = None):
        super().__init__(reason)
        self.install = install


class PeerFailed(SpecdecError):
    """A peer that was there and broke down."""


@dataclasses.dataclass(frozen=True)
class Task:
    """What all peers are to do, in plain values: it travels between processes.

    Attributes:
      target, drafter: checkpoints, as `load_pair` takes them.
      tokenizer: the SentencePiece model of both.
      huggingface: the folders of both in Hugging Face's format; the drafter's is None
        where it is no network.
      gamma: draft tokens a block, of those that speculate.
      temperature: 0 is argmax. No top-k and no top-p.
      max_new_tokens: of a prompt, EOS included.
      threads: of each peer; None leaves it to the peer.
      platform: "cpu", "gpu" or "tpu", of JAX.
    """

    target: str
    drafter: str
    tokenizer: str
    huggingface: Sequence[str | None]
    gamma: int
    temperature: float
    max_new_tokens: int
    threads: int | None = None
    platform: str = "cpu"


@dataclasses.dataclass(frozen=True)
class Decoded:
    """One prompt's output.

    Attributes:
      seconds: from the prompt as the peer's arrays to the finished output, encoding
        included.
      tokens: ids, EOS included.
      target_calls: of the target's decoder.
    """

    seconds: float
    tokens: Sequence[int]
    target_calls: int


@runtime_checkable
class Peer(Protocol):
    """One implementation with the weights loaded, in float32.

    Attributes:
      versions: of what it is made of.
      settings: what it was told that the task does not say, `threads` among it.
    """

    versions: Mapping[str, str]
    settings: Mapping[str, Any]

    def decode(self, tokens: Sequence[int], seed: int) -> Decoded:
        """Decodes one prompt.

        Args:
          tokens: ids, EOS included.
          seed: of the draws.
        """


@runtime_checkable
class Runner(Protocol):
    """A peer as the rounds use it: in this process, or in one of its own.

    Attributes:
      about: `versions` and `settings`, as plain values.
    """

    about: Mapping[str, Any]

    def decode(self, tokens: Sequence[int], seed: int) -> Decoded:
        """As `Peer.decode`."""

    def warmed_up(self) -> None:
        """Says that compilation is over: memory is counted from here on."""

    def memory(self) -> dict[str, float] | None:
        """`peak_mb` since `warmed_up`, and `imports_mb` of its libraries alone."""

    def close(self) -> None:
        """Frees what it holds."""
