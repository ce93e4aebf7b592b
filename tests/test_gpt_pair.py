"""Pairs of GPTs through the front door: texts are gone on from."""

import functools

import jax.numpy as jnp
import numpy as np
import pytest

import specdec_jax as sd
from specdec_jax.checkpoints import ngram_file as ngram
from specdec_jax.decoding import compiled
from specdec_jax.job import encode, prepare
from specdec_jax.models.inputs import NoInputs
from specdec_jax.training.fit_ngram import fit_ngram
from tests import reference
from tests.tiny_pairs import SENTENCES, VOCAB_SIZE

TEXTS = (SENTENCES[0], "", "a dog", SENTENCES[3])  # of unlike lengths
SETTINGS = sd.DecodeSettings(gamma=3, max_new_tokens=16)


@pytest.fixture
def go_on(gpt_pair):
    """Decodes the four texts, with one pair and one shape of batch."""
    return functools.partial(sd.generate, gpt_pair, TEXTS)


def argmax_after(pair, ids, count):
    """[count] the likeliest token after each prefix, start token and text first."""
    tokens = np.zeros((1, 96), np.int32)
    tokens[0, 1 : 1 + len(ids)] = ids
    model, params = pair.target, pair.params.target
    cache, _ = model.start(params, NoInputs(jnp.ones(1, bool)), 96)
    logits, _, _ = model.extend(
        params, cache, jnp.asarray(tokens), jnp.zeros(1, jnp.int32)
    )
    likeliest = np.asarray(logits)[0, :, :VOCAB_SIZE].argmax(axis=-1)
    return likeliest[len(ids) - count : len(ids)].tolist()


def test_each_text_is_gone_on_from_greedily(gpt_pair, go_on):
    out, base = (
        go_on(SETTINGS, seed=0),
        go_on(SETTINGS, seed=1, method="autoregressive"),
    )
    np.testing.assert_array_equal(out.tokens, base.tokens)
    np.testing.assert_array_equal(out.lengths, base.lengths)
    assert out.texts == base.texts
    assert (out.stats.target_calls <= out.lengths).all()
    for row, ids in enumerate(encode(gpt_pair, TEXTS)):
        new = out.tokens[row, : out.lengths[row]].tolist()
        assert new == argmax_after(gpt_pair, [*ids, *new], len(new))
    assert len({tuple(row) for row in out.tokens.tolist()}) == len(TEXTS)


def test_a_rows_output_does_not_depend_on_its_neighbours(gpt_pair, go_on):
    settings = sd.DecodeSettings(gamma=2, temperature=1.0, max_new_tokens=16)
    whole = go_on(settings, seed=7)
    for row in (1, 2):
        alone = sd.generate(gpt_pair, [TEXTS[row]], settings, seed=7, row_ids=[row])
        np.testing.assert_array_equal(alone.tokens[0], whole.tokens[row])


def test_prompts_of_a_length_bucket_share_one_compilation(gpt_pair):
    texts = ["", "a", "a dog"]
    assert len({len(ids) for ids in encode(gpt_pair, texts)}) == 3
    for text in texts:
        sd.generate(gpt_pair, [text], SETTINGS, seed=0)
        if text == "":
            sizes = compiled.begin._cache_size(), compiled.run._cache_size()
    assert (compiled.begin._cache_size(), compiled.run._cache_size()) == sizes


def test_more_tokens_than_positions_are_refused(gpt_pair):
    ids = encode(gpt_pair, [SENTENCES[0]])[0]
    room = 96 - len(ids)  # the start token takes one, the last new token none
    prepare(gpt_pair, [SENTENCES[0]], sd.DecodeSettings(max_new_tokens=room), 0)
    settings = sd.DecodeSettings(max_new_tokens=[1, room + 1])
    words = f"input 1 has {len(ids) + 1} tokens.*is {room + 1}: the target knows 96 pos"
    with pytest.raises(sd.SettingsError, match=words):
        prepare(gpt_pair, ["", SENTENCES[0]], settings, 0)


def test_drafters_without_a_network_work_beside_a_gpt(gpt_folder, gpt_pair, tmp_path):
    texts = [[2, *ids] for ids in encode(gpt_pair, SENTENCES)]
    file = tmp_path / "bigram.safetensors"
    ngram.save(file, fit_ngram(texts, VOCAB_SIZE, 2), gpt_pair.tokenizer)
    base = sd.generate(gpt_pair, TEXTS, SETTINGS, seed=0, method="autoregressive")
    for drafter in ("prompt_lookup", f"ngram:{file}"):
        pair = sd.load_pair(gpt_folder, drafter=drafter)
        out = sd.generate(pair, TEXTS, SETTINGS, seed=0)
        np.testing.assert_array_equal(out.tokens, base.tokens)
        assert out.stats.drafted.sum() > 0


def test_prompt_lookup_reads_the_prompt_and_the_output(gpt_folder):
    pair = sd.load_pair(gpt_folder, drafter="prompt_lookup")
    assert pair.drafter.source is None
    out = sd.generate(pair, TEXTS, SETTINGS, seed=0)
    for row, ids in enumerate(encode(pair, TEXTS)):
        sequence, at = [0, *ids, *out.tokens[row].tolist()], 1 + len(ids)
        for step in np.flatnonzero(out.infos.num_emitted[:, row]):
            left = 16 - (at - 1 - len(ids)) - 1
            expected = reference.copied([], sequence[:at], min(3, left))
            found = out.infos.drafted[step, row, : out.infos.gamma[step, row]]
            assert found.tolist() == expected
            at += int(out.infos.num_emitted[step, row])


def test_a_gpt_and_a_t5_are_no_pair(pair_folder, gpt_folder):
    """Both have the same pieces."""
    with pytest.raises(sd.PairError, match="target is a T5 and the drafter a GPT"):
        sd.load_pair(pair_folder, drafter=gpt_folder / "drafter")
    with pytest.raises(sd.PairError, match="target is a GPT and the drafter a T5"):
        sd.load_pair(gpt_folder, drafter=pair_folder / "drafter")
