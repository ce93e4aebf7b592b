"""Programs that are compiled for inputs to come are those that the inputs run."""

import pytest

from specdec_jax import DecodeSettings
from specdec_jax.decoding import compiled
from specdec_jax.job import bucket_lengths, precompile, prepare_tokens

SETTINGS = DecodeSettings(gamma=2, max_new_tokens=5)


def sizes():
    return compiled.begin._cache_size(), compiled.run._cache_size()


@pytest.mark.parametrize("family", ["tiny_pair", "gpt_pair"])
@pytest.mark.parametrize("method", ["speculative", "autoregressive"])
def test_what_is_precompiled_is_what_inputs_run(request, family, method):
    pair = request.getfixturevalue(family)
    before = sizes()
    lengths = bucket_lengths(pair, SETTINGS, 10)
    for length in lengths:
        precompile(pair, SETTINGS, 2, length, method)
    after = sizes()
    assert after == (before[0] + len(lengths), before[1] + len(lengths))
    for longest in (1, 7, 8, 9, 10):
        inputs = [[3] * longest, [4]]
        prepare_tokens(pair, inputs, SETTINGS, 0, method).decode()
    assert sizes() == after


def test_a_length_for_each_bucket_as_far_as_positions_go(tiny_pair, gpt_pair):
    assert bucket_lengths(tiny_pair, SETTINGS, 20) == [8, 16, 20]
    assert bucket_lengths(gpt_pair, SETTINGS, 20) == [7, 15, 20]
    last = bucket_lengths(gpt_pair, SETTINGS, 10**4)[-1]
    assert last == gpt_pair.target.max_length - SETTINGS.max_new_tokens
    precompile(gpt_pair, SETTINGS, 1, last)
