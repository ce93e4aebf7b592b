#!/usr/bin/env bash
# Makes .venv, or reuses it, with this package and the extras named by $1 ("" for none).
# Sourced by demo.sh and test.sh; leaves PYTHON set.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
extras=${1:-}
PYTHON=.venv/bin/python
stamp=.venv/.specdec_jax-installed
want="$(cksum setup.py) [$extras]"
if ! [ -x "$PYTHON" ]; then
    "${BASE_PYTHON:-python3}" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
        echo "error: Python 3.11 or later is needed; name one with BASE_PYTHON=..." >&2
        exit 1
    }
    "${BASE_PYTHON:-python3}" -m venv .venv
fi
if ! grep -qsF "$want" "$stamp"; then
    echo "installing into .venv ..." >&2
    "$PYTHON" -m pip install --quiet --editable ".${extras:+[$extras]}"
    echo "$want" >>"$stamp"
fi
