"""What `--gin.NAME=VALUE` becomes."""

import gin
import pytest

from specdec_jax.cli import gin_bindings, program
from specdec_jax.cli.program import rewrite_gin_args
from specdec_jax.errors import SettingsError


@pytest.mark.parametrize(
    ("value", "bound"),
    [
        ("7", "7"),
        ("(1.0, 0.5)", "(1.0, 0.5)"),
        ("a folder/x", "'a folder/x'"),
        ("'quoted'", "'quoted'"),
        ("None", "None"),
        ("[1", "'[1'"),  # no value of gin's: a string like any other
        # References, whether or not gin knows the names yet.
        ("%GAMMA", "%GAMMA"),
        ("@gpt_tiny/drafter/GPTConfig()", "@gpt_tiny/drafter/GPTConfig()"),
        ("@anything/at_all", "@anything/at_all"),
    ],
)
def test_strings_come_without_quotes_and_references_stay_what_they_are(value, bound):
    assert rewrite_gin_args(["program", f"--gin.NAME={value}", "--out=x"]) == [
        "program",
        f"--gin_bindings=NAME = {bound}",
        "--out=x",
    ]


def test_a_binding_without_a_value_is_named():
    with pytest.raises(SettingsError, match="--gin.NAME: write --gin.NAME=VALUE"):
        rewrite_gin_args(["--gin.NAME"])


def test_the_gin_files_that_a_run_was_given_are_never_written(tmp_path, monkeypatch):
    """Neither one named as its records, nor the config.gin of a run before."""
    gin.clear_config()
    for name in ("my.gin", "my.operative.gin", "config.gin"):
        (tmp_path / name).write_text("# mine\n")
        chosen = type("Flags", (), {"gin_file": [str(tmp_path / name)]})
        monkeypatch.setattr(gin_bindings.flags, "FLAGS", chosen)
        gin_bindings.save_operative_config(tmp_path / "my.jsonl")
        gin_bindings.save_config(tmp_path)
        assert (tmp_path / name).read_text() == "# mine\n"


def test_a_program_that_is_interrupted_says_so_in_one_line(monkeypatch, capsys):
    def main(words):
        raise KeyboardInterrupt

    monkeypatch.setattr(
        program.app, "run", lambda checked, flags_parser: checked(["program"])
    )
    left = []
    monkeypatch.setattr(program.os, "_exit", left.append)
    program.run_program(main)
    assert left == [130]
    assert capsys.readouterr().err == "stopped; what is on record stays\n"
