#!/usr/bin/env bash
# Lints and tests. Arguments go on to pytest: scripts/test.sh tests/sampling -k draw
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/setup_venv.sh test
"$PYTHON" -m ruff check .
"$PYTHON" -m ruff format --check .
.venv/bin/lint-imports --no-cache
# Compiling is most of the time. LLVM's optimizations, and the newer of two ways to emit a
# fusion, take half of it and change no program of XLA's.
fast="--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
if XLA_FLAGS=$fast "$PYTHON" -c "import jax; jax.devices()" 2> /dev/null; then
    export XLA_FLAGS="${XLA_FLAGS-} $fast" # an XLA without one of them would abort
fi
# A full run uses every core; a file stays in one process, for its fixtures.
if [ $# -eq 0 ]; then
    set -- -n auto --dist loadfile
fi
exec "$PYTHON" -m pytest "$@"
