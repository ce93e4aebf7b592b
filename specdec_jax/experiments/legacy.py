"""Records as they were written before they had a kind: told by their keys, renamed.

    python -m specdec_jax.experiments.legacy FILES

rewrites files of such records in today's form. Readers read both.
"""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from specdec_jax.errors import DataError
from specdec_jax.experiments.commands import REPRODUCE
from specdec_jax.experiments.kinds import KINDS
from specdec_jax.runtime.json_lines import parse_object
from specdec_jax.runtime.records import Record
from specdec_jax.typing import Any

# The first kind whose keys an object has all is its kind.
KEYS = {
    "alpha": (
        *("pair", "drafter", "temperature", "top_k", "top_p", "lenience"),
        *("alpha", "alpha_interval", "tokens"),
    ),
    "alpha_output": ("pair", "temperature", "output", "text", "rates", "stands"),
    "roofline": ("run", "topology", "chips", "c", "v", "predicted_speedup"),
    "benchmark": (
        *("pair", "temperature", "gamma", "alpha", "c", "verify_cost"),
        *("predicted_speedup", "speedup"),
    ),
    "trace": ("pair", "text", "gamma", "temperature", "seed", "output", "lines"),
    "scores": ("pair", "settings", "scores", "rows"),
    "peer": ("pair", "peer", "temperature", "config", "tokens_per_second"),
    "absent_peer": ("pair", "peer", "temperature", "config", "absent"),
    "decoded_row": ("pair", "index", "input", "reference", "output", "task"),
    "decoded_text": ("pair", "index", "input", "output", "method", "settings"),
}
# Rejection sampling's rate was a record beside alpha's, without what alpha's says.
REJECTION = ("pair", "drafter", "temperature", "alpha", "rejection_alpha")
UNFILTERED = {"top_k": 0, "top_p": 1.0, "lenience": 1.0}
WHAT = {
    "program": "aot_program",
    "step": "aot_step",
    "walltime": "aot_walltime",
    "table 2": "roofline",
}
RENAMED = {
    "alpha_counted": "acceptance_rate",
    "tokens_per_target_run": "tokens_per_target_call",
    "tokens_per_run": "tokens_per_target_call",
    "tokens_per_run_iid": "tokens_per_target_call_iid",
    "tokens_per_call": "tokens_per_target_call",
    "guesses_per_target_run": "drafted_per_target_call",
    "beta_tokens_per_target_run": "beta_tokens_per_target_call",
    "verify_cost": "v",
    "verify_cost_spread": "v_spread",
    "alpha_of_all_tokens": "mean_beta",
    "sentences": "inputs",
    "sentences_sha256": "inputs_sha256",
}
RENAMED_OF = {
    "alpha": {"guessed": "drafted_share"},
    "alpha_output": {
        "guessed": "drafted",
        "rates": "betas",
        "stands": "accept_probs",
        "output": "output_index",
        "text": "input_index",
    },
}
COPYING = ("pair", "drafter", "command")  # where the drafter had another name


def upgraded(values: dict[str, Any]) -> dict[str, Any]:
    """An object in today's form; unchanged if it has a kind or is no record."""
    if "kind" in values:
        return values
    kind = _kind_of(values)
    if kind is None:
        return values
    renamed = RENAMED | RENAMED_OF.get(kind, {})
    new = {"kind": kind} | {renamed.get(key, key): x for key, x in values.items()}
    if "rejection_alpha" in values:
        new = UNFILTERED | new
    if values.get("program") == "scripts/reproduce.py":
        new["command"] = values.get("command") or REPRODUCE
    for key in COPYING:
        if isinstance(new.get(key), str):
            new[key] = new[key].replace("copying", "prompt_lookup")
    return new


def _kind_of(values: dict[str, Any]) -> str | None:
    if "what" in values:
        return WHAT.get(values["what"])
    if all(key in values for key in REJECTION):
        return "alpha"
    for kind, keys in KEYS.items():
        if all(key in values for key in keys):
            return kind
    return None


def read_record(
    values: dict[str, Any], place: str, path: Path | None = None
) -> Record | None:
    """The record of an object in either form; None if it is none of `KINDS`.

    Args:
      values, place, path: as in `Record.from_json`.

    Raises:
      DataError: it is one, and a value is not what it can be.
    """
    values = upgraded(values)
    kind = values.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        return None
    return KINDS[kind].from_json(values, place, path)


def convert(path: Path) -> None:
    """Rewrites a file in today's form; what is no record in it stays as it is.

    The environment was a record of its own in reports ahead of time; it becomes part
    of each.

    Raises:
      DataError: it is not of JSON.
    """
    content = path.read_bytes()
    whole = path.name.endswith(".scores.json")
    lines = [content] if whole else content.splitlines()
    objects = [parse_object(line, f"{path}:{n}") for n, line in enumerate(lines, 1)]
    made_with = {}
    for values in objects:
        if values.get("what") == "environment":
            made_with = {key: x for key, x in values.items() if key != "what"}
    kept = [values for values in objects if values.get("what") != "environment"]
    converted = []
    for number, values in enumerate(kept, 1):
        record = read_record(values | made_with, f"{path}:{number}")
        converted.append(values if record is None else record.to_json())
    indent = 1 if whole else None
    partial = path.with_name(path.name + ".partial")
    partial.write_text(
        "".join(
            json.dumps(values, ensure_ascii=False, indent=indent) + "\n"
            for values in converted
        ),
        "utf-8",
    )
    os.replace(partial, path)


def main(files: Sequence[str]) -> None:
    """Converts files in place."""
    for file in files:
        try:
            convert(Path(file))
        except (DataError, OSError) as error:
            sys.exit(f"{file}: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
