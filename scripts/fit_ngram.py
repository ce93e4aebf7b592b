"""Fits an n-gram drafter to text like the target's outputs.

python scripts/fit_ngram.py --text=FILE --tokenizer=spiece.model --out=FILE.safetensors
python scripts/decode.py --gin.load_pair.drafter=ngram:FILE.safetensors --text="A dog."
"""

from pathlib import Path

from absl import flags

from specdec_jax import DataError, SettingsError
from specdec_jax.checkpoints import ngram_file
from specdec_jax.cli.program import run_program
from specdec_jax.data.tokenizer import T5_IDS, Tokenizer
from specdec_jax.training.fit_ngram import fit_ngram, read_sequences

_TEXT = flags.DEFINE_string("text", None, "outputs, one a line; needs --tokenizer.")
_TOKENS = flags.DEFINE_string(
    "tokens", None, "instead of --text: token ids, one output a line, EOS included."
)
_TOKENIZER = flags.DEFINE_string(
    "tokenizer", None, "the target's SentencePiece model; other targets are refused."
)
_VOCAB_SIZE = flags.DEFINE_integer(
    "vocab_size",
    None,
    "ids of the target, if it has more than the tokenizer has pieces (T5: 32100).",
)
_ORDER = flags.DEFINE_integer("order", 2, "n: 1 is the unigram, 2 the bigram.")
_MIN_COUNT = flags.DEFINE_integer(
    "min_count", 1, "n-grams of order 2 and more that are rarer are left out."
)
_MAX_SUCCESSORS = flags.DEFINE_integer(
    "max_successors", 128, "how many tokens are kept that may follow one context."
)
_OUT = flags.DEFINE_string("out", None, "the n-gram's file.")


def _out():
    """Where to write, known to be possible before the counting begins."""
    if not _OUT.value:
        raise SettingsError("--out is missing")
    out = Path(_OUT.value)
    if out.suffix != ".safetensors":
        raise SettingsError(f"--out={out}: name a file that ends in .safetensors")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"cannot write to {out}: {error}") from error
    if out.is_dir():
        raise DataError(f"cannot write to {out}: it is a folder")
    return out


def main(_):
    out = _out()
    if bool(_TEXT.value) == bool(_TOKENS.value):
        raise SettingsError("give --text or --tokens, one of them")
    tokenizer = Tokenizer(_TOKENIZER.value) if _TOKENIZER.value else None
    vocab_size = _VOCAB_SIZE.value or (tokenizer and tokenizer.vocab_size)
    if vocab_size is None or (tokenizer is None and _TEXT.value):
        raise SettingsError("--tokenizer is missing (--vocab_size is enough for ids)")
    params = fit_ngram(
        read_sequences(_TEXT.value or _TOKENS.value, _TEXT.value and tokenizer),
        vocab_size,
        _ORDER.value,
        start_id=(tokenizer.special_ids if tokenizer else T5_IDS).start_id,
        min_count=_MIN_COUNT.value,
        max_successors=_MAX_SUCCESSORS.value,
    )
    ngram_file.save(out, params, tokenizer)
    for n, table in enumerate(params.tables, 2):
        print(f"order {n}: {table.first[-1]} n-grams, {len(table.keys)} contexts")
    print(out)


if __name__ == "__main__":
    run_program(main)
