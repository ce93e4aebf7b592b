import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def test_shell_scripts_are_clean():
    checker = Path(sys.executable).parent / "shellcheck"
    scripts = sorted((ROOT / "scripts").glob("*.sh"))
    done = subprocess.run(
        [checker, "-x", *scripts], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout
