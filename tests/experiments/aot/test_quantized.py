"""A target of int8 weights, as a TPU's compiler makes it.

The compiler is libtpu's; no TPU is needed.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from specdec_jax.errors import SettingsError
from specdec_jax.experiments.aot import report
from specdec_jax.experiments.aot.run import AOTRun
from specdec_jax.experiments.kinds import StepFloor

ROOT = Path(__file__).parent.parent.parent.parent

COMPILE = """
import json
from specdec_jax.experiments.aot.compile import compile_programs
from specdec_jax.experiments.aot.run import program_facts
from specdec_jax.models.t5 import T5Config
from specdec_jax.partitioning import roofline, topology
from specdec_jax.partitioning.description import Decode
from specdec_jax.partitioning.hlo import Program

sizes = T5Config(2000, 2048, 512, 8, 64, 2048, 1, 2)
found = {}
for quantization in (None, "int8"):
    decode = Decode(
        sizes, sizes, 2, 16, topology.describe("v5e", 1), source=32,
        target_quantization=quantization,
    )
    (compiled,) = compile_programs(decode, ["baseline loop"])
    program = Program.parse(compiled.program.as_text())
    cost = roofline.step_cost(decode, "target step")
    found[str(quantization)] = program_facts(compiled, program) | {
        "step": program.bytes_read(program.run_one_by_one(program.loop_body)),
        "weights": cost.weight_bytes,
        "needed": cost.bytes,
    }
print(json.dumps(found))
"""


def test_int8_weights_are_read_as_int8_and_no_float_copy_is_made():
    """The conversion is a part of each product, and is not taken out of the loop."""
    # libtpu reads XLA_FLAGS too, and aborts at a flag of the CPU's compiler.
    environment = os.environ | {"PYTHONPATH": str(ROOT), "XLA_FLAGS": ""}
    done = subprocess.run(
        [sys.executable, "-c", COMPILE],
        env=environment | {"JAX_PLATFORMS": "cpu"},
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    floats, int8 = found["None"], found["int8"]
    assert int8["weights"] < 0.51 * floats["weights"]
    assert int8["step"] < 0.55 * floats["step"]
    assert int8["step"] < 1.1 * int8["needed"]
    assert int8["large_copies"] == 0
    assert int8["temporaries"] < floats["weights"] / 8


def test_a_report_says_that_its_target_is_int8():
    fields = {"topology": "v5e", "chips": 1, "gamma": 2, "batch": 1}
    floor = {
        "step": "target step",
        "weight_bytes": 1,
        "cache_bytes": 1,
        "sent_bytes": 0,
        "messages": 0,
        "flops": 1,
        "milliseconds": 1.0,
        "over_target_step": 1.0,
    }
    for quantization, words in ((None, "v5e, batch"), ("int8", "v5e, int8 target, b")):
        record = StepFloor(**fields, **floor, quantization=quantization)
        assert f"# 1 x TPU {words}" in report.markdown([record])


def test_an_unknown_quantization_is_refused(unannotated):
    with pytest.raises(SettingsError, match="'int8', or None, not 'int4'"):
        AOTRun(None, None, None, target_quantization="int4")
