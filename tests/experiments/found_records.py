"""Records as the programs write them, for tests of what reads them."""

import json
from pathlib import Path

from specdec_jax.experiments import kinds
from specdec_jax.runtime.records import Record

MADE_WITH = {
    "device": {"platform": "cpu", "kind": "cpu", "count": 1, "cpu_cores": 2},
    "versions": {"jax": "0.10.2"},
}


def benchmark(**changes):
    values = {
        "pair": "a_pair",
        "temperature": 0.0,
        "gamma": 2,
        "alpha": 0.8,
        "c": 0.1,
        "v": 1.2,
        "fixed_costs": [3.0, 4.0],
        "predicted_speedup": 1.6,
        "speedup": 1.5,
        "speedup_spread": [1.4, 1.55],
        **MADE_WITH,
    }
    return kinds.Benchmark(**values | changes)


def alpha(**changes):
    values = {
        "pair": "a_pair",
        "drafter": "neural",
        "temperature": 1.0,
        "top_k": 0,
        "top_p": 1.0,
        "lenience": 1.0,
        "alpha": 0.61,
        "alpha_interval": [0.58, 0.64],
        "tokens": 1000,
        **MADE_WITH,
    }
    return kinds.Alpha(**values | changes)


def roofline(**changes):
    values = {
        "run": "ende_small_t0",
        "topology": "v4",
        "chips": 1,
        "c": 0.031,
        "v": 1.02,
        "predicted_speedup": 2.97,
    }
    return kinds.Roofline(**values | changes)


def compiled_row(**changes):
    values = {
        "topology": "v4",
        "chips": 1,
        "run": "ende_small_t0",
        "gamma": 7,
        "alpha": 0.75,
        "c": 0.025,
        "v": 1.0,
        "output": 64,
        "baseline_milliseconds": 750.0,
        "milliseconds": 250.0,
        "estimated_speedup": 3.0,
    }
    return kinds.CompiledRow(**values | changes)


def scores(**changes):
    values = {
        "pair": "a_pair",
        "settings": {"temperature": 1.0, "lenience": 0.5},
        "scores": {"bleu": 31.25},
        "rows": 10,
        "tokens_per_target_call": 3.0,
    }
    return kinds.TaskScores(**values | changes)


def peer(**changes):
    values = {
        **_COMPARED,
        "tokens_per_second": 300.0,
        "over_baseline": 1.0,
        "over_baseline_spread": [0.4, 0.6],
        "target_calls": 100,
        "tokens_per_target_call": 1.2,
        "memory": {"peak_mb": 130.0, "imports_mb": 100.0},
        "agreement": {"equal": 20, "prompts": 20, "differences": []},
        "peer_versions": {"a_library": "1.2"},
        "peer_settings": {"threads": 2},
    }
    return kinds.MeasuredPeer(**values | changes)


def absent_peer(**changes):
    why = {"absent": "No module named 't5x'", "install": "pip install -e '.[t5x]'"}
    return kinds.AbsentPeer(**{**_COMPARED, **why, **changes})


_COMPARED = {
    "pair": "a_pair",
    "inputs": 20,
    "config": {"gamma": 4, "repeats": 3},
    "peer": "t5x",
    "temperature": 0.0,
    **MADE_WITH,
}


def trace(**changes):
    """Two target calls of gamma 2: one accepted; both, and the target added EOS."""
    accepted = {"fate": "accepted", "p": 0.5, "q": 0.4, "draw": 0.3}
    rejected = {"fate": "rejected", "p": 0.1, "q": 0.6, "draw": 0.9}
    correction = {"fate": "correction", "p": 0.7, "q": 0.2, "draw": 0.6, "chance": 0.8}
    bonus = {"fate": "bonus", "p": 0.9, "q": None, "draw": 0.25, "chance": 0.9}
    pieces = [(" Ein", accepted), (" Mann", rejected), (" <b>Hund", correction)]
    more = [(" läuft", accepted), ("!", accepted), ("</s>", bonus)]

    def tokens(told):
        return [
            {"piece": piece, **facts, "alternatives": [[piece, 0.5, 0.25], ["x", 0, 1]]}
            for piece, facts in told
        ]

    values = {
        "pair": "a_pair",
        "text": "A <dog> runs!",
        "gamma": 2,
        "temperature": 1.0,
        "seed": 0,
        "output": "Ein <b>Hund läuft!",
        "tokens": 5,
        "lines": [
            {"gamma": 2, "accepted": 1, "tokens": tokens(pieces)},
            {"gamma": 2, "accepted": 2, "tokens": tokens(more)},
        ],
        **MADE_WITH,
    }
    return kinds.Trace(**values | changes)


def write(path: Path, *records: Record | dict) -> Path:
    """A file of records, or of any JSON objects."""
    path.parent.mkdir(parents=True, exist_ok=True)
    objects = [x.to_json() if isinstance(x, Record) else x for x in records]
    path.write_text("".join(json.dumps(x) + "\n" for x in objects), "utf-8")
    return path
