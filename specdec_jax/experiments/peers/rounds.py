"""Rounds over the same prompts, all peers taking turns, and a record of each.

In a turn a peer decodes some prompts one after the other, as it would a file. Before
them it decodes one that does not count: the processor's caches are full of another
peer's weights. Turns are short, and in a round every prompt has come to every peer
before the next prompts come to any, so that a machine that is slower for a while is
slower for all. Round 0 compiles and warms up.
"""

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from specdec_jax.decoding.settings import DecodeSettings
from specdec_jax.errors import SettingsError
from specdec_jax.experiments.kinds import AbsentPeer, MeasuredPeer
from specdec_jax.experiments.peers.agreement import compare
from specdec_jax.experiments.peers.catalogue import BASELINE, PEERS
from specdec_jax.experiments.peers.protocol import Decoded, PeerAbsent, Runner
from specdec_jax.experiments.record_file import RecordFile
from specdec_jax.runtime.progress import progress_bar
from specdec_jax.runtime.records import digest, environment
from specdec_jax.runtime.validation import check_kinds, check_list, check_seed
from specdec_jax.typing import Any, self_checked

# A library's threads may look for more work a moment after they are done (OpenMP's),
# and would take the cores from the next peer.
SETTLE_SECONDS = 0.02
TURN = 20  # prompts


@self_checked
class PeersConfig:
    """What is compared.

    Attributes:
      peers: by name, of `catalogue.PEERS`. Our baseline runs with any of them.
      gamma: draft tokens a block.
      temperature: 0 is argmax, and only there tokens are compared.
      max_new_tokens: of every prompt.
      repeats: rounds that count.
      seed: of the draws.
      threads: cores of each peer; None leaves it to the peer.
    """

    peers: Sequence[str] = tuple(PEERS)
    gamma: int = 4
    temperature: float = 0.0
    max_new_tokens: int = 64
    repeats: int = 3
    seed: int = 0
    threads: int | None = None

    def __post_init__(self):
        check_list("peers", self.peers)
        for name in self.peers:
            if name not in PEERS:
                known = ", ".join(PEERS)
                raise SettingsError(f"no peer {name!r}: known are {known}")
        check_kinds(self, may_be_0=("seed",))
        check_seed(self.seed)
        DecodeSettings(temperature=self.temperature)

    @classmethod
    def from_settings(cls, settings: DecodeSettings, **others: Any) -> "PeersConfig":
        """The settings of a decode, as far as all peers have them.

        Args:
          settings: one for all prompts, exact and without top-k and top-p.
          others: the other fields.

        Raises:
          SettingsError: a peer could not do the same.
        """
        plain = {"top_k": 0, "top_p": 1.0, "lenience": 1.0, "rule": "token"}
        for name, value in plain.items():
            if getattr(settings, name) != value:
                raise SettingsError(
                    f"{name} must be {value} here: not all peers have it"
                )
        for name in ("gamma", "temperature", "max_new_tokens"):
            others[name] = getattr(settings, name)
            if isinstance(others[name], tuple):
                raise SettingsError(f"{name} must be one number for all prompts here")
        return cls(**others)


@dataclasses.dataclass
class _Run:
    """A peer's rounds: each a list of what it gave for each prompt."""

    runner: Runner
    rounds: list[list[Decoded]] = dataclasses.field(default_factory=list)

    @property
    def tokens_per_second(self) -> np.ndarray:
        """Of each round."""
        return np.array(
            [
                sum(len(one.tokens) for one in prompts)
                / sum(one.seconds for one in prompts)
                for prompts in self.rounds
            ]
        )

    @property
    def outputs(self) -> list[list[list[int]]]:
        """Ids, by round and prompt."""
        return [[list(one.tokens) for one in prompts] for prompts in self.rounds]


def compare_peers(
    about: Mapping[str, str],
    inputs: Sequence[Sequence[int]],
    config: PeersConfig,
    start: Callable[[str], Runner],
    records: RecordFile | None = None,
) -> Iterator[MeasuredPeer | AbsentPeer]:
    """Measures, and yields a record for each peer; one that is absent has one too.

    Args:
      about: the pair, as records tell it: `Pair.about`.
      inputs: ids of the prompts, EOS included.
      config: what is compared.
      start: opens a peer by name; raises PeerAbsent.
      records: appended to; peers that it has measured are not measured again, and
        those that were absent are looked for again.

    Raises:
      DataError: `records` are of another pair or comparison.
      PeerFailed: a peer broke down.
    """
    identity = _identity(about, inputs, config)
    kinds, before = (MeasuredPeer, AbsentPeer), {}
    for record in () if records is None else records.of_run(kinds, identity):
        if record.temperature == config.temperature:
            before[record.peer] = record
    missing = [
        name for name in config.peers if not isinstance(before.get(name), MeasuredPeer)
    ]
    if not missing:
        return

    def finished(record):
        if records is not None and record != before.get(record.peer):
            records.append(record)
        return record

    with contextlib.ExitStack() as stack:
        runs = {}
        for name in dict.fromkeys((BASELINE, *missing)):
            try:
                runner = start(name)
            except PeerAbsent as error:
                yield finished(_absent(identity, name, config, error))
            else:
                stack.callback(runner.close)
                runs[name] = _Run(runner)
        measured = [name for name in missing if name in runs]
        if not measured:
            return
        _measure(runs, inputs, config)
        for name in measured:
            yield finished(_record(identity, name, config, runs))


def _measure(runs: dict[str, _Run], inputs, config: PeersConfig) -> None:
    with progress_bar("peers") as bar:
        rounds = config.repeats + 1
        task = bar.add_task("", total=rounds * len(inputs) * len(runs))
        for round_ in range(rounds):
            outputs = {name: [] for name in runs}
            seed = config.seed + round_ * len(inputs)
            for start in range(0, len(inputs), TURN):
                turn = list(enumerate(inputs))[start : start + TURN]
                for name, run in runs.items():
                    time.sleep(SETTLE_SECONDS)
                    run.runner.decode(inputs[start], seed + start)
                    for i, tokens in turn:
                        outputs[name].append(run.runner.decode(tokens, seed + i))
                        bar.advance(task)
            for name, run in runs.items():
                if round_:
                    run.rounds.append(outputs[name])
                else:
                    run.runner.warmed_up()


def _record(identity, name: str, config: PeersConfig, runs) -> MeasuredPeer:
    run, baseline = runs[name], runs[BASELINE]
    speed, base = run.tokens_per_second, baseline.tokens_per_second
    decoded = [one for prompts in run.rounds for one in prompts]
    tokens = sum(len(one.tokens) for one in decoded)
    calls = sum(one.target_calls for one in decoded)
    greedy = config.temperature == 0
    return MeasuredPeer(
        **_head(identity, name, config),
        tokens_per_second=float(np.median(speed)),
        tokens_per_second_spread=_spread(speed),
        baseline_tokens_per_second=float(np.median(base)),
        over_baseline=float(np.median(speed / base)),
        over_baseline_spread=_spread(speed / base),
        tokens=tokens,
        target_calls=calls,
        tokens_per_target_call=tokens / calls,
        memory=run.runner.memory(),
        agreement=compare(baseline.outputs[0], run.outputs) if greedy else None,
        peer_versions=run.runner.about["versions"],
        peer_settings=run.runner.about["settings"],
        **environment(),
    )


def _absent(identity, name, config, error: PeerAbsent) -> AbsentPeer:
    return AbsentPeer(
        **_head(identity, name, config),
        absent=str(error),
        install=error.install,
        **environment(),
    )


def _head(identity, name: str, config: PeersConfig) -> dict[str, Any]:
    return {**identity, "peer": name, "temperature": config.temperature}


def _identity(about, inputs, config: PeersConfig) -> dict[str, Any]:
    """The identity fields of this run's records."""
    fields = dataclasses.asdict(config)
    for swept in ("peers", "temperature"):  # each record has its own
        del fields[swept]
    ids = [list(map(int, tokens)) for tokens in inputs]
    return {
        **about,
        "inputs": len(inputs),
        "inputs_sha256": digest(ids),
        "config": fields,
    }


def _spread(values: np.ndarray) -> list[float]:
    return [float(np.min(values)), float(np.max(values))]
