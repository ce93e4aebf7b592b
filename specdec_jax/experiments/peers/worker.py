"""A peer in a process of its own: orders on stdin, answers on stdout, JSON lines.

    {"peer": "t5x", "task": {...}}  -> {"about": {...}}, or why it is absent:
                                       {"absent": "...", "install": "..."}
    {"do": "decode", "tokens": [...], "seed": 0} -> the fields of `Decoded`
    {"do": "warmed_up"}             -> {}
    {"do": "memory"}                -> {"memory": {...}}

It ends with its stdin.
"""

import dataclasses
import json
import os
import sys
from collections.abc import Callable, Iterable

from specdec_jax.experiments.peers.threads import keep_to
from specdec_jax.typing import Any


def main() -> None:
    """Serves the process that started this one."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # libraries print what they like

    def reply(answer: dict[str, Any]) -> None:
        print(json.dumps(answer), file=answers, flush=True)

    serve(sys.stdin, reply)


def serve(orders: Iterable[str], reply: Callable[[dict[str, Any]], None]) -> None:
    """Opens the peer that the first order names, and does what the others say."""
    orders = iter(orders)
    first = json.loads(next(orders))
    keep_to(first["task"]["threads"])  # before the peer's libraries count the cores

    from specdec_jax.experiments.peers.protocol import PeerAbsent, Task
    from specdec_jax.experiments.peers.runners import OwnMemory

    try:
        runner = OwnMemory(first["peer"], Task(**first["task"]))
    except PeerAbsent as error:
        reply({"absent": str(error), "install": error.install})
        return
    reply({"about": runner.about})
    for line in orders:
        order = json.loads(line)
        match order["do"]:
            case "decode":
                decoded = runner.decode(order["tokens"], order["seed"])
                reply(dataclasses.asdict(decoded))
            case "warmed_up":
                runner.warmed_up()
                reply({})
            case "memory":
                reply({"memory": runner.memory()})


if __name__ == "__main__":
    main()
