#!/usr/bin/env bash
# Lints and tests. Arguments go on to pytest: scripts/test.sh tests/sampling -k draw
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/setup_venv.sh test
"$PYTHON" -m ruff check .
"$PYTHON" -m ruff format --check .
.venv/bin/lint-imports --no-cache
# LLVM's later passes take a third of the time to compile and change no program of XLA's.
export XLA_FLAGS="${XLA_FLAGS-} --xla_backend_optimization_level=1"
# A full run uses every core; a file stays in one process, for its fixtures.
if [ $# -eq 0 ]; then
    set -- -n auto --dist loadfile
fi
exec "$PYTHON" -m pytest "$@"
