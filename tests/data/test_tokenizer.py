import pytest

from specdec_jax.data.tokenizer import T5_IDS, SpecialIds, Tokenizer, train_tokenizer
from specdec_jax.errors import DataError
from tests.special_ids import write_pieces
from tests.tiny_pairs import SENTENCES


@pytest.fixture(scope="module")
def tokenizer(pair_folder):
    return Tokenizer(pair_folder / "spiece.model")


def test_text_comes_back_and_ends_with_eos(tokenizer):
    for text in SENTENCES:
        tokens = tokenizer.encode(text)
        assert tokens[-1] == tokenizer.eos_id
        assert tokenizer.eos_id not in tokens[:-1]
        assert tokenizer.decode(tokens) == text


def test_a_tokenizer_shows_itself_in_a_line(tokenizer):
    words = f"Tokenizer({tokenizer.path!r}: {tokenizer.vocab_size} ids)"
    assert repr(tokenizer) == words


def test_nothing_after_eos_is_decoded_and_padding_is_nothing(tokenizer):
    tokens = tokenizer.encode("a dog")
    assert tokenizer.decode([0, *tokens, *tokenizer.encode("runs")]) == "a dog"


def test_a_fitted_tokenizer_tells_the_special_ids_of_t5(tokenizer):
    assert tokenizer.special_ids == T5_IDS
    assert (tokenizer.start_id, tokenizer.eos_id, tokenizer.pad_id) == (0, 1, 0)


def test_special_ids_are_the_models_own(tmp_path):
    write_pieces(tmp_path / "spiece.model", unk_id=0, pad_id=3, eos_id=2)
    tokenizer = Tokenizer(tmp_path / "spiece.model")
    assert tokenizer.special_ids == SpecialIds(start_id=3, eos_id=2, pad_id=3)
    tokens = tokenizer.encode("a dog")
    assert tokens[-1] == 2
    assert tokenizer.decode([3, *tokens, *tokenizer.encode("runs")]) == "a dog"


@pytest.mark.parametrize(
    ("lacking", "words"),
    [("eos_id", "no end-of-sequence token"), ("pad_id", "no padding token")],
)
def test_a_model_without_a_special_token_is_named(tmp_path, lacking, words):
    write_pieces(tmp_path / "spiece.model", **{"eos_id": 1, "pad_id": 0, lacking: -1})
    with pytest.raises(DataError, match=f"spiece.model has {words}"):
        Tokenizer(tmp_path / "spiece.model")


def test_ids_without_a_piece_are_shown_and_left_out_of_text(tokenizer):
    assert tokenizer.piece(tokenizer.vocab_size) == f"<{tokenizer.vocab_size}>"
    assert tokenizer.decode([tokenizer.vocab_size + 3]) == ""


def test_a_file_that_is_no_model_is_named(tmp_path):
    (tmp_path / "spiece.model").write_bytes(b"junk")
    (tmp_path / "empty.model").write_bytes(b"")
    for name in ("spiece.model", "empty.model", "missing.model"):
        with pytest.raises(DataError, match=name):
            Tokenizer(tmp_path / name)


def test_text_that_is_not_unicode_is_refused(tokenizer):
    text = b"a dog \xff".decode("utf-8", "surrogateescape")
    with pytest.raises(DataError, match=r"a dog \\udcff' is not UTF-8"):
        tokenizer.encode(text)


def test_too_few_lines_are_told_with_what_to_do(tmp_path):
    with pytest.raises(DataError, match="fewer pieces") as raised:
        train_tokenizer(SENTENCES, tmp_path / "spiece.model", 4000)
    message = str(raised.value)
    assert "vocab_size=N" in message and "\n" not in message
    assert not (tmp_path / "spiece.model").exists()
