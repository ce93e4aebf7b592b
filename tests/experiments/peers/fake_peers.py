"""Peers that are small callables, in place of libraries."""

import dataclasses
from collections.abc import Callable, Sequence

from specdec_jax.experiments.peers.protocol import Decoded, PeerAbsent

PROMPTS = ([7, 12, 30, 1], [9, 1], [40, 8, 8, 21, 17, 5, 33, 10, 2, 1])


def doubled(tokens: Sequence[int], seed: int) -> list[int]:
    """An output that a prompt has: its ids twice, and EOS."""
    return [*tokens, *tokens, 1]


@dataclasses.dataclass
class FakeRunner:
    """Decodes by a function, in as many seconds a token as it is told.

    Attributes:
      log: of all runners together: what was asked of whom, in order.
    """

    name: str
    log: list[tuple]
    output: Callable[[Sequence[int], int], list[int]] = doubled
    seconds_per_token: float = 0.5
    tokens_per_target_call: int = 1

    def __post_init__(self):
        self.about = {
            "versions": {self.name: "1.2"},
            "settings": {"threads": 2},
        }

    def decode(self, tokens, seed):
        self.log.append((self.name, tuple(tokens), seed))
        output = self.output(tokens, seed)
        calls = -(-len(output) // self.tokens_per_target_call)
        return Decoded(len(output) * self.seconds_per_token, output, calls)

    def warmed_up(self):
        self.log.append((self.name, "warmed up"))

    def memory(self):
        return {"peak_mb": 130.0, "imports_mb": 100.0}

    def close(self):
        self.log.append((self.name, "closed"))


class FakeStart:
    """Opens fakes by name; names without one are absent."""

    def __init__(self, **options: dict):
        self.log = []
        self._options = options

    def __call__(self, name):
        self.log.append((name, "asked for"))
        if name not in self._options:
            raise PeerAbsent(f"No module named {name!r}", f"pip install {name}")
        return FakeRunner(name, self.log, **self._options[name])

    def asked_for(self):
        return [entry[0] for entry in self.log if entry[1] == "asked for"]
