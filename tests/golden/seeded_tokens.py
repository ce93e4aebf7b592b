"""Tokens of seeded decodes of the demo pair, stored once and compared after a change.

    python tests/golden/seeded_tokens.py --compare tests/golden/seeded_tokens.json
    python tests/golden/seeded_tokens.py --store FILE.json

50 prompts x seeds x temperatures x drafters x batch sizes, in float32, with filters,
lenience and gammas that differ from row to row. A refactoring must not change a token.
"""

import argparse
import hashlib
import itertools
import json
import sys
import tempfile
from pathlib import Path

import numpy as np

import specdec_jax as sd

PROMPTS = 50
SEEDS = (0, 7)
TEMPERATURES = (0.0, 0.7, 1.0)
DRAFTERS = ("neural", "bigram", "prompt_lookup", "repeat_last", "uniform")
BATCHES = (50, 7, 1)


def prompts(pair_folder):
    lines = (pair_folder.parent / "eval_sentences.en.txt").read_text("utf-8")
    return lines.splitlines()[:PROMPTS]


def load(drafter, folder, texts):
    if drafter == "neural":
        return sd.load_pair("demo_ende", dtype="float32")
    if drafter == "bigram":
        drafter = f"ngram:{fit_bigram(folder, texts)}"
    return sd.load_pair("demo_ende", drafter=drafter, dtype="float32")


def fit_bigram(folder, texts):
    """A bigram of a word list that depends on nothing but the prompts."""
    from specdec_jax.checkpoints import ngram_file
    from specdec_jax.data.tokenizer import Tokenizer
    from specdec_jax.training.fit_ngram import fit_ngram

    assets = Path(sd.__file__).parent / "assets"
    tokenizer = Tokenizer(assets / "demo_ende" / "spiece.model")
    german = ["Ein Mann fährt Fahrrad.", "Eine Frau geht.", "Zwei Hunde im Schnee."]
    sequences = [tokenizer.encode(text) for text in [*german * 5, *texts]]
    path = folder / "bigram.safetensors"
    ngram_file.save(path, fit_ngram(sequences, tokenizer.vocab_size, 2), tokenizer)
    return path


def settings(temperature, rows):
    """Unlike rows: gammas, filters and lenience by a prompt's place."""
    place = np.array(rows)
    return sd.DecodeSettings(
        gamma=[int(x) for x in np.array([3, 5, 0, 2])[place % 4]],
        max_gamma=5,
        temperature=[temperature] * len(rows),
        top_k=[int(x) for x in np.array([0, 40, 0])[place % 3]],
        top_p=[float(x) for x in np.array([1.0, 1.0, 0.9, 1.0, 1.0])[place % 5]],
        lenience=[float(x) for x in np.array([1.0, 1.0, 1.0, 0.5])[place % 4]],
        max_new_tokens=[int(x) for x in np.array([24, 9, 24])[place % 3]],
    )


def decode_all():
    root = Path(sd.__file__).parent / "assets" / "demo_ende"
    texts = prompts(root)
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for drafter in DRAFTERS:
            pair = load(drafter, Path(folder), texts)
            for batch, seed, temperature in itertools.product(
                BATCHES, SEEDS, TEMPERATURES
            ):
                if batch < PROMPTS and seed:
                    continue
                outputs, digest = [], hashlib.sha256()
                for start in range(0, PROMPTS, batch):
                    rows = list(range(start, min(start + batch, PROMPTS)))
                    out = sd.generate(
                        pair,
                        [texts[row] for row in rows],
                        settings=settings(temperature, rows),
                        seed=seed,
                        row_ids=rows,
                    )
                    for row, length in zip(out.tokens, out.lengths, strict=True):
                        outputs.append(row[:length].tolist())
                    for name in ("drafted", "num_accepted", "next_token"):
                        digest.update(np.asarray(getattr(out.infos, name)).tobytes())
                name = f"{drafter} batch={batch} seed={seed} T={temperature:g}"
                found[name] = {"tokens": outputs, "steps": digest.hexdigest()}
                print(name, file=sys.stderr, flush=True)
        pair = load("neural", Path(folder), texts)
        for temperature in TEMPERATURES:
            out = sd.generate(
                pair,
                texts,
                settings=settings(temperature, range(PROMPTS)),
                seed=0,
                method="autoregressive",
            )
            rows = zip(out.tokens, out.lengths, strict=True)
            tokens = [row[:length].tolist() for row, length in rows]
            found[f"autoregressive T={temperature:g}"] = {"tokens": tokens}
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", type=Path)
    parser.add_argument("--compare", type=Path)
    given = parser.parse_args()
    found = decode_all()
    if given.store:
        given.store.write_text(json.dumps(found) + "\n", "utf-8")
    if given.compare:
        stored = json.loads(given.compare.read_text("utf-8"))
        unlike = [name for name in stored if stored[name] != found.get(name)]
        print(f"{len(stored) - len(unlike)} of {len(stored)} settings agree")
        for name in unlike:
            print(f"differs: {name}")
        sys.exit(bool(unlike))


if __name__ == "__main__":
    main()
