import jax
import numpy as np
import pytest

from specdec_jax.checkpoints import ngram_file as ngram
from specdec_jax.checkpoints import safetensors_file
from specdec_jax.data.tokenizer import TOKENIZER_FILE, Tokenizer, train_tokenizer
from specdec_jax.errors import CheckpointError, PairError
from specdec_jax.training.fit_ngram import fit_ngram
from tests.tiny_pairs import SENTENCES, VOCAB_SIZE


@pytest.fixture(scope="module")
def tokenizer(pair_folder):
    return Tokenizer(pair_folder / TOKENIZER_FILE)


def fit(tokenizer, order):
    return fit_ngram([tokenizer.encode(s) for s in SENTENCES], VOCAB_SIZE, order)


def test_a_path_that_cannot_be_written_is_named_and_nothing_is_left(
    tokenizer, tmp_path
):
    params = fit(tokenizer, 1)
    ngram.save(tmp_path / "new" / "ngram.safetensors", params, tokenizer)
    taken = tmp_path / "new" / "ngram.safetensors"
    with pytest.raises(CheckpointError, match="cannot write .*/inside.safetensors"):
        ngram.save(taken / "inside.safetensors", params, tokenizer)
    with pytest.raises(CheckpointError, match="cannot write .*/new"):
        ngram.save(tmp_path / "new", params, tokenizer)
    assert [path.name for path in tmp_path.rglob("*")] == ["new", taken.name]


@pytest.mark.parametrize("order", [1, 2, 4])
def test_what_is_read_is_what_was_written(tokenizer, tmp_path, order):
    params, path = fit(tokenizer, order), tmp_path / "ngram.safetensors"
    ngram.save(path, params, tokenizer)
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    found = ngram.load(path, tokenizer)
    assert jax.tree.structure(found) == jax.tree.structure(params)
    for got, want in zip(jax.tree.leaves(found), jax.tree.leaves(params), strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)
    weights = sum(leaf.nbytes for leaf in jax.tree.leaves(params))
    assert path.stat().st_size < weights + 2000


def test_another_vocabulary_is_refused(tokenizer, tmp_path):
    path = tmp_path / "ngram.safetensors"
    sentinels = Tokenizer(tokenizer.path, extra_ids=3)
    ngram.save(path, fit(tokenizer, 2), tokenizer)
    with pytest.raises(PairError, match=f"{VOCAB_SIZE} ids and .*{VOCAB_SIZE + 3}"):
        ngram.load(path, sentinels)
    other = tmp_path / TOKENIZER_FILE
    train_tokenizer([s.replace("dog", "cat") for s in SENTENCES * 4], other, VOCAB_SIZE)
    with pytest.raises(PairError, match="another tokenizer"):
        ngram.load(path, Tokenizer(other))
    ngram.save(path, fit(tokenizer, 2))  # of ids that nobody vouches for
    ngram.load(path, Tokenizer(other))


def test_what_is_no_ngram_is_refused(tokenizer, pair_folder, tmp_path):
    path = tmp_path / "more.safetensors"
    unigram = np.full(VOCAB_SIZE, 1 / VOCAB_SIZE, np.float32)
    safetensors_file.write(path, {"unigram": unigram, "bias": unigram})
    with pytest.raises(CheckpointError, match="tensor 1/keys is missing"):
        ngram.load(path, tokenizer)
    with pytest.raises(CheckpointError, match="nowhere.safetensors"):
        ngram.load(tmp_path / "nowhere.safetensors", tokenizer)
    with pytest.raises(CheckpointError, match="is no n-gram: tensor unigram"):
        ngram.load(pair_folder / "target" / "model.safetensors", tokenizer)


BROKEN = {
    "unigram": lambda x: 2 * x,
    "1/keys": lambda x: x[::-1],
    "1/first": lambda x: x + 1,
    "1/tokens": lambda x: x + VOCAB_SIZE,
    "1/probs": lambda x: x[1:],
    "2/keys": lambda x: x.astype(np.int64),
    "2/probs": lambda x: -x,
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_tensor_is_named(tokenizer, tmp_path, name):
    path = tmp_path / "ngram.safetensors"
    ngram.save(path, fit(tokenizer, 3), tokenizer)
    whole = {
        key: tensor.read((slice(None),))
        for key, tensor in safetensors_file.read(path).items()
    }
    safetensors_file.write(path, whole | {name: BROKEN[name](whole[name])})
    with pytest.raises(CheckpointError, match=f"tensors? {name.split('/')[0]}"):
        ngram.load(path, tokenizer)
    del whole[name]
    safetensors_file.write(path, whole)
    with pytest.raises(CheckpointError, match=f"tensor {name} is missing"):
        ngram.load(path, tokenizer)
