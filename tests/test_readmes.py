"""Every Python block of every README runs, every command is one, every link leads.

The commands in the headers of gin files are held to the same.
"""

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from specdec_jax.checkpoints import formats

ROOT = Path(__file__).parent.parent
READMES = sorted(
    path
    for path in [ROOT / "README.md", *ROOT.glob("[a-z]*/**/README.md")]
    if ".venv" not in path.parts and "runs" not in path.parts
)
SETUP = (ROOT / "setup.py").read_text("utf-8")
each_readme = pytest.mark.parametrize(
    "readme", READMES, ids=lambda path: str(path.relative_to(ROOT))
)


def blocks(readme: Path, language: str) -> list[str]:
    text = readme.read_text("utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def header_commands(gin_file: Path) -> list[str]:
    """The command lines in the header of a gin file, whole ones only."""
    header = gin_file.read_text("utf-8").split("\n\n")[0].replace("\n#", "\n")
    return re.findall(r"python scripts/(?:[^\n\\]|\\\n)+", header)


def commands(file: Path) -> list[list[str]]:
    """The commands of a README's shell blocks, or of a gin file's header, as words.

    What a shell script hands on to a program is a command of that program too.
    """
    found = []
    is_gin = file.suffix == ".gin"
    for block in header_commands(file) if is_gin else blocks(file, "bash"):
        for line in block.replace("\\\n", " ").splitlines():
            for part in re.split(r"&&|(?<!\S)\|(?!\S)", line):
                words = shlex.split(part, comments=True)
                found += [words] if words else []
    return found + [words for one in found for words in handed_on(one)]


def handed_on(words: list[str]) -> list[list[str]]:
    """The command of the program that a shell script runs, if it is told of one."""
    if words[:2] == ["bash", "scripts/demo.sh"] and words[2:]:
        return [["python", "scripts/decode.py", *words[2:]]]
    if words[:2] == ["bash", "scripts/launch_tpu_vm.sh"] and "--" in words:
        at = words.index("--")
        kept = [w for w in words[2:at] if w.startswith(("--gin_file=", "--out="))]
        return [["python", "scripts/decode.py", *kept, *words[at + 1 :]]]
    return []


def faults_of(script: str, given: Sequence[Sequence[str]]) -> list[str]:
    """What is wrong with arguments of a script, a line for each that is."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.readme_commands", script],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


GIVEN: dict[str, list[list[str]]] = {}  # the arguments of each script, everywhere
for file in [*READMES, *sorted(ROOT.glob("configs/**/*.gin"))]:
    for command in commands(file):
        if command[0] == "python" and command[1].startswith("scripts/"):
            GIVEN.setdefault(command[1], []).append(command[2:])


@pytest.mark.parametrize("script", GIVEN)
def test_commands_of_a_program_are_ones_that_it_takes(script):
    assert (ROOT / script).is_file()
    assert faults_of(script, GIVEN[script]) == []


def shell_fault(words: list[str]) -> str | None:
    """What is wrong with a command that is no `python scripts/...`; None if nothing."""
    match words:
        case ["python", name, *_]:
            good = name.startswith("scripts/") or (ROOT / name).is_file()
        case ["bash", "scripts/launch_tpu_vm.sh", *rest]:
            command = ["bash", "scripts/launch_tpu_vm.sh", "--dry_run", *rest]
            return launcher_fault(command)
        case ["bash", name, *_]:
            good = (ROOT / name).is_file()
        case ["pip", "install", "-e", what]:
            extras = re.fullmatch(r"\.(?:\[([a-z0-9_,]+)\])?", what)
            names = (extras and extras[1] or "").split(",") if extras else []
            good = extras and all(f'"{name}": ' in SETUP for name in names if name)
        case ["source", ".venv/bin/activate"] | ["rm", "-rf", "runs/notebook_report"]:
            good = True
        case ["jupyter", "lab", folder]:
            good = (ROOT / folder).is_dir()
        case _:
            good = False
    return None if good else f"no such command: {shlex.join(words)}"


def launcher_fault(command: list[str]) -> str | None:
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, timeout=120
    )
    return None if done.returncode == 0 else done.stderr


@each_readme
def test_other_commands_exist(readme):
    assert [f for words in commands(readme) if (f := shell_fault(words))] == []


@each_readme
def test_links_lead_to_files(readme):
    targets = re.findall(r"\]\(([^)#]+)[^)]*\)", readme.read_text("utf-8"))
    local = [target for target in targets if not re.match("https?://", target)]
    assert [name for name in local if not (readme.parent / name).exists()] == []


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory, pair_folder):
    """Where the READMEs' own checkpoints are, as tiny Hugging Face folders."""
    folder = tmp_path_factory.mktemp("readmes")
    for name, side in (("flan-t5-xl", "target"), ("flan-t5-small", "drafter")):
        destination = folder / "checkpoints" / name
        formats.convert(pair_folder / side, destination, "huggingface")
        shutil.copy(pair_folder / "spiece.model", destination)
    return folder


@pytest.mark.parametrize(
    "readme",
    [path for path in READMES if blocks(path, "python")],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_python_blocks_run_one_after_the_other(readme, checkpoints, monkeypatch):
    monkeypatch.chdir(checkpoints)
    names: dict = {}
    for block in blocks(readme, "python"):
        exec(compile(block, str(readme), "exec"), names)


def test_the_first_page_is_short_and_shows_python_early():
    text = (ROOT / "README.md").read_text("utf-8")
    assert len(text.split()) < 1300
    assert text.split("```python")[0].count("\n") < 40


def test_a_wrong_command_is_found():
    wrong = [
        ["python", "no_such_program.py"],
        ["bash", "scripts/no_such.sh"],
        ["bash", "scripts/launch_tpu_vm.sh", "--tpye=v4-8"],
        ["pip", "install", "-e", ".[no_such_extra]"],
        ["make", "all"],
    ]
    assert [words for words in wrong if not shell_fault(words)] == []
    given = [
        ["--out=x.jsonl", "--gin.GAMA=4"],
        ["--out=x.jsonl", "--gamma=4"],
        ["--out=x.jsonl", "--gin_file=configs/runs/none.gin"],
        ["--out=x.jsonl", "--gin.GAMMA=4"],
    ]
    found = faults_of("scripts/benchmark.py", given)
    assert len(found) == 3 and "did you mean" in found[0], found
    assert "gamma" in found[1] and "none.gin" in found[2]
    told = ["bash", "scripts/launch_tpu_vm.sh", "--gin_file=x", "--", "--gin.A=1"]
    assert handed_on(told) == [
        ["python", "scripts/decode.py", "--gin_file=x", "--gin.A=1"]
    ]
