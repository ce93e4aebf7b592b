"""The launcher in a folder of its own, and a gcloud that writes down what is asked."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
GIN = "configs/runs/tsv.gin"
PLACE = ("--project=my-project", "--zone=us-central2-b")
# Acts by a plan, a list of [words in it, exit code, stdout, stderr, seconds]: the
# first that fits is taken out and done. A fetch finds `remote.*`. If there is a folder
# `vm`, commands are done in it; the connection breaks if there is a file `drop`, when
# the program has begun.
GCLOUD = f"""#!{sys.executable}
import json, os, pathlib, shutil, signal, subprocess, sys, time
folder = pathlib.Path(__file__).parent
args = sys.argv[1:]
with open(folder / "log", "a") as log:
    log.write(json.dumps(args) + "\\n")
plan = json.loads((folder / "plan").read_text())
for i, (words, code, out, err, *seconds) in enumerate(plan):
    if all(any(word in arg for arg in args) for word in words):
        del plan[i]
        (folder / "plan").write_text(json.dumps(plan))
        time.sleep(sum(seconds))
        print(out, end="")
        print(err, end="", file=sys.stderr)
        if code:
            sys.exit(code)
        break
if "ssh" in args and (vm := folder / "vm").exists():
    (command,) = [arg[10:] for arg in args if arg.startswith("--command=")]
    bash = subprocess.Popen(["bash", "-c", command], cwd=vm, start_new_session=True)
    if (folder / "drop").exists():
        (folder / "drop").unlink()
        while not (vm / "begun").exists():
            time.sleep(0.1)
        os.killpg(bash.pid, signal.SIGKILL)
        sys.exit(255)
    sys.exit(bash.wait())
if "scp" in args and "*" in (source := args[args.index("scp") + 1]):
    name = source.rsplit("/", 1)[-1].removesuffix(".*")
    for file in folder.glob("remote.*"):
        suffix = file.name.removeprefix("remote")
        target = pathlib.Path(args[args.index("scp") + 2])
        shutil.copy(file, target / (name + suffix))
"""
ABSENT = [["describe"], 1, "", "ERROR: NOT_FOUND: Resource 'x' was not found"]


def state(name, group="tpu-vm"):
    return [[group, "describe"], 0, f"{name}\n", ""]


class Launcher:
    """The launcher in a copy of what it needs of the checkout."""

    def __init__(self, folder: Path):
        self.root, self.bin = folder / "checkout", folder / "bin"
        shutil.copytree(ROOT / "scripts", self.root / "scripts")
        (self.root / GIN).parent.mkdir(parents=True)
        shutil.copy(ROOT / GIN, self.root / GIN)
        self.bin.mkdir()
        self.gcloud = self.bin / "gcloud"
        self.gcloud.write_text(GCLOUD)
        self.gcloud.chmod(0o755)
        self.plan()

    def plan(self, *steps):
        (self.bin / "plan").write_text(json.dumps(steps))
        (self.bin / "log").write_text("")

    def remote(self, text: str, suffix=".jsonl"):
        (self.bin / f"remote{suffix}").write_text(text)

    def __call__(self, *args, place=PLACE, path=None):
        program = ["bash", "scripts/launch_tpu_vm.sh", "--poll=0", *place, *args]
        path = f"{self.bin}:{os.environ['PATH']}" if path is None else path
        env = {"PATH": path, "HOME": str(self.root)}
        return subprocess.run(
            program, cwd=self.root, env=env, capture_output=True, text=True, timeout=120
        )

    def asked(self) -> list[list[str]]:
        """What gcloud was asked, without its place."""
        lines = (self.bin / "log").read_text().splitlines()
        places = {*PLACE, "--quiet", "compute", "tpus"}
        return [[a for a in json.loads(line) if a not in places] for line in lines]

    def verbs(self) -> list[str]:
        """What gcloud was asked, in short."""
        short = {"tpu-vm": "", "queued-resources": "queue "}
        return [short[args[0]] + args[1] for args in self.asked()]

    def commands(self) -> list[str]:
        """What the workers were told to do."""
        return [a[10:] for args in self.asked() for a in args if a[:10] == "--command="]
