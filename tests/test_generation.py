import dataclasses

import jax
import numpy as np
import pytest

import specdec_jax as sd
from specdec_jax import generation
from specdec_jax.data.tokenizer import Tokenizer
from specdec_jax.decoding import compiled
from specdec_jax.decoding.statistics import DecodeStats
from specdec_jax.generation import SHOWN_ROWS
from specdec_jax.job import prepare
from specdec_jax.models.inputs import BUCKET
from tests.special_ids import write_pieces
from tests.tiny_pairs import SENTENCES

SETTINGS = sd.DecodeSettings(gamma=3, max_new_tokens=16)


def test_speculative_and_autoregressive_texts_are_equal_at_temperature_0(tiny_pair):
    texts = list(SENTENCES)
    ours = sd.generate(tiny_pair, texts, SETTINGS, seed=0)
    base = sd.generate(tiny_pair, texts, SETTINGS, seed=1, method="autoregressive")
    assert ours.texts == base.texts
    np.testing.assert_array_equal(ours.tokens, base.tokens)
    np.testing.assert_array_equal(ours.lengths, base.lengths)
    assert (ours.stats.target_calls <= ours.lengths).all()
    np.testing.assert_array_equal(base.stats.target_calls, base.lengths)
    assert np.isnan(base.stats.acceptance_rate).all()


def test_a_texts_output_does_not_depend_on_how_the_list_is_cut(tiny_pair):
    settings = sd.DecodeSettings(gamma=2, temperature=1.0, max_new_tokens=12)
    texts = [SENTENCES[0], SENTENCES[1] + " " + SENTENCES[2], SENTENCES[3]]
    whole = sd.generate(tiny_pair, texts, settings, seed=7)
    for i, text in enumerate(texts):
        alone = sd.generate(tiny_pair, [text], settings, seed=7, row_ids=[i])
        assert alone.texts == [whole.texts[i]]


@pytest.mark.parametrize("pair_name", ["tiny_pair", "gpt_pair"])
def test_start_end_and_padding_are_the_tokenizers(pair_name, request, tmp_path):
    write_pieces(tmp_path / "spiece.model", unk_id=0, eos_id=2, pad_id=3)
    tokenizer = Tokenizer(tmp_path / "spiece.model")
    pair = dataclasses.replace(request.getfixturevalue(pair_name), tokenizer=tokenizer)
    job = prepare(pair, ["a dog", "a dog runs over the grass"], SETTINGS, seed=0)
    first, second = np.asarray(job.prompt.tokens)
    assert first[0] == second[0] == 3
    read = first if pair.decoder_only else np.asarray(job.inputs.tokens[0])
    length = len(tokenizer.encode("a dog"))
    assert (read[:length] != 3).any() and (read[length:] == 3).all()
    assert job.decoder.eos_id == 2
    baseline = prepare(pair, ["a dog"], SETTINGS, seed=0, method="autoregressive")
    assert baseline.decoder.eos_id == 2


@pytest.mark.parametrize("method", ["speculative", "autoregressive"])
def test_texts_of_a_length_bucket_and_all_settings_share_one_compilation(
    tiny_pair, method
):
    texts = ["a", "dog", "a dog"]
    lengths = {len(tiny_pair.tokenizer.encode(text)) for text in texts}
    assert len(lengths) == 3 and max(lengths) <= BUCKET

    def decode(text, **changes):
        settings = {"gamma": 2, "max_gamma": 3, "max_new_tokens": 8} | changes
        settings = sd.DecodeSettings(**settings)
        sd.generate(tiny_pair, [text], settings, seed=0, method=method)

    decode(texts[0])
    sizes = compiled.begin._cache_size(), compiled.run._cache_size()
    for text in texts:
        for gamma in range(4):
            for temperature in (0.0, 0.7):
                decode(text, gamma=gamma, temperature=temperature, top_p=0.9)
    assert (compiled.begin._cache_size(), compiled.run._cache_size()) == sizes
    decode(texts[0], max_new_tokens=9)  # a buffer of another size is another program
    assert compiled.run._cache_size() == sizes[1] + 1


def test_gamma_0_does_not_speculate_and_still_answers(tiny_pair):
    out = sd.generate(
        tiny_pair, [SENTENCES[0]], sd.DecodeSettings(gamma=0, max_new_tokens=5), seed=0
    )
    assert out.stats.drafted.sum() == 0
    assert out.lengths[0] == out.stats.target_calls[0]


@pytest.mark.parametrize("text", ["", "  ", "\n"])
def test_an_empty_text_is_named(tiny_pair, text):
    with pytest.raises(sd.DataError, match="input 1 is empty"):
        sd.generate(tiny_pair, ["a dog", text], SETTINGS, seed=0)


def test_no_texts_and_a_text_over_the_limit_are_refused(tiny_pair):
    with pytest.raises(sd.DataError, match="no input"):
        sd.generate(tiny_pair, [], SETTINGS, seed=0)
    with pytest.raises(sd.DataError, match="at most 512"):
        sd.generate(tiny_pair, ["dog " * 600], SETTINGS, seed=0)


def test_a_row_that_does_not_speculate_draws_the_same_beside_one_that_does(tiny_pair):
    def outputs(gamma):
        settings = sd.DecodeSettings(
            gamma=gamma, temperature=1.0, max_gamma=None, max_new_tokens=12
        )
        texts = [SENTENCES[0]] * len(gamma)
        return sd.generate(tiny_pair, texts, settings, seed=3).tokens

    np.testing.assert_array_equal(outputs((0,))[0], outputs((0, 3))[0])


@pytest.mark.parametrize("seed", [-1, 2**32, 2**70, True])
def test_a_seed_that_would_be_another_one_is_refused(tiny_pair, seed):
    with pytest.raises(sd.SettingsError, match="seed must be an integer"):
        sd.generate(tiny_pair, ["a"], SETTINGS, seed=seed)


@pytest.mark.parametrize("row_ids", [[0, 1], [], [2**31], [-1]])
def test_row_ids_that_do_not_fit_are_refused(tiny_pair, row_ids):
    with pytest.raises(sd.SettingsError, match="row_ids must be an integer"):
        sd.generate(tiny_pair, ["a"], SETTINGS, seed=0, row_ids=row_ids)


def test_a_text_in_place_of_a_list_is_refused(tiny_pair):
    with pytest.raises(sd.DataError, match=r"\[text\] for one"):
        sd.generate(tiny_pair, "a dog runs", SETTINGS, seed=0)


def test_an_unknown_method_is_refused_and_never_plain_decoding_in_silence(tiny_pair):
    with pytest.raises(sd.SettingsError, match="'beam'"):
        sd.generate(tiny_pair, ["a dog"], SETTINGS, seed=0, method="beam")


def test_a_result_is_shown_in_a_line_a_row_and_without_its_arrays(tiny_pair):
    out = sd.generate(tiny_pair, list(SENTENCES[:2]), SETTINGS, seed=0)
    first, second = repr(out).splitlines()
    assert f"{out.lengths[0]} tokens in {out.stats.target_calls[0]} target" in first
    assert f"acceptance rate {out.stats.acceptance_rate[1]:.2f}" in second
    assert "array" not in repr(out)
    many = dataclasses.replace(out, texts=out.texts * 8)
    many = dataclasses.replace(
        many,
        stats=DecodeStats.stacked([out.stats] * 8),
        infos=jax.tree.map(lambda x: np.concatenate([x] * 8, axis=1), out.infos),
    )
    *rows, more = repr(many).splitlines()
    assert len(rows) == SHOWN_ROWS and more == "... and 8 more"
    assert many._repr_html_().count("target calls") == SHOWN_ROWS


def test_the_baseline_has_no_acceptance_rate_to_show(tiny_pair):
    out = sd.generate(
        tiny_pair, [SENTENCES[0]], SETTINGS, seed=0, method="autoregressive"
    )
    assert "acceptance" not in repr(out)


def test_show_prints_the_trace_of_one_row_or_of_all(tiny_pair, capsys):
    out = sd.generate(tiny_pair, list(SENTENCES[:2]), SETTINGS, seed=0)
    out.show()
    printed = capsys.readouterr().out
    assert all(" ".join(text.split()) in printed for text in out.texts)
    assert printed.count("(+the target's own)") == 2
    out.show(row=1)
    printed = capsys.readouterr().out
    calls = int(out.stats.target_calls[1])
    assert f"\n{calls:3d} " in printed and f"\n{calls + 1:3d} " not in printed


def test_settings_are_keyword_arguments_and_win_over_those_of_a_value(tiny_pair):
    fields = {"gamma": 3, "temperature": 0.8, "max_new_tokens": 9}
    texts = list(SENTENCES[:2])
    named = sd.generate(tiny_pair, texts, seed=5, **fields)
    value = sd.generate(tiny_pair, texts, settings=sd.DecodeSettings(**fields), seed=5)
    both = sd.generate(
        tiny_pair, texts, sd.DecodeSettings(max_new_tokens=9), gamma=3, temperature=0.8,
        seed=5,
    )  # fmt: skip
    for other in (value, both):
        np.testing.assert_array_equal(named.tokens, other.tokens)
        assert named.stats.target_calls.tolist() == other.stats.target_calls.tolist()


def test_the_seed_is_0_unless_given(tiny_pair):
    texts, settings = list(SENTENCES[:2]), sd.DecodeSettings(temperature=1.0, gamma=2)
    plain = sd.generate(tiny_pair, texts, settings)
    np.testing.assert_array_equal(
        plain.tokens, sd.generate(tiny_pair, texts, settings, seed=0).tokens
    )
    other = sd.generate(tiny_pair, texts, settings, seed=1)
    assert plain.texts != other.texts


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"gama": 4}, "there is no setting gama: did you mean gamma?"),
        ({"rule": "tokens"}, "rule must be one of token"),
        ({"gamma": -1}, "gamma must be an integer from 0 to 65536"),
    ],
)
def test_settings_that_cannot_be_are_named(tiny_pair, given, words):
    with pytest.raises(sd.SettingsError, match=words):
        sd.generate(tiny_pair, ["a dog"], **given)


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        ("a dog", "give a list of inputs, .text. for one"),
        (5, "give a list of inputs, not 5"),
        (iter(()), "there is no input"),
        (np.array(["a dog", ""]), "input 1 is empty"),
    ],
)
def test_inputs_that_are_no_list_of_texts_are_refused(
    unannotated, tiny_pair, texts, words
):
    with pytest.raises(sd.DataError, match=words):
        sd.generate(tiny_pair, texts)


def test_inputs_may_be_any_sequence(unannotated, tiny_pair):
    texts = list(SENTENCES[:2])
    expected = sd.generate(tiny_pair, texts, SETTINGS).texts
    for given in (tuple(texts), np.array(texts), (text for text in texts)):
        assert sd.generate(tiny_pair, given, SETTINGS).texts == expected


def test_a_name_is_no_pair(unannotated):
    with pytest.raises(sd.SettingsError, match="what load_pair returns, not 'demo"):
        sd.generate("demo_ende", ["a dog"])


def test_row_ids_are_one_integer_a_row(unannotated, tiny_pair):
    for ids in ([[0], [0, 1]], [0], [0.5, 1]):
        with pytest.raises(sd.SettingsError, match="row_ids must be an integer"):
            sd.generate(tiny_pair, ["a dog", "a cat"], row_ids=ids)


def test_sizes_past_any_memory_are_refused(tiny_pair):
    rests = {"gamma": ', or "auto"', "max_gamma": "", "max_new_tokens": ""}
    for name, rest in rests.items():
        message = f"{name} must be .* 65536{rest}, not"
        with pytest.raises(sd.SettingsError, match=message):
            sd.generate(tiny_pair, ["a dog"], **{name: 2**31 - 1})


def test_only_rows_that_there_are_can_be_shown(unannotated, tiny_pair):
    out = sd.generate(tiny_pair, ["a dog"], SETTINGS)
    for row in (1, -1, True, "a"):
        with pytest.raises(sd.DataError, match="row must be from 0 to 0, not"):
            out.show(row)


def test_draws_are_a_rows_own_whatever_generator_jax_prefers(tiny_pair):
    texts = list(SENTENCES[:3])
    settings = sd.DecodeSettings(temperature=1.0, gamma=2, max_new_tokens=8)
    expected = sd.generate(tiny_pair, texts, settings, seed=3)
    before = jax.config.jax_default_prng_impl
    try:
        jax.config.update("jax_default_prng_impl", "rbg")
        alone = sd.generate(tiny_pair, texts[2:], settings, seed=3, row_ids=[2])
    finally:
        jax.config.update("jax_default_prng_impl", before)
    assert alone.texts == expected.texts[2:]


def test_the_public_names_are_those_of_the_package():
    assert dir(sd) == sorted(sd.__all__)
    assert callable(sd.generate) and not hasattr(sd.generate, "__path__")


def test_a_dict_of_settings_is_told_how_to_be_given():
    with pytest.raises(sd.SettingsError, match="settings must be a DecodeSettings, n"):
        generation._settings({"gamma": 3}, {})
