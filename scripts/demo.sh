#!/usr/bin/env bash
# The main job, from a fresh clone: translates the first packaged sentences, with the
# trace of each, and compares with the target alone. Arguments go on to scripts/decode.py.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/setup_venv.sh ""
if [ $# -gt 0 ]; then
    exec "$PYTHON" scripts/decode.py --gin_file=configs/runs/demo_ende.gin "$@"
fi
head -n 8 specdec_jax/assets/eval_sentences.en.txt |
    "$PYTHON" scripts/decode.py --gin_file=configs/runs/demo_ende.gin --speedup
