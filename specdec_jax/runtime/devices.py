"""What a program runs on, and a word about it."""

import os

import jax


def find_devices() -> tuple[list[jax.Device], str]:
    """A TPU's devices, or a GPU's, or else the CPU, and what was found in words.

    Where JAX is told to use a platform that does not start (`JAX_PLATFORMS=tpu` on a
    machine without one), JAX is told to use the CPU instead. That works only before
    JAX has run anything.

    Returns:
      The devices, and a sentence that names them; it says so where there is no TPU.
    """
    reason = ""
    try:
        devices = jax.devices()
    except RuntimeError as error:
        reason = f" ({str(error).splitlines()[0]})"
        jax.config.update("jax_platforms", "cpu")
        devices = jax.devices()
    first = devices[0]
    words = in_words(first.platform, first.device_kind, len(devices))
    return devices, words + reason


def in_words(platform: str, kind: str, count: int) -> str:
    """A sentence that names devices of one kind, and says so if they are no TPU's."""
    if platform == "tpu":
        return f"Running on {count} TPU device{'s' * (count > 1)} ({kind})."
    if platform == "cpu":
        kind = f"the CPU, with {os.cpu_count()} cores"
    return (
        f"There is no TPU here. Running on {kind}: all works as on a TPU, but the "
        "times are not a TPU's."
    )
