#!/usr/bin/env bash
# What launch_tpu_vm.sh has done on each worker, in the folder that it unpacked there.
#
#   tpu_worker.sh install                    Python and this package, into .venv
#   tpu_worker.sh run PROGRAM OUT ARGS...    scripts/PROGRAM.py --out=OUT ARGS...
set -euo pipefail
cd "$(dirname "$0")/.."

install() {
    # The images of TPU VMs have Python 3.10, and not what venv needs.
    if ! [ -x .venv/bin/python ]; then
        PATH="$HOME/.local/bin:$PATH"
        command -v uv >/dev/null || curl -LsSf https://astral.sh/uv/install.sh | sh
        uv venv --quiet --seed --python 3.12 .venv
    fi
    source scripts/setup_venv.sh tpu,seqio
}

# An earlier run whose connection broke may still hold the TPU and the records.
end_earlier_run() {
    local pid waited=0
    pid=$(cat .run.pid 2>/dev/null) || return 0
    while grep -qsa scripts/ "/proc/$pid/cmdline"; do
        if [ $((waited++)) -eq 0 ]; then
            echo "ending an earlier run (process $pid)" >&2
            kill "$pid" || true
        elif [ "$waited" -eq 30 ]; then
            kill -9 "$pid" || true
        fi
        sleep 1
    done
}

# Records that were brought from a VM that is gone go on, unless there are more here.
take_records() {
    local out=$1 brought=../specdec_jax.records.jsonl
    mkdir -p "$(dirname "$out")"
    if [ -f "$brought" ]; then
        if ! [ -f "$out" ] || [ "$(wc -c <"$brought")" -gt "$(wc -c <"$out")" ]; then
            mv "$brought" "$out"
        fi
        rm -f "$brought"
    fi
}

case ${1:-} in
install)
    install
    ;;
run)
    program=$2
    out=$3
    shift 3
    end_earlier_run
    take_records "$out"
    echo $$ >.run.pid # which is python's after exec
    exec .venv/bin/python "scripts/$program.py" "--out=$out" "$@"
    ;;
*)
    echo "usage: tpu_worker.sh install | run PROGRAM OUT ARGS..." >&2
    exit 2
    ;;
esac
