"""What programs run on is found, and said."""

import os
import subprocess
import sys

import jax
import pytest

from specdec_jax.runtime import devices

FIND = "from specdec_jax.runtime.devices import find_devices as find; print(find()[1])"


def test_what_runs_the_tests_is_found():
    found, words = devices.find_devices()
    assert found == jax.devices()
    if jax.default_backend() == "cpu":
        assert words.startswith("There is no TPU here. Running on the CPU")


@pytest.mark.parametrize(
    ("platform", "kind", "count", "words"),
    [
        ("tpu", "TPU v5 lite", 1, "Running on 1 TPU device (TPU v5 lite)."),
        ("tpu", "TPU v4", 4, "Running on 4 TPU devices (TPU v4)."),
        ("gpu", "NVIDIA L4", 1, "There is no TPU here. Running on NVIDIA L4: all"),
    ],
)
def test_a_device_is_named(platform, kind, count, words):
    assert devices.in_words(platform, kind, count).startswith(words)


def test_a_platform_that_does_not_start_gives_way_to_the_cpu():
    done = subprocess.run(
        [sys.executable, "-c", FIND],
        env=os.environ | {"JAX_PLATFORMS": "rocm"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("There is no TPU here. Running on the CPU, with")
    assert "'rocm'" in done.stdout
