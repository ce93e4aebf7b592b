import contextlib
import json
import time
import types

import jax
import numpy as np
import pytest

from specdec_jax.data.tokenizer import T5_IDS
from specdec_jax.errors import SettingsError
from specdec_jax.models.t5 import T5
from specdec_jax.runtime import progress
from specdec_jax.training import loop
from specdec_jax.training.loop import TrainConfig, Trainer
from specdec_jax.training.objectives import References
from specdec_jax.training.optimizers import OptimizerConfig
from tests.tiny_pairs import random_params, tiny_config

MODEL = tiny_config(16, 1, dropout_rate=0.3)
CONFIG = TrainConfig(
    total_steps=8,
    tokens_per_batch=32,
    boundaries=(8,),
    optimizer=OptimizerConfig(warmup_steps=2, cooldown_steps=3),
    validate_every=2,
    checkpoint_every=3,
)
PAIRS = [([2 + i % 5, 3, 1], [4, 5 + i % 7, 6, 1]) for i in range(40)]


class Killed(Exception):
    pass


def trainer(folder, evaluate=None):
    return Trainer(
        folder,
        CONFIG,
        References(T5(MODEL)),
        lambda: random_params(MODEL, 0),
        PAIRS,
        PAIRS[:8],
        T5_IDS,
        evaluate,
    )


def metrics(folder):
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    for record in records:
        del record["seconds_per_step"]
    return records


def test_a_killed_run_ends_as_an_undisturbed_one(tmp_path):
    whole = trainer(tmp_path / "whole", lambda params: {"x": 1.0}).run()
    calls = []

    def kill_at_the_third(params):
        calls.append(1)
        if len(calls) == 3:
            raise Killed
        return {"x": 1.0}

    with pytest.raises(Killed):  # in the validation of step 6; the checkpoint is 3's
        trainer(tmp_path / "killed", kill_at_the_third).run()
    again = trainer(tmp_path / "killed", lambda params: {"x": 1.0})
    assert int(again.state.step) == 3
    jax.tree.map(np.testing.assert_array_equal, again.run(), whole)
    steps = [m["step"] for m in metrics(tmp_path / "killed")]
    assert steps == [2, 4, 6, 8]
    for ours, theirs in zip(
        metrics(tmp_path / "killed"), metrics(tmp_path / "whole"), strict=True
    ):
        assert ours["validation_nll"] == theirs["validation_nll"]


def test_a_finished_run_is_not_run_again(tmp_path):
    first = trainer(tmp_path).run()
    again = trainer(tmp_path).run()
    jax.tree.map(np.testing.assert_array_equal, again, first)
    assert [m["step"] for m in metrics(tmp_path)] == [2, 4, 6, 8]


def test_compiling_is_said_and_is_not_in_the_seconds_per_step(tmp_path, monkeypatch):
    said = []
    bar = types.SimpleNamespace(
        add_task=lambda *args, **kwargs: 0,
        update=lambda task, **changes: said.append(changes["description"]),
    )
    monkeypatch.setattr(
        loop, "progress_bar", lambda *args, **kwargs: contextlib.nullcontext(bar)
    )
    run = trainer(tmp_path)
    step, calls = run._step, []

    def first_takes_an_hour(*args):
        clock_was = time.monotonic()
        if not calls:
            monkeypatch.setattr(progress.time, "monotonic", lambda: clock_was + 3600)
        calls.append(1)
        return step(*args)

    run._step = first_takes_an_hour
    run.run()
    assert said[0] == "compiling" and said.count("compiling") == 1  # one width
    assert said[1].startswith("loss ")
    line = json.loads((tmp_path / "metrics.jsonl").read_text().splitlines()[0])
    assert line["seconds_per_step"] < 1800


def test_training_lowers_the_loss_and_the_average_follows(tmp_path):
    run = trainer(tmp_path)
    before = run.validate()["validation_nll"]
    state = run.run()
    assert run.validate()["validation_nll"] < before
    distance = jax.tree.map(
        lambda a, b: float(abs(a - b).max()), state.params, state.average
    )
    assert 0 < max(jax.tree.leaves(distance)) < 0.1


def test_lengths_below_one_are_refused():
    with pytest.raises(SettingsError, match="validate_every"):
        TrainConfig(total_steps=5, validate_every=0)
