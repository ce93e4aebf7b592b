"""Resident memory of this process, in MB (10^6 bytes). Linux; elsewhere it is None."""

import contextlib
from pathlib import Path

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")


def resident_mb() -> float | None:
    """What is resident now."""
    return _status("VmRSS")


def peak_mb() -> float | None:
    """The most that was resident since `forget_peak`, or since the start."""
    return _status("VmHWM")


def forget_peak() -> None:
    """Counts the peak from here on, if the system lets us."""
    with contextlib.suppress(OSError):
        _CLEAR.write_text("5")  # proc(5): resets VmHWM to what is resident


def _status(name: str) -> float | None:
    try:
        lines = _STATUS.read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024 / 1e6  # told in units of 1024 bytes
    return None
