"""One call: from a pair to the records of all peers."""

import contextlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import jax

from specdec_jax.errors import CheckpointError, PairError
from specdec_jax.experiments.kinds import AbsentPeer, MeasuredPeer
from specdec_jax.experiments.peers.catalogue import BASELINE, PEERS, SPECULATIVE
from specdec_jax.experiments.peers.protocol import PeerAbsent, Runner, Task
from specdec_jax.experiments.peers.rounds import PeersConfig, compare_peers
from specdec_jax.experiments.peers.runners import Starter
from specdec_jax.experiments.peers.shared_weights import write_huggingface
from specdec_jax.experiments.record_file import RecordFile
from specdec_jax.pair import Pair

OURS = (BASELINE, SPECULATIVE)
HUGGING_FACE = tuple(name for name in PEERS if name.startswith("transformers"))


def peers_of_pair(
    pair: Pair,
    inputs: Sequence[Sequence[int]],
    config: PeersConfig,
    pythons: Mapping[str, str],
    records: RecordFile | None = None,
) -> Iterator[MeasuredPeer | AbsentPeer]:
    """Compares the peers on a pair's weights; see `compare_peers`.

    Args:
      pair: loaded from checkpoints; each peer loads them again, in float32.
      inputs, config, records: as there.
      pythons: interpreters of peers that have one of their own.
    """
    if pair.checkpoints is None:
        raise PairError(f"{pair.name} was not loaded from checkpoints")
    if pair.quantization is not None:
        raise PairError(
            f"{pair.name}: other libraries are given float weights; load the pair "
            "without target_quantization"
        )
    about = pair.about | {"dtype": "float32"}
    target, drafter = pair.checkpoints
    given = target, drafter, str(pair.tokenizer.path)
    with tempfile.TemporaryDirectory(prefix="specdec_peers_") as folder:
        folders, problems = (None, None), {}
        if pair.decoder_only:
            why = "the models are GPTs, and other libraries are given T5s only"
            problems = {name: why for name in PEERS if name not in OURS}
        elif any(name in HUGGING_FACE for name in config.peers):
            try:
                folders = write_huggingface(*given, Path(folder))
            except CheckpointError as error:
                problems = dict.fromkeys(HUGGING_FACE, str(error))
        task = Task(
            *given,
            huggingface=folders,
            gamma=config.gamma,
            temperature=config.temperature,
            max_new_tokens=config.max_new_tokens,
            threads=config.threads,
            platform=jax.default_backend(),
        )
        starter = Starter(task, pythons)

        def start(name: str) -> Runner:
            if name in problems:
                raise PeerAbsent(problems[name])
            return starter(name)

        with contextlib.closing(
            compare_peers(about, inputs, config, start, records)
        ) as made:
            yield from made
