import jax
import jax.numpy as jnp
import numpy as np
import pytest

from specdec_jax.decoding import compiled
from specdec_jax.decoding.autoregressive import Autoregressive
from specdec_jax.decoding.settings import DecodeSettings
from specdec_jax.decoding.speculative import PairParams, Speculative
from specdec_jax.decoding.statistics import statistics
from specdec_jax.drafters.neural import NeuralDrafter
from specdec_jax.sampling import row_keys
from tests import toy_models as toys


def keys(batch, seed=0):
    return row_keys(jax.random.key(seed), jnp.arange(batch, dtype=jnp.int32))


def decode_both(vocab, settings, batch, scale=3.0, seed=0, same=False):
    model = toys.table_model(vocab)
    target = toys.random_table(1, vocab, scale)
    drafter = target if same else toys.random_table(2, vocab, scale)
    inputs = jnp.asarray(
        np.random.default_rng(3).normal(size=(batch, vocab)), jnp.float32
    )
    rows, prompt = settings.rows(batch), toys.start_prompt(batch)
    speculative = Speculative(
        model, NeuralDrafter(model), settings.max_gamma, settings.buffer_size, toys.EOS
    )
    baseline = Autoregressive(model, settings.buffer_size, toys.EOS)
    return (
        compiled.decode(
            speculative,
            keys(batch, seed),
            PairParams(target, drafter),
            inputs,
            prompt,
            rows,
        ),
        compiled.decode(baseline, keys(batch, seed), target, inputs, prompt, rows),
    )


@pytest.mark.parametrize("gamma", range(1, 9))
@pytest.mark.parametrize("batch", [1, 5])
def test_greedy_output_equals_the_baselines(gamma, batch):
    settings = DecodeSettings(gamma=gamma, max_new_tokens=17)
    out, base = decode_both(9, settings, batch)
    np.testing.assert_array_equal(out.tokens, base.tokens)
    np.testing.assert_array_equal(out.lengths, base.lengths)
    stats = statistics(out)
    assert (stats.target_calls <= stats.tokens).all()
    np.testing.assert_array_equal(stats.tokens, out.lengths)
