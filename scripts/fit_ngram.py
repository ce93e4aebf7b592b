"""Fits an n-gram drafter to texts like the target's outputs.

python scripts/fit_ngram.py --text=FILE --tokenizer=spiece.model --out=FILE.safetensors
python scripts/decode.py --gin.load_pair.drafter=ngram:FILE.safetensors --text="A dog."
"""

from pathlib import Path

from absl import flags
from rich.progress import track

from specdec_jax import DataError, SettingsError
from specdec_jax.checkpoints import ngram_file as ngram
from specdec_jax.cli import gin_bindings
from specdec_jax.cli.arguments import only_flags
from specdec_jax.data.text import read_lines
from specdec_jax.data.tokenizer import T5_IDS, Tokenizer
from specdec_jax.training.fit_ngram import fit_ngram

_TEXT = flags.DEFINE_string("text", None, "a text a line; needs --tokenizer.")
_TOKENS = flags.DEFINE_string(
    "tokens", None, "instead of --text: a sequence of token ids a line, EOS included."
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


def _sequences(tokenizer):
    def ids(line):
        return tokenizer.encode(line) if _TEXT.value else list(map(int, line.split()))

    lines = read_lines(_TEXT.value or _TOKENS.value)
    for number, line in enumerate(track(lines, "reading", transient=True), 1):
        if line.strip():
            try:
                yield ids(line)
            except ValueError as error:
                raise DataError(f"{_TOKENS.value}:{number}: no list of ids") from error


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


def main(argv):
    only_flags(argv)
    out = _out()
    if bool(_TEXT.value) == bool(_TOKENS.value):
        raise SettingsError("give --text or --tokens, one of them")
    tokenizer = Tokenizer(_TOKENIZER.value) if _TOKENIZER.value else None
    vocab_size = _VOCAB_SIZE.value or (tokenizer and tokenizer.vocab_size)
    if vocab_size is None or (tokenizer is None and _TEXT.value):
        raise SettingsError("--tokenizer is missing (--vocab_size is enough for ids)")
    params = fit_ngram(
        _sequences(tokenizer),
        vocab_size,
        _ORDER.value,
        start_id=(tokenizer.special_ids if tokenizer else T5_IDS).start_id,
        min_count=_MIN_COUNT.value,
        max_successors=_MAX_SUCCESSORS.value,
    )
    ngram.save(out, params, tokenizer)
    for n, table in enumerate(params.tables, 2):
        kept = int(table.first[-1])
        print(f"order {n}: {kept} n-grams after {len(table.keys)} contexts")
    print(out)


if __name__ == "__main__":
    gin_bindings.run_program(main)
