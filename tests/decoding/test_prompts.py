"""Prompts of unlike lengths, as decoder-only models have them."""

import numpy as np
import pytest

from specdec_jax.decoding.settings import DecodeSettings
from specdec_jax.decoding.speculative import PairParams, Speculative
from specdec_jax.drafters.neural import NeuralDrafter
from tests import reference
from tests import toy_models as toys

VOCAB = 5
MODEL = toys.table_model(VOCAB)
TABLE = toys.random_table(5, VOCAB, 2.0)
PAIR = PairParams(
    toys.table_params(TABLE), toys.table_params(toys.similar_table(TABLE, 6, noise=1.0))
)
PROMPTS = ([3], [4, 2, 3, 0], [2, 3], [0, 4, 4], [1, 3, 1, 2])


@pytest.mark.parametrize("gamma", range(5))
def test_greedy_output_is_the_argmax_after_each_rows_own_prompt(gamma):
    cap = 9
    gammas = [(gamma + row) % 5 for row in range(5)]
    rows = DecodeSettings(gamma=gammas, max_gamma=4, max_new_tokens=cap).rows(5)
    inputs, prompt = toys.random_inputs(gamma, 5, VOCAB), toys.prompt_of(*PROMPTS)
    decoder = Speculative(MODEL, NeuralDrafter(MODEL), 4, cap, toys.EOS)
    out = toys.decode(decoder, PAIR, inputs, rows, prompt)
    for row, add in enumerate(np.asarray(inputs)):
        law = reference.table_law(TABLE, add, temperature=0)
        expected = reference.greedy(law, PROMPTS[row], cap, toys.EOS)
        length = int(out.lengths[row])
        assert np.asarray(out.tokens)[row, :length].tolist() == expected


def test_sampled_output_follows_the_law_after_each_rows_own_prompt():
    copies, batches, cap = 3000, 8, 3
    batch = copies * len(PROMPTS)
    temperatures = [1.0, 0.7, 1.0, 1.4, 1.0]
    gammas = [2, 2, 1, 2, 2]
    rows = DecodeSettings(
        gamma=gammas * copies,
        temperature=temperatures * copies,
        max_gamma=2,
        max_new_tokens=cap,
    ).rows(batch)
    decoder = Speculative(MODEL, NeuralDrafter(MODEL), 2, cap, toys.EOS)
    prompt, add = toys.prompt_of(*PROMPTS * copies), toys.no_inputs(batch, VOCAB)
    tokens = []
    for i in range(batches):
        ids = i * batch + np.arange(batch)
        out = toys.decode(decoder, PAIR, add, rows, prompt, row_ids=ids)
        tokens.append(np.asarray(out.tokens))
    tokens = np.concatenate(tokens).reshape(-1, len(PROMPTS), cap)
    for place, start in enumerate(PROMPTS):
        law = reference.table_law(TABLE, temperature=temperatures[place])
        reference.assert_follows(
            reference.count(tokens[:, place], VOCAB),
            reference.joint_law(law, start, cap, cap, toys.EOS),
        )
