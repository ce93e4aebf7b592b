"""The program as users run it: in a process of its own."""

import subprocess
import sys
from pathlib import Path

import pytest

import specdec_jax as sd
from specdec_jax.data.tokenizer import TOKENIZER_FILE
from specdec_jax.job import encode
from tests.tiny_pairs import SENTENCES, VOCAB_SIZE

ROOT = Path(__file__).parent.parent.parent


def fit(*args):
    return subprocess.run(
        [sys.executable, "scripts/fit_ngram.py", *map(str, args)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_texts_and_their_ids_give_the_same_ngram_and_a_target_takes_it(
    pair_folder, tiny_pair, tmp_path
):
    text, ids = tmp_path / "text", tmp_path / "ids"
    text.write_text("\n".join([SENTENCES[0], "", *SENTENCES[1:]]) + "\n")
    rows = encode(tiny_pair, SENTENCES)
    ids.write_text("\n".join(" ".join(map(str, row)) for row in rows) + "\n")
    written = []
    for source in (text, ids):
        written.append(tmp_path / f"{source.name}.safetensors")
        tokenizer = f"--tokenizer={pair_folder / TOKENIZER_FILE}"
        source = f"--{'text' if source is text else 'tokens'}={source}"
        done = fit(source, tokenizer, "--order=3", f"--out={written[-1]}")
        assert done.returncode == 0, done.stderr
        assert "order 3: " in done.stdout and str(written[-1]) in done.stdout
    assert written[0].read_bytes() == written[1].read_bytes()
    pair = sd.load_pair(pair_folder, drafter=f"ngram:{written[0]}")
    assert pair.params.drafter.order == 3
    settings = sd.DecodeSettings(gamma=2, max_new_tokens=6)
    assert sd.generate(pair, ["a dog"], settings, seed=0).stats.drafted.sum() > 0


def test_no_text_is_written_over_and_a_folder_is_made(pair_folder, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("\n".join(SENTENCES))
    given = f"--text={text}", f"--tokenizer={pair_folder / TOKENIZER_FILE}"
    done = fit(*given, f"--out={text}")
    assert done.returncode == 1
    assert "name a file that ends in .safetensors" in done.stderr
    assert text.read_text() == "\n".join(SENTENCES)
    done = fit(*given, f"--out={tmp_path}/new/folder/bigram.safetensors")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "new" / "folder" / "bigram.safetensors").exists()


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--text=x", "--tokens=y"], "--text or --tokens"),
        (["--text=x", f"--vocab_size={VOCAB_SIZE}"], "--tokenizer is missing"),
        (["--tokens={bad}", f"--vocab_size={VOCAB_SIZE}"], "bad:2: no list of ids"),
        (["--tokens={far}", f"--vocab_size={VOCAB_SIZE}"], "far:1: no list of ids"),
    ],
)
def test_bad_input_is_one_clear_line(args, words, tmp_path):
    bad, far = tmp_path / "bad", tmp_path / "far"
    bad.write_text("3 4\n3 four\n")
    far.write_text("3 99999999999999999999\n")
    args = [arg.format(bad=bad, far=far) for arg in args]
    done = fit(f"--out={tmp_path / 'out.safetensors'}", *args)
    assert done.returncode == 1
    assert done.stderr.startswith("error: ") and words in done.stderr
    assert not (tmp_path / "out.safetensors").exists()
