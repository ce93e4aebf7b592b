#!/usr/bin/env bash
# Runs a gin file on a Cloud TPU VM or pod slice, and brings its records back.
#
#   bash scripts/launch_tpu_vm.sh --type=v4-8 --zone=us-central2-b \
#       --gin_file=configs/runs/ende_small_t0.gin --out=records/ende.jsonl \
#       -- --gin.TARGET_CHECKPOINT=gs://BUCKET/xxl --gin.VOCABULARY=gs://BUCKET/spiece.model
#
# Steps: create the VM (or reuse it), install on all workers, run, fetch the records. The
# same command again goes on where it was stopped, on the same VM or on a new one. A run
# goes on when the connection to it breaks, and is attached to again. Ctrl-C leaves it too;
# the same command then ends it, and goes on from its records. The exit status is the
# program's own. All that comes after -- goes to the program.
#
#   --name=NAME        of the VM (specdec)
#   --type=TYPE        accelerator type, as v4-8, v5litepod-16, v5p-8, v6e-8 (v4-8)
#   --project=, --zone=    if not given, those that gcloud is configured with
#   --runtime=VERSION  of the VM; worked out from the type if not given
#   --spot             cheaper, and may be preempted at any time
#   --reserved         out of a reservation
#   --network=, --subnetwork=    other ones than the default
#   --internal-ips     no external addresses; the network needs Cloud NAT for installing
#   --tunnel-through-iap    ssh and scp through IAP, from outside the network
#   --queued           wait in the queue of queued resources until there is a TPU
#   --gin_file=FILE    what to run; may be given repeatedly
#   --program=NAME     decode (a task, on all workers) or benchmark (on worker 0 and its
#                      chips alone) (decode)
#   --precompile=N     before the run, compile on the VM for inputs of up to N tokens
#   --out=FILE.jsonl   the records, in the checkout here and there (records/NAME.jsonl)
#   --fetch_every=S    seconds between fetches of the records while it runs (300)
#   --reconnects=N     attach anew, so often, to a run whose connection broke (100)
#   --restarts=N       create a preempted VM anew, so often, and go on (0)
#   --steps=LIST       of create,install,precompile,run,fetch,delete (create,install,run,
#                      fetch, and what --precompile and --delete add)
#   --delete           also delete the VM in the end, if all went well
#   --dry_run          print every command, and do nothing
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/gcloud_tpu.sh
exec 3>&1

name=specdec type=v4-8 project='' zone='' runtime='' program=decode out=''
vm_flags=() tunnel='' queued='' dry_run='' steps=create,install,run,fetch
restarts=0 reconnects=100
gone=99 # the exit status of a step whose VM is gone
fetch_every=300 poll=20 fetcher=''
gin_files=() program_args=() precompile=''

read_flags() {
    local flag
    while [ $# -gt 0 ]; do
        case $1 in
        --gin_file=?*) gin_files+=("$1") ;;
        --name=?* | --type=?* | --project=?* | --zone=?* | --runtime=?* | --program=?* | \
            --out=?* | --fetch_every=?* | --reconnects=?* | --restarts=?* | \
            --steps=?* | --poll=?*) # seconds between looks at a VM that is being created
            flag=${1%%=*}
            printf -v "${flag#--}" %s "${1#*=}"
            ;;
        --spot | --reserved | --internal-ips | --network=?* | --subnetwork=?*)
            vm_flags+=("$1")
            ;;
        --tunnel-through-iap) tunnel=$1 ;;
        --queued) queued=--queued ;;
        --precompile=?*)
            precompile=$1
            steps+=,precompile
            ;;
        --delete) steps+=,delete ;;
        --dry_run) dry_run=yes ;;
        --help | -h)
            sed -n '2,/^set -/s/^# \{0,1\}//p' "scripts/${0##*/}"
            exit 0
            ;;
        --)
            program_args=("${@:2}")
            break
            ;;
        *) die "unknown flag $1: see --help; what is for the program comes after --" ;;
        esac
        shift
    done
}

does() { [[ ,$steps, == *,$1,* ]]; }

check_flags() {
    local step file
    for step in ${steps//,/ }; do
        [[ ,create,install,precompile,run,fetch,delete, == *,$step,* ]] ||
            die "unknown step $step: give some of create,install,run,fetch,delete"
    done
    [[ $program =~ ^(decode|benchmark)$ ]] ||
        die "--program must be decode or benchmark, not $program"
    ! does precompile || [ "$program" = decode ] ||
        die "--precompile is of --program=decode: a benchmark compiles before it measures"
    ! does precompile || [[ $precompile =~ ^--precompile=[0-9]+$ ]] ||
        die "--precompile must be an integer: the most tokens of an input"
    : "${out:=records/$name.jsonl}"
    [[ ! /$out =~ ^//|/\.\./ ]] ||
        die "--out must be inside the checkout, as records/$name.jsonl"
    [[ $out == *.jsonl ]] || die "--out must end in .jsonl, not $out"
    [[ $reconnects$restarts$fetch_every$poll =~ ^[0-9]+$ ]] ||
        die "--reconnects, --restarts and --fetch_every must be integers"
    [[ " ${vm_flags[*]-} " != *" --spot "* || " ${vm_flags[*]-} " != *" --reserved "* ]] ||
        die "--spot and --reserved exclude each other"
    ! does run || [ ${#gin_files[@]} -gt 0 ] ||
        die "there is nothing to run: give --gin_file=FILE"
    for file in ${gin_files[@]+"${gin_files[@]}"}; do
        [ -f "${file#*=}" ] || die "there is no gin file ${file#*=} in the checkout"
    done
    [ -n "$runtime" ] || runtime=$(runtime_of "$type")
}

# Sets project and zone, or says how to.
find_place() {
    if command -v gcloud >/dev/null; then
        [ -n "$project" ] || project=$(configured project)
        [ -n "$zone" ] || zone=$(configured compute/zone)
    elif [ -z "$dry_run" ]; then
        die "gcloud is not installed: see https://cloud.google.com/sdk/docs/install"
    fi
    [ -n "$project" ] ||
        die "no project: give --project=ID, or: gcloud config set project ID"
    [ -n "$zone" ] ||
        die "no zone: give --zone=ZONE, or: gcloud config set compute/zone ZONE"
}

step() {
    if [ -n "$dry_run" ]; then
        echo "# $*" >&3
    else
        say "$*"
    fi
}

create() {
    local group=tpu-vm ready=READY state before=''
    local flags=("--accelerator-type=$type" "--version=$runtime")
    step "the VM $name: create it, unless it is there"
    state=$(usable_state tpu-vm)
    if [ "$state" = READY ]; then
        say "$name is there, and is reused"
        return
    fi
    if [ -n "$queued" ]; then
        group=queued-resources ready=ACTIVE
        flags=("--node-id=$name" "${flags[0]}" "--runtime-version=$runtime")
        state=$(usable_state $group)
    fi
    if [ "$state" = ABSENT ]; then
        ask $group create "$name" "${flags[@]}" \
            ${vm_flags[@]+"${vm_flags[@]}"}
        [ -n "$queued" ] && [ -z "$dry_run" ] || return 0 # else it is ready now
        state=$(state_of $group)
    fi
    while [ "$state" != $ready ]; do
        case $state in
        CREATING | STARTING | RESTARTING | REPAIRING | REIMAGING) ;;
        ACCEPTED | PROVISIONING | WAITING_FOR_RESOURCES) ;;
        *)
            die "$name is in state $state, and no TPU comes of that; delete it with" \
                "--steps=delete, then try again, perhaps with another zone or type"
            ;;
        esac
        [ "$state" = "$before" ] || say "$name is in state $state; waiting"
        before=$state
        sleep "$poll"
        state=$(state_of $group)
    done
}

# Prints the state, ABSENT after deleting what cannot be used any more.
usable_state() {
    local state
    state=$(state_of "$1") || exit
    case $state in PREEMPTED | TERMINATED | SUSPENDED | FAILED)
        say "$name is $state: it is deleted, and created anew"
        delete
        state=ABSENT
        ;;
    esac
    echo "$state"
}

on_workers() { # WORKERS COMMAND
    tpu tpu-vm ssh "$name" "--worker=$1" "--command=$2"
}

install() {
    local archive=$temporary/specdec_jax.tar.gz unpacked=specdec_jax
    step "install on all workers"
    act tar -czf "$archive" --exclude=./.git --exclude=./.venv --exclude=./data \
        --exclude=./records --exclude=./runs --exclude=__pycache__ .
    tpu tpu-vm scp "$archive" "$name:" --worker=all || broken "copying the checkout"
    on_workers all "mkdir -p $unpacked && tar -xzf specdec_jax.tar.gz -C $unpacked && \
bash $unpacked/scripts/tpu_worker.sh install" || broken installing
    if [ -f "$out" ]; then # the run goes on with them, unless the VM has more
        tpu tpu-vm scp "$out" "$name:specdec_jax.records.jsonl" --worker=0 ||
            broken "copying the records"
    fi
}

precompile() {
    local status=0
    step "precompile on all workers"
    attend all "$(program_command precompile --multihost "$precompile")" || status=$?
    [ $status -eq 0 ] || broken precompiling $status
}

# The command that starts a run of the program on a worker, or attaches to it.
program_command() { # RUN FLAGS...
    local args=("${temporary##*.}.$left.$1" "$program" "$out")
    args+=(${gin_files[@]+"${gin_files[@]}"} "${@:2}" ${program_args[@]+"${program_args[@]}"})
    echo "bash specdec_jax/scripts/tpu_worker.sh run $(quote "${args[@]}")"
}

run() {
    local status=0 workers=0 flags=()
    if [ "$program" = decode ]; then
        workers=all flags=(--multihost)
        step "run on all workers"
    else
        step "run on one worker"
    fi
    if [ -z "$dry_run" ]; then
        trap stop_fetching EXIT
        fetch_now_and_then >/dev/null 2>&1 &
        fetcher=$!
    fi
    attend $workers "$(program_command run ${flags[@]+"${flags[@]}"})" || status=$?
    stop_fetching
    if [ $status -ne 0 ]; then
        fetch || true
        broken running $status
    fi
}

# Waits for a run on the workers, over as many connections as it takes, and gives back its
# exit status, which is 100 less than the one that tpu_worker.sh has.
attend() { # WORKERS COMMAND
    local status drops=0
    while true; do
        status=0
        on_workers "$1" "$2" || status=$?
        if [ $status -eq 0 ] || { [ $status -gt 100 ] && [ $status -lt 255 ]; }; then
            return $((status > 0 ? status - 100 : 0))
        fi
        ! is_gone || return $gone
        [ $((drops++)) -lt "$reconnects" ] || return $status
        say "the connection to $name broke (exit status $status): attaching again"
        sleep "$poll"
    done
}

# Whether the VM is known to be gone.
is_gone() {
    local state
    state=$(state_of tpu-vm 2>/dev/null) || return 1 # there may be no network here
    case $state in ABSENT | PREEMPTED | TERMINATED) ;; *) return 1 ;; esac
}

# A preempted VM takes its disk with it.
fetch_now_and_then() {
    trap 'kill $!; exit' TERM
    while kill -0 $$; do
        sleep "$fetch_every" &
        wait $!
        fetch || true
    done
}

stop_fetching() {
    [ -z "$fetcher" ] || { kill "$fetcher" && wait "$fetcher"; } 2>/dev/null || true
    fetcher=''
}

# Brings the records and what lies beside them; of two the longer is kept.
fetch() {
    local folder=$temporary/fetched file
    act mkdir -p "$folder" "$(dirname "$out")" || return 1
    tpu tpu-vm scp "$name:specdec_jax/${out%.jsonl}.*" "$folder" --worker=0 || return 1
    [ -z "$dry_run" ] || return 0
    for file in "$folder"/*; do
        if [ "${file##*/}" != "${out##*/}" ] || ! [ -f "$out" ] ||
            [ "$(wc -c <"$file")" -ge "$(wc -c <"$out")" ]; then
            mv "$file" "$(dirname "$out")/" || return 1
        fi
    done
}

delete() {
    local what=(tpu-vm delete "$name")
    [ -z "$queued" ] || what=(queued-resources delete "$name" --force)
    ask "${what[@]}" || say "there was no $name to delete"
}

# A step on the workers failed.
broken() { # STEP [STATUS]
    [ "${2:-}" != $gone ] || exit $gone
    is_gone || sleep "$poll" # a preemption takes a while to be told
    ! is_gone || exit $gone
    still_there
    (die "$1 failed on a worker${2:+ with exit status $2}: see above. The same command" \
        "goes on where it was.") || exit "${2:-1}"
}

still_there() {
    say "$name costs money until it is deleted: $(quote bash "$0" "--name=$name" \
        "--project=$project" "--zone=$zone" ${queued:+"$queued"} --steps=delete)"
}

work() {
    ! does create || create
    ! does install || install
    ! does precompile || precompile
    ! does run || run
}

main() {
    local left status
    read_flags "$@"
    check_flags
    find_place
    temporary=$(mktemp -d "${TMPDIR:-/tmp}/launch_tpu_vm.XXXXXX")
    trap 'rm -rf "$temporary"' EXIT
    for ((left = restarts; ; left--)); do
        set +e # or a failure in there would go on
        (set -e && work)
        status=$?
        set -e
        [ $status -eq $gone ] || break
        [ "$left" -gt 0 ] ||
            die "$name was preempted, or is gone. The records so far are in $out, and the" \
                "same command creates it anew and goes on; --restarts=N does so by itself."
        say "$name was preempted, or is gone; $left restarts are left"
    done
    [ $status -eq 0 ] || exit $status
    if does fetch; then
        step "fetch the records"
        fetch || die "the records could not be fetched and are still on $name: try again" \
            "with --steps=fetch"
    fi
    if does delete; then
        step "delete the VM"
        delete
    elif [ -z "$dry_run" ]; then
        still_there
    fi
}

main "$@"
