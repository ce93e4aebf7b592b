"""gamma="auto": by batch and devices, and an error where costs are not known."""

import dataclasses

import numpy as np
import pytest

import specdec_jax as sd
from specdec_jax import auto_gamma
from specdec_jax.decoding.settings import LARGEST_AUTO, DecodeSettings
from specdec_jax.experiments import paper
from specdec_jax.experiments.aot.run import AOTRun
from specdec_jax.partitioning import topology
from specdec_jax.partitioning.description import Decode

TEXTS = ["A man rides a bicycle.", "Two dogs run."]


@pytest.fixture(scope="module")
def demo():
    return sd.load_pair("demo_ende", mesh=None)


@pytest.mark.parametrize(("batch", "gamma"), [(1, 6), (256, 4)])
def test_a_larger_batch_drafts_less(batch, gamma):
    decode = Decode(
        paper.t5_1_1("xxl"),
        paper.t5_1_1("small"),
        gamma=LARGEST_AUTO,
        max_new_tokens=256,
        devices=topology.describe("v5e", 8),
        batch=batch,
    )
    assert auto_gamma.best_gamma(decode, topology.CHIPS["v5e"], alpha=0.75) == gamma


@pytest.fixture
def on_a_tpu(monkeypatch):
    monkeypatch.setattr(auto_gamma, "chip_of", lambda device: topology.CHIPS["v5e"])


def test_the_output_is_that_of_the_gamma_that_was_chosen(demo, on_a_tpu):
    settings = DecodeSettings(gamma="auto", temperature=0.7, max_new_tokens=8)
    gamma = auto_gamma.choose(demo, settings, batch=2, source=8)
    assert 1 < gamma <= LARGEST_AUTO
    ours = sd.generate(demo, TEXTS, settings)
    given = sd.generate(demo, TEXTS, settings, gamma=gamma)
    np.testing.assert_array_equal(ours.tokens, given.tokens)
    np.testing.assert_array_equal(ours.infos.gamma, given.infos.gamma)
    less = dataclasses.replace(settings, max_gamma=2)
    assert auto_gamma.choose(demo, less, batch=2, source=8) == 2
    none = dataclasses.replace(settings, max_gamma=0)
    assert auto_gamma.choose(demo, none, batch=2, source=8) == 0


def test_where_no_gamma_wins_the_baseline_decodes(demo, on_a_tpu, monkeypatch):
    monkeypatch.setattr(auto_gamma, "best_gamma", lambda *_: 0)
    ours = sd.generate(demo, TEXTS, gamma="auto", max_new_tokens=4)
    assert ours.stats.drafted.sum() == 0
    baseline = sd.generate(demo, TEXTS, method="autoregressive", max_new_tokens=4)
    np.testing.assert_array_equal(ours.tokens, baseline.tokens)


def test_without_costs_it_is_refused_and_the_baseline_is_not(demo):
    with pytest.raises(sd.SettingsError, match="needs the peaks of a TPU, and this is"):
        sd.generate(demo, TEXTS, gamma="auto")
    sd.generate(demo, TEXTS, gamma="auto", method="autoregressive", max_new_tokens=1)
    with pytest.raises(sd.SettingsError, match="65536, or \"auto\", not 'fast'"):
        DecodeSettings(gamma="fast")


def test_a_drafter_without_a_network_has_no_costs(demo, on_a_tpu):
    pair = sd.load_pair("demo_ende", drafter="uniform")
    with pytest.raises(sd.SettingsError, match="for a drafter that is a checkpoint"):
        sd.generate(pair, TEXTS, gamma="auto")


def test_a_run_that_is_compiled_takes_the_papers_alpha():
    run = AOTRun(
        target=paper.t5_1_1("xxl"),
        drafter=paper.t5_1_1("large"),
        settings=DecodeSettings(gamma="auto", max_new_tokens=256),
    )
    assert run.decode(topology.describe("v5e", 8)).gamma == 4
    hopeless = dataclasses.replace(run, drafter=run.target)
    with pytest.raises(sd.SettingsError, match="at batch 1 the baseline is faster"):
        hopeless.decode(topology.describe("v4", 1))
