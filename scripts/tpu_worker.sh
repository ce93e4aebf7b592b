#!/usr/bin/env bash
# What launch_tpu_vm.sh has done on each worker, in the folder that it unpacked there.
#
#   tpu_worker.sh install                    Python and this package, into .venv
#   tpu_worker.sh run ID PROGRAM OUT ARGS... scripts/PROGRAM.py --out=OUT ARGS...
#
# The program goes on when the connection breaks. The same command again, with the same ID,
# attaches to it, or to its end. The exit status is 0 if the program's is, else 100 more
# than that, so that ssh's and gcloud's own are told apart.
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

# An earlier run may still hold the TPU and the records.
end_earlier_runs() {
    local file pid waited
    for file in .run/*/pid; do
        pid=$(cat "$file" 2>/dev/null) || continue
        waited=0
        while grep -qsa scripts/ "/proc/$pid/cmdline"; do
            if [ $((waited++)) -eq 0 ]; then
                echo "ending an earlier run (process $pid)" >&2
                kill "$pid" || true
            elif [ "$waited" -eq 30 ]; then
                kill -9 "$pid" || true
            fi
            sleep 1
        done
    done
    rm -rf .run
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

# One host of a slice would wait for the others, unless it is told that it is alone.
leave_the_slice() {
    local values hosts chips
    values=$(curl -sf -m 10 -H 'Metadata-Flavor: Google' \
        http://metadata.google.internal/computeMetadata/v1/instance/attributes/tpu-env) ||
        return 0 # this is no TPU VM
    hosts=$(sed -n "s/^HOST_BOUNDS: '\(.*\)'.*/\1/p" <<<"$values")
    chips=$(sed -n "s/^CHIPS_PER_HOST_BOUNDS: '\(.*\)'.*/\1/p" <<<"$values")
    if [ -n "$chips" ] && [ "${hosts:-1,1,1}" != 1,1,1 ]; then
        export TPU_PROCESS_BOUNDS=1,1,1 TPU_CHIPS_PER_PROCESS_BOUNDS=$chips
        TPU_VISIBLE_CHIPS=$(seq -s, 0 $((${chips//,/ * } - 1)))
        export TPU_VISIBLE_CHIPS
    fi
}

# Starts a program in a session of its own, and keeps its log and its exit status.
start() { # RUN COMMAND...
    local run=$1
    mkdir -p "$run"
    # shellcheck disable=SC2016
    setsid bash -c '"${@:2}" & echo $! >"$1/pid"; wait $!; echo $? >"$1/status"' - "$@" \
        </dev/null >"$run/log" 2>&1 9>&- &
    until [ -s "$run/pid" ]; do sleep 0.1; done
}

# Shows the log of a run as it grows, and gives back the program's exit status.
follow() { # RUN LINES, of what is there already
    local run=$1 status waited=0
    if [ -s "$run/status" ]; then
        tail -n "$2" "$run/log"
    else
        tail -n "$2" -f -s 0.2 --pid="$(cat "$run/pid")" "$run/log"
    fi
    until [ -s "$run/status" ] || [ $((waited++)) -eq 50 ]; do sleep 0.1; done
    status=$(cat "$run/status" 2>/dev/null) || status=137 # what keeps it was killed too
    [ "$status" -eq 0 ] || exit $((100 + status))
}

case ${1:-} in
install)
    install
    ;;
run)
    run=.run/$2 program=$3 out=$4 lines=20
    shift 4
    set -E
    trap 'exit 101' ERR # a failure here is none of the connection either
    exec 9>.run.lock
    flock 9 # gcloud too may try again
    if ! [ -s "$run/pid" ]; then
        end_earlier_runs
        take_records "$out"
        [[ " $* " == *" --multihost "* ]] || leave_the_slice
        export JAX_COMPILATION_CACHE_DIR=$HOME/.cache/specdec_jax/xla
        start "$run" .venv/bin/python "scripts/$program.py" "--out=$out" "$@"
        lines=+1
    fi
    exec 9>&-
    follow "$run" "$lines"
    ;;
*)
    echo "usage: tpu_worker.sh install | run ID PROGRAM OUT ARGS..." >&2
    exit 2
    ;;
esac
