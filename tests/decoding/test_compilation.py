"""One compilation serves all settings, and the loop works in its caller's buffers."""

import dataclasses
import functools
import re

import jax
import numpy as np
import pytest

from specdec_jax.decoding import compiled
from specdec_jax.decoding.autoregressive import Autoregressive
from specdec_jax.decoding.settings import DecodeSettings
from specdec_jax.decoding.speculative import PairParams, Speculative
from specdec_jax.drafters.neural import NeuralDrafter
from tests import toy_models as toys

V, G, M, B = 7, 4, 10, 3
SWEEP = [
    {},
    {"temperature": 0.0},
    {"temperature": [0.0, 0.7, 2.0]},
    {"top_k": 3},
    {"top_p": 0.8},
    {"top_k": [0, 2, 5], "top_p": [0.5, 1.0, 0.9]},
    {"lenience": 0.5},
    {"lenience": [0.1, 1.0, 0.9], "temperature": 0.0},
    *({"gamma": gamma} for gamma in range(G + 1)),
    {"gamma": [0, 4, 2]},
    {"max_new_tokens": [1, 10, 4]},
]


@functools.cache
def counted(method):
    """A decoder, and how often Python has run through its model's `extend`."""
    table, calls = toys.table_model(V), [0]

    def extend(params, cache, tokens, lengths, taps=()):
        calls[0] += 1
        return table.extend(params, cache, tokens, lengths, taps)

    model = dataclasses.replace(table, extend=extend)
    if method == "speculative":
        return Speculative(model, NeuralDrafter(model), G, M, toys.EOS), calls
    return Autoregressive(model, M, toys.EOS), calls


def job(method, seed=0, **changes):
    """Weights, inputs, prompt and settings, all of which the seed changes."""
    settings = {"temperature": 1.0, "max_gamma": G, "max_new_tokens": M} | changes
    tables = [toys.random_table(seed + i, V) for i in range(2)]
    pair = PairParams(*map(toys.table_params, tables))
    return (
        pair if method == "speculative" else pair.target,
        toys.random_inputs(seed, B, V),
        toys.prompt_of([2] * (1 + seed % 3), [3, 4, 2], [5]),
        DecodeSettings(**settings).rows(B),
    )


def programs() -> int:
    """How many programs have been compiled."""
    return compiled.begin._cache_size() + compiled.run._cache_size()


@pytest.mark.parametrize("method", ["speculative", "baseline"])
def test_sweeps_of_settings_seeds_prompts_and_weights_compile_once(method):
    decoder, calls = counted(method)

    def decode(seed, **changes):
        params, inputs, prompt, rows = job(method, seed, **changes)
        ids = seed + np.arange(B)
        toys.decode(decoder, params, inputs, rows, prompt, seed, ids)

    decode(seed=2)
    traces, compilations = calls[0], programs()
    assert traces > 0
    for i, settings in enumerate(SWEEP):
        decode(seed=5 + i, **settings)
    assert (calls[0], programs()) == (traces, compilations)


@pytest.mark.parametrize("method", ["speculative", "baseline"])
def test_run_consumes_its_state_and_nothing_else(method):
    decoder, _ = counted(method)
    params, inputs, prompt, rows = job(method)
    keys = toys.keys(B)
    state = compiled.begin(decoder, params, inputs, prompt)
    compiled.run(decoder, keys, state, params, rows)
    assert all(leaf.is_deleted() for leaf in jax.tree.leaves(state))
    # The toy's cache holds the inputs themselves: they are the caller's all the same.
    theirs = jax.tree.leaves((keys, params, rows, inputs, prompt))
    assert not any(leaf.is_deleted() for leaf in theirs)


def test_equal_decoders_are_one_program():
    """Made anew for each call, as `generate` does it."""
    first, second = (
        Speculative(
            toys.table_model(V), NeuralDrafter(toys.table_model(V)), G, M, toys.EOS
        )
        for _ in range(2)
    )
    assert first is not second
    assert first == second and hash(first) == hash(second)


def t5_job(method, batch=3):
    model, params = toys.tiny_t5()
    inputs = toys.encoder_inputs(0, (7, 2, 5), width=7)
    rows = DecodeSettings(gamma=G, max_new_tokens=40).rows(batch)
    if method == "speculative":
        decoder = Speculative(model, NeuralDrafter(model), G, 40, toys.EOS)
        params = PairParams(params, params)
    else:
        decoder = Autoregressive(model, 40, toys.EOS)
    return decoder, params, inputs, toys.start_prompt(batch), rows


@pytest.mark.parametrize("method", ["speculative", "baseline"])
def test_the_loop_copies_no_cache(method):
    """All of its state is donated; no step holds a second cache, or copies one."""
    decoder, params, inputs, prompt, rows = t5_job(method)
    state = compiled.begin(decoder, params, inputs, prompt)
    lowered = compiled.run.lower(decoder, toys.keys(3), state, params, rows)
    program = lowered.compile()
    cache = state.target_cache.past[0].keys
    shape = "f32[" + ",".join(map(str, cache.shape)) + "]"
    text = program.as_text()
    assert shape in text
    assert not re.findall(re.escape(shape) + r"\S* (?:copy|select)\(", text)
    memory = program.memory_analysis()
    caches = 2 * len(state.target_cache.past) * cache.size * cache.dtype.itemsize
    assert memory.temp_size_in_bytes < caches
    leaves = jax.tree.leaves(state)
    donated = sum(leaf.size * leaf.dtype.itemsize for leaf in leaves)
    assert memory.alias_size_in_bytes == donated
