import pytest

from specdec_jax.data.tokenizer import EOS_ID, Tokenizer
from specdec_jax.errors import DataError
from tests.tiny_pairs import SENTENCES


@pytest.fixture(scope="module")
def tokenizer(pair_folder):
    return Tokenizer(pair_folder / "spiece.model")


def test_text_comes_back_and_ends_with_eos(tokenizer):
    for text in SENTENCES:
        tokens = tokenizer.encode(text)
        assert tokens[-1] == EOS_ID
        assert EOS_ID not in tokens[:-1]
        assert tokenizer.decode(tokens) == text


def test_nothing_after_eos_is_decoded_and_padding_is_nothing(tokenizer):
    tokens = tokenizer.encode("a dog")
    assert tokenizer.decode([0, *tokens, *tokenizer.encode("runs")]) == "a dog"


def test_ids_without_a_piece_are_shown_and_left_out_of_text(tokenizer):
    assert tokenizer.piece(tokenizer.vocab_size) == f"<{tokenizer.vocab_size}>"
    assert tokenizer.decode([tokenizer.vocab_size + 3]) == ""


def test_a_file_that_is_no_model_is_named(tmp_path):
    (tmp_path / "spiece.model").write_bytes(b"junk")
    for path in (tmp_path / "spiece.model", tmp_path / "missing.model"):
        with pytest.raises(DataError, match=path.name):
            Tokenizer(path)
