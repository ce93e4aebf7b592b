"""The launcher against a gcloud that only writes down what it is asked."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.scripts.launcher import ABSENT, GIN, PLACE, ROOT, Launcher, state


@pytest.fixture
def launch(tmp_path):
    return Launcher(tmp_path)


RUN = (f"--gin_file={GIN}", "--name=vm", "--out=records/vm.jsonl")


def test_a_dry_run_prints_every_command_and_does_none(launch):
    done = launch(*RUN, "--spot", "--delete", "--dry_run", "--", "--gin.PREFIX=it's a")
    assert done.returncode == 0, done.stderr
    assert launch.asked() == []
    assert not (launch.root / "records").exists()
    place = "--project=my-project --zone=us-central2-b --quiet"
    tpu = "gcloud compute tpus tpu-vm"
    temporary = done.stdout.split("tar -czf ")[1].split("/specdec_jax.tar.gz")[0]
    run_id = temporary.rpartition(".")[2] + ".0.run"
    assert not Path(temporary).exists()
    assert done.stdout.replace(temporary, "TMP").splitlines() == [
        "# the VM vm: create it, unless it is there",
        f"{tpu} describe vm '--format=value(state)' {place}",
        f"{tpu} create vm --accelerator-type=v4-8 --version=tpu-ubuntu2204-base "
        f"--spot {place}",
        "# install on all workers",
        "tar -czf TMP/specdec_jax.tar.gz --exclude=./.git --exclude=./.venv "
        "--exclude=./data --exclude=./records --exclude=./runs --exclude=__pycache__ .",
        f"{tpu} scp TMP/specdec_jax.tar.gz vm: --worker=all {place}",
        f"{tpu} ssh vm --worker=all '--command=mkdir -p specdec_jax && tar -xzf "
        "specdec_jax.tar.gz -C specdec_jax && "
        f"bash specdec_jax/scripts/tpu_worker.sh install' {place}",
        "# run on all workers",
        f"{tpu} ssh vm --worker=all '--command=bash specdec_jax/scripts/tpu_worker.sh "
        f"run {run_id} decode records/vm.jsonl --gin_file={GIN} --multihost "
        rf"'\''--gin.PREFIX=it'\''\'\'''\''s a'\''' {place}",
        "# fetch the records",
        "mkdir -p TMP/fetched records",
        f"{tpu} scp 'vm:specdec_jax/records/vm.*' TMP/fetched --worker=0 {place}",
        "# delete the VM",
        f"{tpu} delete vm {place}",
    ]


def test_a_dry_run_of_queued_resources(launch):
    flags = ("--name=vm", "--queued", "--type=v5litepod-16", "--spot", "--dry_run")
    done = launch(*flags, "--steps=create,delete", path="/usr/bin:/bin")
    assert done.returncode == 0, done.stderr
    queue = "gcloud compute tpus queued-resources"
    place = "--project=my-project --zone=us-central2-b --quiet"
    assert done.stdout.splitlines()[2:] == [
        f"{queue} describe vm '--format=value(state.state)' {place}",
        f"{queue} create vm --node-id=vm --accelerator-type=v5litepod-16 "
        f"--runtime-version=v2-alpha-tpuv5-lite --spot {place}",
        "# delete the VM",
        f"{queue} delete vm --force {place}",
    ]


PRIVATE = ("--reserved", "--internal-ips", "--network=n", "--subnetwork=s")


@pytest.mark.parametrize(("queued", "group"), [((), 0), (("--queued",), 1)])
def test_a_private_network_is_that_of_the_vm_and_of_its_connections(
    launch, queued, group
):
    launch.plan(ABSENT, *[ABSENT] * group, state("ACTIVE", "queued-resources"))
    launch.remote("{}\n")
    done = launch(*RUN, *PRIVATE, *queued, "--tunnel-through-iap")
    assert done.returncode == 0, done.stderr
    (created,) = [args for args in launch.asked() if "create" in args]
    assert created[0] == ("tpu-vm", "queued-resources")[group]
    assert tuple(created[-4:]) == PRIVATE
    for args in launch.asked():
        connects = "ssh" in args or "scp" in args
        assert ("--tunnel-through-iap" in args) == connects
        assert (args[0] == "alpha") == connects  # no other track has the tunnel


def test_a_dry_run_prints_what_a_run_does(launch):
    dry = launch(*RUN, "--delete", "--dry_run", "--", "--gin.X='a  b'")
    launch.plan(ABSENT)
    launch.remote("{}\n")
    done = launch(*RUN, "--delete", "--", "--gin.X='a  b'")
    assert done.returncode == 0, done.stderr
    printed = [
        subprocess.run(
            ["bash", "-c", f"printf '%s\\0' {line}"], capture_output=True, text=True
        ).stdout.split("\0")[:-1]
        for line in dry.stdout.splitlines()
        if line.startswith("gcloud ")
    ]
    done = [["gcloud", "compute", "tpus", *args] for args in launch.asked()]

    def plain(args):  # without places and temporary folders
        args = [arg for arg in args if arg not in (*PLACE, "--quiet")]
        args = [re.sub(r"(?<= run )\S+", "ID", arg) for arg in args]
        return ["TMP" if "launch_tpu_vm." in arg else arg for arg in args]

    assert [plain(args) for args in printed] == [plain(args) for args in done]


def test_a_new_vm_is_made_installed_run_fetched_and_left_with_a_word(launch):
    launch.plan(ABSENT)
    launch.remote('{"index": 0}\n')
    launch.remote("x = 1\n", ".gin")
    done = launch(*RUN)
    assert done.returncode == 0, done.stderr
    assert launch.verbs() == ["describe", "create", "scp", "ssh", "ssh", "scp"]
    records = launch.root / "records"
    assert (records / "vm.jsonl").read_text() == '{"index": 0}\n'
    assert (records / "vm.gin").read_text() == "x = 1\n"
    assert "vm costs money until it is deleted: bash scripts/launch" in done.stderr
    assert "--steps=delete" in done.stderr


def test_a_vm_that_is_there_is_reused_and_deleted_if_asked(launch):
    launch.plan(state("READY"))
    launch.remote("{}\n")
    done = launch(*RUN, "--delete")
    assert done.returncode == 0, done.stderr
    assert "reused" in done.stderr and "costs money" not in done.stderr
    assert launch.verbs() == ["describe", "scp", "ssh", "ssh", "scp", "delete"]


def test_a_vm_that_is_being_made_is_waited_for(launch):
    launch.plan(state("CREATING"), state("CREATING"), state("READY"))
    done = launch("--name=vm", "--steps=create")
    assert done.returncode == 0, done.stderr
    assert launch.verbs() == ["describe"] * 3
    assert done.stderr.count("vm is in state CREATING; waiting") == 1


def test_a_queued_resource_is_asked_for_and_waited_for(launch):
    queue = "queued-resources"
    states = ["ACCEPTED", "WAITING_FOR_RESOURCES", "PROVISIONING", "ACTIVE"]
    launch.plan(ABSENT, ABSENT, *[state(name, queue) for name in states])
    done = launch("--name=vm", "--steps=create", "--queued")
    assert done.returncode == 0, done.stderr
    assert launch.verbs() == [
        "describe",
        "queue describe",
        "queue create",
        *["queue describe"] * 4,
    ]


def test_a_suspended_queued_resource_is_deleted_and_asked_for_anew(launch):
    queue = "queued-resources"
    launch.plan(ABSENT, state("SUSPENDED", queue), state("ACTIVE", queue))
    done = launch("--name=vm", "--steps=create", "--queued")
    assert done.returncode == 0, done.stderr
    assert launch.verbs()[2:4] == ["queue delete", "queue create"]


def test_a_queued_resource_that_fails_is_told(launch):
    queue = "queued-resources"
    launch.plan(ABSENT, ABSENT, state("ACCEPTED", queue), state("FAILED", queue))
    done = launch(*RUN, "--queued")
    assert done.returncode == 1
    assert "error: vm is in state FAILED" in done.stderr
    assert "another zone or type" in done.stderr


SAYINGS = [
    (
        "Quota limit 'TPUV4PodPerProjectPerZoneForTPUAPI' has been exceeded. Limit: 0",
        "error: the quota of my-project does not allow a TPU of type v4-8",
    ),
    (
        'RESOURCE_EXHAUSTED: There is no more capacity in the zone "us-central2-b"',
        "error: no TPU of type v4-8 in us-central2-b is free now: try another zone",
    ),
    (
        "Cloud TPU API has not been used in project 1 before or it is disabled.",
        "error: the TPU API is off: gcloud services enable tpu.googleapis.com",
    ),
    (
        "You do not currently have an active account selected.",
        "error: gcloud is not logged in: gcloud auth login",
    ),
    (
        "PERMISSION_DENIED: Permission 'tpu.nodes.create' denied",
        "error: your account may not do this in my-project",
    ),
    (
        "INVALID_ARGUMENT: Reservation accelerator type v4-8 not found",
        "error: us-central2-b has no such TPU (v4-8, runtime tpu-ubuntu2204-base)",
    ),
    ("Something else", "error: gcloud failed: see its words above"),
]


@pytest.mark.parametrize(("saying", "words"), SAYINGS)
def test_what_keeps_a_vm_from_being_made_is_told_in_clear_words(launch, saying, words):
    launch.plan(ABSENT, [["create"], 1, "", f"ERROR: (gcloud) {saying}\n"])
    done = launch(*RUN)
    assert done.returncode == 1
    assert saying in done.stderr  # gcloud's own words stay
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1 and errors[0].startswith(words)
    assert launch.verbs() == ["describe", "create"]


def test_an_error_of_looking_is_not_taken_for_absence(launch):
    launch.plan([["describe"], 1, "", "ERROR: PERMISSION_DENIED\n"])
    done = launch(*RUN)
    assert done.returncode == 1
    assert "error: your account may not do this in my-project" in done.stderr
    assert launch.verbs() == ["describe"]


def test_a_preempted_run_says_so_and_the_same_command_goes_on(launch):
    lost = [["run"], 255, "", ""]
    launch.plan(state("READY"), lost, state("PREEMPTED"))
    launch.remote("1\n2\n")
    done = launch(*RUN)
    assert done.returncode == 1
    assert (
        "error: vm was preempted, or is gone. The records so far are in records/vm."
        in (done.stderr)
    )
    records = launch.root / "records" / "vm.jsonl"
    assert records.read_text() == "1\n2\n"

    launch.plan(state("PREEMPTED"))
    launch.remote("1\n2\n3\n")
    done = launch(*RUN)
    assert done.returncode == 0, done.stderr
    assert launch.verbs() == [
        "describe",
        "delete",
        "create",
        *["scp", "ssh"] * 2,
        "scp",
    ]
    sent = launch.asked()[5]
    assert sent == ["tpu-vm", "scp", "records/vm.jsonl", *sent[3:]]
    assert sent[3:] == ["vm:specdec_jax.records.jsonl", "--worker=0"]
    assert records.read_text() == "1\n2\n3\n"


def test_restarts_make_a_preempted_vm_anew_so_often(launch):
    lost = [["run"], 255, "", ""]
    gone = [lost, ABSENT, ABSENT]
    launch.plan(state("READY"), *gone, *gone)
    launch.remote("1\n")
    done = launch(*RUN, "--restarts=2")
    assert done.returncode == 0, done.stderr
    assert launch.verbs().count("create") == 2
    assert "1 restarts are left" in done.stderr
    launch.plan(state("READY"), *gone, *gone)
    done = launch(*RUN, "--restarts=1")
    assert done.returncode == 1
    assert "error: vm was preempted, or is gone" in done.stderr


@pytest.mark.parametrize(
    ("failing", "words", "verbs"),
    [
        (["scp", "--worker=all"], "copying the checkout failed", ["scp"]),
        (["install"], "installing failed on a worker", ["scp", "ssh"]),
        (["run"], "running failed on a worker", ["scp", "ssh", "ssh", "scp"]),
    ],
)
def test_a_failure_on_a_worker_stops_and_leaves_the_vm(launch, failing, words, verbs):
    launch.plan(
        state("READY"), [failing, 101, "", "no\n"], state("READY"), state("READY")
    )
    done = launch(*RUN, "--delete", "--restarts=3")
    assert done.returncode == 1
    assert f"error: {words}" in done.stderr and "vm costs money" in done.stderr
    assert launch.verbs() == ["describe", *verbs, "describe", "describe"]


def test_a_preemption_that_is_told_late_is_one(launch):
    lost = [["run"], 255, "", ""]
    launch.plan(state("READY"), lost, state("READY"), lost, state("PREEMPTED"))
    done = launch(*RUN)
    assert "error: vm was preempted, or is gone" in done.stderr


@pytest.mark.parametrize("status", [0, 7])
def test_a_run_goes_on_when_its_connection_breaks(launch, status):
    vm = launch.bin / "vm"
    shutil.copytree(ROOT / "scripts", vm / "specdec_jax" / "scripts")
    python = vm / "specdec_jax" / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(
        f"#!/bin/bash\necho begins >>{vm}/begun\necho begins\nsleep 3\n"
        f"echo ends\nexit {status}\n"
    )
    python.chmod(0o755)
    (launch.bin / "drop").touch()
    launch.remote("1\n")
    launch.plan([["describe"], 1, "", "no network\n"])
    done = launch(*RUN, "--steps=run,fetch")
    assert done.returncode == status, done.stderr
    assert (vm / "begun").read_text() == "begins\n"  # once
    assert "attaching again" in done.stderr and "ends" in done.stdout
    assert ("error: running failed on a worker with exit status 7" in done.stderr) == (
        status == 7
    )
    first, second = launch.commands()
    assert first == second
    assert (launch.root / "records" / "vm.jsonl").read_text() == "1\n"


def test_reconnects_are_so_many(launch):
    launch.plan(*[[["run"], 255, "", ""], state("READY")] * 3, state("READY"))
    done = launch(*RUN, "--steps=run", "--reconnects=2")
    assert done.returncode == 255
    assert len(launch.commands()) == 3


def test_records_are_fetched_while_it_runs(launch):
    launch.remote("1\n")
    launch.plan([["run"], 0, "", "", 4])
    done = launch(*RUN, "--steps=run", "--fetch_every=1")
    assert done.returncode == 0, done.stderr
    assert launch.verbs()[0] == "ssh" and "scp" in launch.verbs()
    assert (launch.root / "records" / "vm.jsonl").read_text() == "1\n"


def test_of_two_records_the_longer_are_kept(launch):
    records = launch.root / "records" / "vm.jsonl"
    records.parent.mkdir()
    records.write_text("1\n2\n")
    launch.remote("1\n")
    assert launch(*RUN, "--steps=fetch").returncode == 0
    assert records.read_text() == "1\n2\n"
    launch.remote("1\n2\n3\n")
    assert launch(*RUN, "--steps=fetch").returncode == 0
    assert records.read_text() == "1\n2\n3\n"


def test_nothing_is_deleted_before_its_records_are_here(launch):
    launch.plan(state("READY"), [["vm:specdec_jax/records/vm.*"], 1, "", ""])
    done = launch(*RUN, "--delete")
    assert done.returncode == 1
    assert "error: the records could not be fetched and are still on vm" in done.stderr
    assert "delete" not in launch.verbs()


def test_arguments_reach_the_program_as_they_were_given(launch):
    launch.plan(state("READY"))
    launch.remote("{}\n")
    odd = ["--gin.A=a  b", "--gin.B='c'", '--gin.C="$HOME"', "--gin.D=ü*;x", ""]
    assert launch(*RUN, "--steps=run", "--", *odd).returncode == 0
    (command,) = launch.commands()
    shown = subprocess.run(
        ["bash", "-c", f"bash() {{ printf '%s\\0' \"$@\"; }}; {command}"],
        capture_output=True,
        text=True,
    ).stdout.split("\0")[:-1]
    assert shown[-5:] == odd
    assert "--multihost" in shown


def test_a_benchmark_runs_on_one_worker(launch):
    launch.remote("{}\n")
    assert launch(*RUN, "--program=benchmark", "--steps=run").returncode == 0
    (command,) = launch.commands()
    assert " benchmark records/vm.jsonl" in command and "--multihost" not in command
    assert "--worker=0" in launch.asked()[0]


def test_precompiling_is_a_run_before_the_run(launch):
    launch.plan(state("READY"))
    launch.remote("{}\n")
    done = launch(*RUN, "--precompile=64", "--", "--gin.GAMMA=3")
    assert done.returncode == 0, done.stderr
    _, first, second = map(str.split, launch.commands())
    assert first.count("--precompile=64") == 1
    first.remove("--precompile=64")
    assert first.pop(3) != second.pop(3)  # the run's ID
    assert first == second and second[-1] == "--gin.GAMMA=3"


def test_what_cannot_be_precompiled_is_not_run(launch):
    launch.plan([["--precompile=8"], 101, "", "no\n"])
    done = launch(*RUN, "--precompile=8", "--steps=precompile,run")
    assert done.returncode == 1
    assert "error: precompiling failed on a worker with exit status 1" in done.stderr
    assert len(launch.commands()) == 1


@pytest.mark.parametrize(
    ("args", "place", "words"),
    [
        (RUN, ("--zone=z",), "no project: give --project=ID, or: gcloud config set"),
        (RUN, ("--project=p",), "no zone: give --zone=ZONE, or: gcloud config set"),
        ((), PLACE, "there is nothing to run: give --gin_file"),
        (("--gin_file=nowhere.gin",), PLACE, "there is no gin file nowhere.gin"),
        ((*RUN, "--type=v9-8"), PLACE, "unknown type v9-8: give --runtime"),
        ((*RUN, "--steps=creat"), PLACE, "unknown step creat"),
        ((*RUN, "--out=/tmp/a.jsonl"), PLACE, "--out must be inside the checkout"),
        ((*RUN, "--out=a.txt"), PLACE, "--out must end in .jsonl"),
        ((*RUN, "--spot", "--reserved"), PLACE, "--spot and --reserved exclude"),
        ((*RUN, "--precompile=x"), PLACE, "--precompile must be an integer"),
        ((*RUN, "--steps=precompile"), PLACE, "--precompile must be an integer"),
        (
            (*RUN, "--precompile=8", "--program=benchmark"),
            PLACE,
            "--precompile is of --program=decode",
        ),
        ((*RUN, "--program=train"), PLACE, "--program must be decode or benchmark"),
        (
            (*RUN, "--restarts=x"),
            PLACE,
            "--reconnects, --restarts and --fetch_every must be integers",
        ),
        ((*RUN, "--nonsense"), PLACE, "unknown flag --nonsense"),
    ],
)
def test_bad_flags_are_one_clear_line(launch, args, place, words):
    done = launch(*args, place=place)
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: {words}")
    assert len(done.stderr.splitlines()) == 1
    assert all("config" in args for args in launch.asked())


def test_project_and_zone_are_those_of_gcloud(launch):
    launch.plan(
        [["config", "project"], 0, "theirs\n", ""], [["zone"], 0, "there\n", ""]
    )
    done = launch(*RUN, "--dry_run", place=())
    assert done.returncode == 0, done.stderr
    assert "--project=theirs --zone=there" in done.stdout


def test_without_gcloud_it_says_where_to_get_it(launch):
    launch.gcloud.unlink()
    done = launch(*RUN, path=f"{launch.bin}:{plain_path(launch)}")
    assert done.returncode == 1
    assert done.stderr.startswith("error: gcloud is not installed: see https://cloud.")


def plain_path(launch) -> Path:
    """A folder with the few programs that the launcher needs, and no gcloud."""
    folder = launch.root / "few"
    folder.mkdir()
    for name in ("bash", "dirname", "sed", "mktemp", "rm", "mkdir", "cat", "grep"):
        (folder / name).symlink_to(shutil.which(name))
    return folder


def test_help_is_the_head_of_the_file(launch):
    done = launch("--help")
    assert done.returncode == 0
    assert done.stdout.startswith("Runs a gin file on a Cloud TPU VM")
    assert "--dry_run" in done.stdout and "set -euo" not in done.stdout
