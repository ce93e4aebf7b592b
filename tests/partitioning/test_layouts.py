"""Weights in the layouts that the compiler chose decode as before."""

import jax
import numpy as np

import specdec_jax as sd
from specdec_jax.job import lay_out, prepare
from tests.tiny_pairs import SENTENCES

SETTINGS = sd.DecodeSettings(gamma=2, max_new_tokens=8)


def test_a_pair_that_was_laid_out_anew_generates_the_same(pair_folder):
    texts = list(SENTENCES[:2])
    one = sd.generate(sd.load_pair(pair_folder), texts, SETTINGS, seed=0)
    pair = sd.load_pair(pair_folder)  # its weights may be consumed
    job = prepare(pair, texts, SETTINGS, seed=0)
    wanted = job.wanted_formats()
    assert jax.tree.structure(wanted) == jax.tree.structure(job.params)
    pair = lay_out(pair, job)
    for leaf, format in zip(
        jax.tree.leaves(pair.params), jax.tree.leaves(wanted), strict=True
    ):
        assert format.layout in (None, leaf.format.layout)
    out = sd.generate(pair, texts, SETTINGS, seed=0)
    assert out.texts == one.texts
    np.testing.assert_array_equal(out.tokens, one.tokens)
