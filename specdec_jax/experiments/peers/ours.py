"""This project's own loops, as peers."""

from collections.abc import Sequence

import numpy as np

from specdec_jax.decoding.settings import DecodeSettings
from specdec_jax.decoding.statistics import statistics
from specdec_jax.experiments.measure.cost import timed
from specdec_jax.experiments.peers.catalogue import versions
from specdec_jax.experiments.peers.protocol import Decoded, Task
from specdec_jax.experiments.peers.threads import available_cores
from specdec_jax.job import prepare_tokens
from specdec_jax.loading import load_pair


class _Loop:
    """One of the two loops, with nothing loaded that it does not need."""

    def __init__(self, task: Task, method: str, drafter: str):
        self._method = method
        self._pair = load_pair(
            target=task.target,
            drafter=drafter,
            tokenizer=task.tokenizer,
            dtype="float32",
            mesh=None,
        )
        self._settings = DecodeSettings(
            gamma=task.gamma,
            temperature=task.temperature,
            max_new_tokens=task.max_new_tokens,
        )
        self.versions = versions("specdec_jax", "jax", "jaxlib")
        self.settings = {"threads": available_cores(), "method": method}

    def decode(self, tokens: Sequence[int], seed: int) -> Decoded:
        job = prepare_tokens(
            self._pair, [list(tokens)], self._settings, seed, self._method
        )
        seconds, state = timed(lambda: job.run(job.begin()))
        result = job.finish(state)
        length = int(result.lengths[0])
        return Decoded(
            seconds,
            np.asarray(result.tokens)[0, :length].tolist(),
            int(statistics(result).target_calls[0]),
        )


class Baseline(_Loop):
    """Autoregressive decoding."""

    def __init__(self, task: Task):
        super().__init__(task, "autoregressive", "uniform")  # it drafts nothing


class SpeculativeLoop(_Loop):
    """Algorithm 1."""

    def __init__(self, task: Task):
        super().__init__(task, "speculative", task.drafter)
