"""How many cores a peer may use."""

import os


def available_cores() -> int:
    """Cores that this process may run on; JAX has a thread on each."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def keep_to(threads: int | None) -> None:
    """Keeps this process to so many cores; call it before any library is imported.

    Where the system has no such thing, libraries that can be told are told alone.
    """
    if threads is not None and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
