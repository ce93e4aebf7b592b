"""A process that decodes a list task with a toy pair, and may kill itself.

python process_run.py FILE.jsonl ID COUNT PORT [POINT TIMES]

POINT is "append" (after half a line), "decode" or "gather": the process kills itself
the TIMES-th time it comes there. With "fail" it raises an error when it is to decode,
and with "idle" it has decoded nothing.
"""

import os
import signal
import sys

import jax.numpy as jnp

import specdec_jax as sd
from specdec_jax.cli.decode_task import TaskRun
from specdec_jax.data.tokenizer import Tokenizer
from specdec_jax.decoding.contracts import LanguageModel
from specdec_jax.decoding.speculative import PairParams
from specdec_jax.drafters.neural import NeuralDrafter
from specdec_jax.experiments.record_file import RecordFile
from specdec_jax.loading import ASSETS
from specdec_jax.runtime import distributed
from tests import toy_models as toys
from tests.task_data import list_task
from tests.tiny_pairs import tiny_config

SETTINGS = sd.DecodeSettings(gamma=2, temperature=1.0, max_new_tokens=12)
V = 30


def toy_pair() -> sd.Pair:
    """Tables that hear of the source no more than which ids are in it."""
    table = toys.table_model(V)

    def start(params, inputs, slots):
        add = jnp.sin(inputs.tokens.sum(axis=1)[:, None] + jnp.arange(V)[None])
        return table.start(params, add, slots)

    model = LanguageModel(V, V, start, table.extend)
    logits = toys.random_table(0, V)
    params = [logits, toys.similar_table(logits, 1, 0.5)]
    return sd.Pair(
        target=model,
        drafter=NeuralDrafter(model),
        params=PairParams(*map(toys.table_params, params)),
        tokenizer=Tokenizer(ASSETS / "demo_ende" / "spiece.model"),
        config=tiny_config(),
        name="toy",
    )


def kill_at(times: int, method, act):
    """`method`, but for its `times`-th call, which ends in `act`."""
    calls = iter(range(1, 1 << 30))

    def counted(*args):
        if next(calls) == times:
            act(*args)
        return method(*args)

    return counted


def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)


def die_in_a_line(records, record):
    with records.path.open("a", encoding="utf-8") as file:
        file.write('{"index": ')
    die()


def fail(*_):
    raise sd.DataError("no more")


def idle(*_):
    TaskRun._decode = lambda self, batch: []


POINTS = {
    "append": (RecordFile, "append", die_in_a_line),
    "decode": (TaskRun, "_decode", die),
    "fail": (TaskRun, "_decode", fail),
    "idle": (distributed.Processes, "together", idle),
    "gather": (distributed.Processes, "gather", die),
}


def main(out, process_id, count, port, point=None, times="0"):
    if point:
        owner, name, act = POINTS[point]
        setattr(owner, name, kill_at(int(times), getattr(owner, name), act))
    meeting = (f"localhost:{port}", int(count), int(process_id))
    with distributed.joined(*meeting) as processes:
        pair = toy_pair()
        task = list_task(pair.tokenizer)
        run = TaskRun(pair, task, SETTINGS, batch_size=1, processes=processes)
        run(RecordFile(out) if processes.first else None)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except sd.SpecdecError as error:
        raise SystemExit(f"error: {error}") from error
