"""The flags by which a program is told that it is one process of several."""

import contextlib
import sys

from absl import flags

from specdec_jax.runtime.distributed import Processes, joined

_MULTIHOST = flags.DEFINE_bool(
    "multihost",
    False,
    "this is one host of a TPU slice, and the same program runs on all of them.",
)
_COORDINATOR = flags.DEFINE_string(
    "coordinator",
    None,
    "HOST:PORT of process 0, anywhere else than on a TPU slice; with --num_processes "
    "and --process_id.",
)
_NUM_PROCESSES = flags.DEFINE_integer("num_processes", None, "of the whole run.")
_PROCESS_ID = flags.DEFINE_integer("process_id", None, "of this one, from 0.")


def processes() -> contextlib.AbstractContextManager[Processes]:
    """Joins the processes that the flags tell of; see `distributed.joined`."""
    if _MULTIHOST.value or _COORDINATOR.value:
        where = _COORDINATOR.value or "the first host of the slice"
        print(f"meeting the other processes at {where}", file=sys.stderr)
    return joined(
        _COORDINATOR.value,
        _NUM_PROCESSES.value,
        _PROCESS_ID.value,
        _MULTIHOST.value,
    )
