#!/usr/bin/env bash
# What launch_tpu_vm.sh asks of gcloud, and what gcloud's errors mean. Sourced by it; uses
# its settings name, type, project, zone, runtime, dry_run and its folder temporary.
# shellcheck disable=SC2154

say() { echo "launch_tpu_vm: $*" >&2; }

die() {
    echo "error: $*" >&2
    exit 1
}

# Its arguments as a shell reads them.
quote() {
    local arg space=''
    for arg in "$@"; do
        case $arg in
        '' | *[!A-Za-z0-9_=:,./%+@-]*)
            arg="'$(printf %s "$arg" | sed "s/'/'\\\\''/g")'"
            ;;
        esac
        printf '%s%s' "$space" "$arg"
        space=' '
    done
}

# Does it; a dry run prints it, to 3, which is never captured.
act() {
    if [ -n "$dry_run" ]; then
        printf '%s\n' "$(quote "$@")" >&3
    else
        "$@"
    fi
}

tpu() { # GROUP COMMAND NAME FLAGS...
    local track=() through=()
    case $2 in ssh | scp)
        # Only the alpha track has the tunnel.
        [ -z "$tunnel" ] || track=(alpha) through=("$tunnel")
        ;;
    esac
    act gcloud ${track[@]+"${track[@]}"} compute tpus "$@" \
        ${through[@]+"${through[@]}"} "--project=$project" "--zone=$zone" --quiet
}

# The same for what creates, describes and deletes. An error ends all, in clear words; but
# 4 is that there is no such thing to describe or to delete.
ask() {
    tpu "$@" 2>"$temporary/said" && return
    case $2 in describe | delete)
        ! grep -qiE 'NOT_FOUND|not found' "$temporary/said" || return 4
        ;;
    esac
    cat "$temporary/said" >&2
    explain
}

explain() {
    local where="of type $type in $zone" pattern advice
    while read -r pattern && read -r advice; do
        ! grep -qiE "$pattern" "$temporary/said" || die "$advice"
    done <<EOF
no more capacity|insufficient|not enough resources|stockout|pool_exhausted
no TPU $where is free now: try another zone, or wait for one with --queued
quota|RESOURCE_EXHAUSTED
the quota of $project does not allow a TPU $where: ask for more at https://console.cloud.google.com/iam-admin/quotas?project=$project, or try another zone or type; --spot has a quota of its own
has not been used|SERVICE_DISABLED|API .*not enabled
the TPU API is off: gcloud services enable tpu.googleapis.com --project=$project
active account|auth login|reauth|credentials
gcloud is not logged in: gcloud auth login
PERMISSION_DENIED|permission|forbidden
your account may not do this in $project: it needs the role TPU Admin
INVALID_ARGUMENT|accelerator
$zone has no such TPU ($type, runtime $runtime): see gcloud compute tpus accelerator-types list --zone=$zone --project=$project
.
gcloud failed: see its words above
EOF
    die "gcloud failed"
}

# Prints the state of a VM or of a queued resource; ABSENT if there is none, and in a dry
# run.
state_of() { # tpu-vm | queued-resources
    local status=0 key=state
    [ "$1" = tpu-vm ] || key=state.state
    ask "$1" describe "$name" "--format=value($key)" || status=$?
    if [ $status -eq 4 ] || [ -n "$dry_run" ]; then
        echo ABSENT
    fi
}

# Prints a setting of gcloud's own; nothing if there is none.
configured() {
    local value
    value=$(gcloud config get-value "$1" 2>/dev/null) || value=''
    [ "$value" = '(unset)' ] || printf %s "$value"
}

runtime_of() { # TYPE
    case $1 in
    v2-* | v3-* | v4-*) echo tpu-ubuntu2204-base ;;
    v5litepod-*) echo v2-alpha-tpuv5-lite ;;
    v5p-*) echo v2-alpha-tpuv5 ;;
    v6e-*) echo v2-alpha-tpuv6e ;;
    *) die "unknown type $1: give --runtime=VERSION (gcloud compute tpus tpu-vm versions list)" ;;
    esac
}
