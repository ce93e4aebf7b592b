"""Fine-tuning starts from a checkpoint of any format, scores its task, and resumes."""

import dataclasses
import json

import jax.numpy as jnp
import numpy as np
import pytest
from flax import traverse_util

from specdec_jax.checkpoints import formats
from specdec_jax.data import tasks
from specdec_jax.errors import CheckpointError
from specdec_jax.training import jobs
from specdec_jax.training.loop import TrainConfig
from specdec_jax.training.optimizers import OptimizerConfig
from tests.task_data import write_tsv
from tests.tiny_pairs import SENTENCES

CONFIG = TrainConfig(
    total_steps=30,
    tokens_per_batch=256,
    boundaries=(64,),
    optimizer=OptimizerConfig(name="adafactor", learning_rate=3e-2, warmup_steps=2),
    label_smoothing=0.0,
    average_decay=0.5,
    validate_every=15,
    checkpoint_every=15,
)


@pytest.fixture
def task(pair_folder, tmp_path):
    pairs = [(sentence, sentence) for sentence in SENTENCES]
    files = {
        split: str(write_tsv(tmp_path / f"{split}.tsv", pairs))
        for split in ("train", "validation")
    }
    return tasks.tsv_pairs(str(pair_folder / "spiece.model"), files)


def flat(path):
    params = formats.open_checkpoint(path).load()
    return traverse_util.flatten_dict(params, sep="/")


def test_without_a_step_of_any_size_the_checkpoint_comes_out_again(
    task, pair_folder, tmp_path
):
    start = formats.convert(pair_folder / "target", tmp_path / "start", "t5x")
    still = dataclasses.replace(
        CONFIG,
        total_steps=1,
        optimizer=dataclasses.replace(CONFIG.optimizer, learning_rate=0.0),
    )
    run = str(tmp_path / "run")
    jobs.finetune(run, str(start), task, still, max_new_tokens=8).run()
    before, after = flat(start), flat(tmp_path / "run" / "model")
    for name, array in before.items():
        rounded = np.asarray(array.astype(jnp.bfloat16), np.float32)
        np.testing.assert_array_equal(after[name], rounded)


def test_it_learns_scores_and_goes_on_where_it_was_stopped(task, pair_folder, tmp_path):
    folder, start = tmp_path / "run", str(pair_folder / "target")

    def tune(config):
        jobs.finetune(str(folder), start, task, config, max_new_tokens=8).run()
        lines = (folder / "metrics.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]

    first = tune(dataclasses.replace(CONFIG, total_steps=15))
    both = tune(CONFIG)
    assert both[0] == first[0]
    assert [m["step"] for m in both] == [15, 30]
    assert both[1]["validation_nll"] < both[0]["validation_nll"]
    assert {"bleu", "bleu_intl"} <= set(both[1])


def test_sizes_that_the_checkpoint_has_not_are_named(task, pair_folder, tmp_path):
    found = formats.open_checkpoint(pair_folder / "target").config
    wanted = dataclasses.replace(found, mlp_dim=99)
    with pytest.raises(CheckpointError, match="mlp_dim 64 and .* asks for 99"):
        jobs.finetune(
            str(tmp_path / "run"),
            str(pair_folder / "target"),
            task,
            CONFIG,
            model=wanted,
        )
