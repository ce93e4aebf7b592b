import gzip
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import specdec_jax as sd
from specdec_jax.data.batching import seq2seq_batch
from specdec_jax.data.tokenizer import T5_IDS
from specdec_jax.errors import DataError
from specdec_jax.models.t5 import T5
from specdec_jax.training import jobs
from specdec_jax.training.loop import TrainConfig
from specdec_jax.training.objectives import Distillation
from specdec_jax.training.optimizers import OptimizerConfig
from tests.tiny_pairs import SENTENCES, VOCAB_SIZE, random_params, tiny_config

CONFIG = TrainConfig(
    total_steps=100,
    tokens_per_batch=512,
    boundaries=(64,),
    optimizer=OptimizerConfig(learning_rate=3e-2, warmup_steps=5, cooldown_steps=20),
    label_smoothing=0.0,
    average_decay=0.8,
    validate_every=100,
    checkpoint_every=50,
)


def write(folder, name, lines):
    (folder / name).write_text("".join(line + "\n" for line in lines), "utf-8")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A target that learns to copy five sentences, and its distilled drafter."""
    folder = tmp_path_factory.mktemp("jobs")
    for name in ("train.en", "train.de"):
        write(folder, name, SENTENCES * 8)
    for name in ("val.en", "val.de"):
        write(folder, name, SENTENCES)
    text = jobs.ParallelText(str(folder), "train.en", "train.de", "val.en", "val.de")
    target = tiny_config(32, 1, dropout_rate=0.0)
    drafter = tiny_config(16, 1, dropout_rate=0.0)
    jobs.train_target(str(folder / "target"), text, target, CONFIG).run()
    job = jobs.distill_drafter(
        str(folder / "drafter"), text, str(folder / "target/model"), drafter, CONFIG
    )
    assert not job.is_done
    assert job.run() == folder / "drafter/model"
    assert job.is_done
    return folder


def last_metrics(folder):
    return json.loads((folder / "metrics.jsonl").read_text().splitlines()[-1])


def test_a_target_learns_its_references(trained):
    assert last_metrics(trained / "target")["validation_nll"] < 0.7 * np.log(VOCAB_SIZE)


def test_a_distilled_drafter_agrees_with_its_target(trained):
    metrics = last_metrics(trained / "drafter")
    assert metrics["validation_alpha"] > 0.5
    assert "bleu" in metrics


def test_the_exported_models_are_a_pair_and_alpha_in_the_loop_is_as_validated(trained):
    pair = sd.load_pair(
        target=trained / "target/model", drafter=trained / "drafter/model"
    )
    settings = sd.DecodeSettings(gamma=3, temperature=1.0, max_new_tokens=40)
    out = sd.generate(pair, list(SENTENCES) * 4, settings, seed=0)
    expected = last_metrics(trained / "drafter")["validation_alpha"]
    assert out.stats.total().alpha == pytest.approx(expected, abs=0.15)


def test_sequences_are_kept_and_of_other_inputs_refused(trained):
    lines = (trained / "drafter/sequences.jsonl").read_text().splitlines()
    outputs = [o for line in lines for o in json.loads(line)["outputs"]]
    assert len(outputs) == 2 * (8 + 1) * len(SENTENCES)  # two temperatures
    with pytest.raises(DataError, match="sequences"):
        jobs.distill_drafter(
            str(trained / "drafter"),
            jobs.ParallelText(str(trained), "val.en", "val.de", "val.en", "val.de"),
            str(trained / "target/model"),
            tiny_config(16, 1),
            CONFIG,
        )


def test_distilling_a_model_into_itself_loses_nothing():
    config = tiny_config(16, 1)
    params = random_params(config, 0)
    objective = Distillation(T5(config), T5(config), params, variation_weight=1.0)
    batch = seq2seq_batch([([5, 6, 1], [7, 8, 9, 1]), ([4, 1], [3, 1])], 4, 2, T5_IDS)
    batch = jax.tree.map(jnp.asarray, batch)
    loss, metrics = objective.loss(params, params, batch, None)
    assert loss == pytest.approx(0, abs=1e-5)
    assert metrics["alpha"] == pytest.approx(1, abs=1e-5)
    assert metrics["alpha_greedy"] == pytest.approx(1)


def test_parallel_text_may_be_gzip_or_plain_and_what_is_missing_is_named(tmp_path):
    text = jobs.ParallelText(str(tmp_path))
    write(tmp_path, "train.en", ["a dog"])
    with pytest.raises(DataError, match=r"no train\.de\.gz and no train\.de$"):
        text.train()
    write(tmp_path, "train.de", ["not this one"])
    with gzip.open(tmp_path / "train.de.gz", "wt", encoding="utf-8") as file:
        file.write("ein Hund\n")
    assert text.train() == [("a dog", "ein Hund")]
    write(tmp_path, "val.en", ["two men"])
    write(tmp_path, "val.de", ["zwei Männer"])
    assert text.validation() == [("two men", "zwei Männer")]
