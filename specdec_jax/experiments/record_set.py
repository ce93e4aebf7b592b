"""The records that the report is made from: which keys it reads, and where they are.

A record's kind is told by the keys that it has; it may have more. Files of anything
else may lie beside them. Nothing here writes.

  benchmark   scripts/benchmark.py      a pair's alpha, costs and speedup
  lenient     scripts/benchmark.py      the same with lenience: not the target's output
  alpha       scripts/measure_alpha.py  mean of sum_x min(p/l, q) on the target's text
  rejection   scripts/reproduce.py      alpha beside rejection sampling's (appendix A.2)
  roofline    scripts/compile_ahead.py  costs and speedup that a TPU's peaks give
  trace       scripts/reproduce.py      what became of each guess of one output
  peer        scripts/benchmark_peers.py  another library's speed beside ours
  absent_peer scripts/benchmark_peers.py  one that was not installed
  scores      scripts/decode.py         a task's scores, in a file `*.scores.json`
"""

import contextlib
import dataclasses
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from specdec_jax.errors import DataError
from specdec_jax.runtime.records import parse_record
from specdec_jax.typing import Any

# The first kind whose keys a record has all is its kind.
KEYS = {
    "rejection": ("pair", "drafter", "temperature", "alpha", "rejection_alpha"),
    "alpha": (
        *("pair", "drafter", "temperature", "top_k", "top_p", "lenience"),
        *("alpha", "alpha_interval", "tokens"),
    ),
    "roofline": ("run", "topology", "chips", "c", "v", "predicted_speedup"),
    "benchmark": (
        *("pair", "temperature", "gamma", "alpha", "c", "verify_cost"),
        *("predicted_speedup", "speedup"),
    ),
    "trace": (
        *("pair", "text", "gamma", "temperature", "seed", "output", "tokens"),
        "lines",
    ),
    "scores": ("pair", "settings", "scores", "rows"),
    "peer": (
        *("pair", "peer", "temperature", "config", "tokens_per_second"),
        *("over_baseline", "over_baseline_spread", "target_calls", "sentences"),
        *("tokens_per_target_call", "memory", "agreement"),
        *("peer_versions", "peer_settings"),
    ),
    "absent_peer": ("pair", "peer", "temperature", "config", "absent", "install"),
}
# What the report takes for granted of a value, by its key, in records of any kind.
VALUES = {
    "a rate from 0 to 1": (
        *("alpha", "rejection_alpha", "alpha_of_all_tokens", "guessed", "lenience"),
        "top_p",
    ),
    "a whole number from 0 on": (
        *("gamma", "best_gamma", "top_k", "tokens", "rows", "chips", "seed"),
        *("sentences", "target_calls"),
    ),
    "a number from 0 on": ("temperature", "c", "tokens_per_target_call"),
    "a number above 0": (
        *("v", "verify_cost", "predicted_speedup", "beta_predicted_speedup"),
        *("speedup", "tokens_per_second", "over_baseline"),
    ),
    "two numbers from 0 on": (
        *("alpha_interval", "rejection_interval", "speedup_spread"),
        *("over_baseline_spread", "fixed_costs"),
    ),
    "a text": ("pair", "drafter", "run", "topology", "peer", "text", "absent"),
    "a list of values": (
        *("beta_by_position", "beta_autocorrelation", "gammas", "tokens_per_run"),
        *("tokens_per_run_iid", "lines"),
    ),
    "a JSON object": ("config", "device", "versions", "settings", "scores"),
}
# An alpha record with gammas has all of these, which the report shows together.
OF_BETAS = (
    *("beta_autocorrelation", "beta_by_position", "guessed", "alpha_of_all_tokens"),
    *("gammas", "tokens_per_run", "tokens_per_run_iid"),
)
MODEL = ("weights", "dtype")  # tell models of one name apart
PROGRAM = "scripts/reproduce.py"  # "program" in the records that it makes itself
# What makes a record of each kind; "line" is a benchmark of one of the paper's lines.
COMMANDS = {
    "benchmark": "python scripts/benchmark.py --gin_file=configs/runs/demo_ende.gin "
    "--out=records/demo_ende.jsonl",
    "lenient": "python scripts/benchmark.py --gin_file=configs/runs/demo_ende.gin "
    '--gin.BenchmarkConfig.leniences="(1.0, 0.5, 0.3, 0.1)" '
    '--gin.BenchmarkConfig.gammas="(5,)" --out=records/lenience.jsonl',
    "line": "python scripts/benchmark.py --gin_file=configs/runs/RUN.gin "
    "--gin.TARGET_CHECKPOINT=FOLDER --gin.DRAFTER_CHECKPOINT=FOLDER "
    "--gin.VOCABULARY=FILE --out=records/RUN.jsonl",
    "alpha": "python scripts/measure_alpha.py "
    "--gin_file=configs/runs/demo_ende.gin --out=records/alpha.jsonl",
    "roofline": "python scripts/compile_ahead.py --gin_file=configs/runs/RUN.gin "
    "--topology=v4 --chips=1 --out=records/v4_1",
    "scores": "python scripts/decode.py --gin_file=configs/runs/tsv.gin "
    "--gin.TSV=FILE.tsv --gin.VOCABULARY=FILE --gin.TEMPERATURE=T "
    "--gin.DecodeSettings.lenience=L --out=records/lenience_L.jsonl",
    "peers": "python scripts/benchmark_peers.py "
    "--gin_file=configs/runs/demo_ende.gin --out=records/peers.jsonl",
    "reproduce": f"python {PROGRAM} --what=all",
}


@dataclasses.dataclass(frozen=True)
class Found:
    """A record, and the file that it was found in."""

    record: dict[str, Any]
    path: Path

    def __getitem__(self, key: str) -> Any:
        return self.record[key]

    def get(self, key: str, default: Any = None) -> Any:
        return self.record.get(key, default)

    def made_by(self, command: str) -> str:
        """The command that made it, as it says; this one if it does not."""
        own = COMMANDS["reproduce"] if self.get("program") == PROGRAM else command
        return self.get("command") or own

    def of_one_model(self, other: "Found") -> bool:
        """Whether both are of one dtype and the same weights, as far as they say."""
        return all(
            self.get(key, other.get(key)) == other.get(key, self.get(key))
            for key in MODEL
        )

    @property
    def made_on(self) -> str:
        """The device and the version of JAX, as far as the record says."""
        device = self.get("device", {})
        parts = [device.get("kind", "a device not named")]
        if device.get("platform") == "cpu":
            parts.append(f"{device.get('cpu_cores')} cores")
        version = self.get("versions", {}).get("jax")
        return ", ".join(parts + ([f"jax {version}"] if version else []))


@dataclasses.dataclass(frozen=True)
class Evidence:
    """All records, by kind, in the order in which they were found."""

    found: dict[str, list[Found]]

    @classmethod
    def read(cls, places: Sequence[str | os.PathLike]) -> "Evidence":
        """Reads files, and the `.jsonl` and `.scores.json` files in folders.

        Args:
          places: where records of one key are told twice, the earlier place wins.

        Raises:
          DataError: a place does not exist, or holds something else than records, or a
            record's value is of no use; the message names it.
        """
        found = {kind: [] for kind in (*KEYS, "lenient")}
        files = (path for place in places for path in _files(Path(place)))
        once = {path.resolve(): path for path in reversed(list(files))}
        for path in reversed(once.values()):
            for record, place in _read(path):
                kind = kind_of(record)
                if kind is not None:
                    _require_values(record, place)
                    found[kind].append(Found(record, path))
        return cls(found)

    def of(self, kind: str, **wanted: Any) -> list[Found]:
        """The records of a kind in which all keys have the wanted values."""
        return [
            found
            for found in self.found[kind]
            if all(found.get(key) == value for key, value in wanted.items())
        ]

    def distinct(self, kind: str, *keys: str) -> list[Found]:
        """The first record for each value of the keys together, in order of them.

        What the report measures in passing comes after all that was measured for it.
        """
        in_passing_last = sorted(
            self.found[kind], key=lambda found: found.get("program") == PROGRAM
        )
        first = {}
        for found in in_passing_last:
            first.setdefault(tuple(found.get(key, "") for key in keys), found)
        return [first[key] for key in sorted(first, key=_order)]


def kind_of(record: dict[str, Any]) -> str | None:
    """Which kind a record is, by its keys; None if none of ours."""
    for kind, keys in KEYS.items():
        if all(key in record for key in keys):
            exact = kind != "benchmark" or record.get("lenience", 1) == 1
            return kind if exact else "lenient"
    return None


def _order(key: tuple) -> tuple:
    """Sorts keys of unlike types: numbers by value, all else by how it is written."""
    return tuple(
        (0, part, "") if isinstance(part, int | float) else (1, 0, str(part))
        for part in key
    )


def _files(place: Path) -> list[Path]:
    if not place.exists():
        raise DataError(f"no records at {place}")
    if place.is_file():
        return [place]
    return sorted([*place.rglob("*.jsonl"), *place.rglob("*.scores.json")])


def _read(path: Path) -> Iterator[tuple[dict[str, Any], str]]:
    """A file's records and their places; a run may be writing its last line."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"cannot read records from {path}: {error}") from error
    if path.name.endswith(".scores.json"):
        yield parse_record(content, str(path)), str(path)
        return
    *lines, last = content.split(b"\n")
    for number, line in enumerate(lines, 1):
        yield parse_record(line, f"{path}:{number}"), f"{path}:{number}"
    with contextlib.suppress(DataError):  # not whole yet
        yield parse_record(last, ""), f"{path}:{len(lines) + 1}"


def _require_values(record: dict[str, Any], place: str) -> None:
    for words, keys in VALUES.items():
        for key in keys:
            if key in record and not _is_of_kind(record[key], words):
                told = json.dumps(record[key])[:100]
                raise DataError(f"{place}: {key} must be {words}, not {told}")
    if record.get("gammas"):
        lacking = [key for key in OF_BETAS if key not in record]
        if lacking:
            raise DataError(f"{place}: it has gammas, and lacks {', '.join(lacking)}")


def _is_of_kind(value: Any, words: str) -> bool:
    match words:
        case "a text":
            return isinstance(value, str)
        case "a JSON object":
            return isinstance(value, dict)
        case "a list of values":
            return isinstance(value, list) and bool(value)
        case "two numbers from 0 on":
            of_two = isinstance(value, list) and len(value) == 2
            return of_two and all(_is_of_kind(x, "a number from 0 on") for x in value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    if not 0 <= value < 1e300:  # NaN is not either
        return False
    return {
        "a rate from 0 to 1": value <= 1,
        "a whole number from 0 on": value == int(value),
        "a number above 0": value > 0,
    }.get(words, True)
