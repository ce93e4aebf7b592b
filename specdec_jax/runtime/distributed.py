"""Several processes that work on one run: how they meet, and what they tell each other.

Each process of a run is the same program with the same arguments, on hosts that need
share no disk. They go in step: whatever one of them gathers, all of them gather.
"""

import atexit
import contextlib
import dataclasses
import json
import os
import re
import sys
from collections.abc import Iterator

import jax
import numpy as np
from jax.experimental import multihost_utils

from specdec_jax.errors import DataError, SettingsError, SpecdecError, one_line
from specdec_jax.typing import Any

SMALLEST_MESSAGE = 1 << 10  # bytes; lengths are powers of two, so few are compiled


@dataclasses.dataclass(frozen=True)
class Processes:
    """The processes of a run; a run of one has nothing to wait for.

    Attributes:
      index: of this process; process 0 writes the results.
      count: of all.
    """

    index: int = 0
    count: int = 1

    @property
    def first(self) -> bool:
        return self.index == 0

    def gather(self, value: Any) -> list[Any]:
        """What each process gave, in the order of the processes.

        Args:
          value: anything that JSON holds; with one process it is not even copied.
        """
        if self.count == 1:
            return [value]
        message = np.frombuffer(json.dumps(value).encode(), np.uint8)
        sizes = multihost_utils.process_allgather(np.asarray(message.size, np.int32))
        width = max(SMALLEST_MESSAGE, 1 << (int(sizes.max()) - 1).bit_length())
        padded = np.pad(message, (0, width - message.size))
        rows = multihost_utils.process_allgather(padded)
        return [
            json.loads(row[:size].tobytes())
            for row, size in zip(rows, sizes, strict=True)
        ]

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Around what may fail in one process alone: it then fails in all of them.

        Raises:
          SpecdecError: this process's own, or another one's, whose number it tells.
        """
        own = None
        try:
            yield
        except SpecdecError as error:
            own = error
        messages = self.gather(None if own is None else str(own))
        if own is not None:
            raise own
        for index, message in enumerate(messages):
            if message is not None:
                raise DataError(f"process {index}: {message}")


@contextlib.contextmanager
def joined(
    coordinator: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
    multihost: bool = False,
    timeout: int = 300,
) -> Iterator[Processes]:
    """Joins the other processes of the run, if there are any.

    To be entered before JAX looks at its devices. Without arguments there is nothing to
    start.

    Args:
      coordinator: HOST:PORT of process 0, where the processes meet.
      num_processes: of the whole run.
      process_id: of this one, from 0.
      multihost: this is a host of a TPU slice, which knows the three itself.
      timeout: seconds to wait for the others; JAX ends the process after that.

    Raises:
      SettingsError: the arguments do not fit together, or there is nothing to join.
    """
    processes = _join(coordinator, num_processes, process_id, multihost, timeout)
    try:
        yield processes
    except BaseException:
        if processes.count > 1:
            atexit.register(_leave_at_once)
        raise


def _join(coordinator, num_processes, process_id, multihost, timeout) -> Processes:
    given = (coordinator, num_processes, process_id)
    if multihost and given != (None, None, None):
        raise SettingsError(
            "the hosts of a TPU slice know each other: give multihost, or coordinator, "
            "num_processes and process_id"
        )
    if not multihost:
        if given == (None, None, None):
            return Processes()
        _check(*given)
        if num_processes == 1:
            return Processes()
    try:
        jax.distributed.initialize(*given, initialization_timeout=timeout)
    except (RuntimeError, ValueError) as error:
        reason = one_line(error)
        if multihost:
            reason = f"this is no host of a TPU slice ({reason})"
        raise SettingsError(f"cannot join the other processes: {reason}") from error
    return Processes(jax.process_index(), jax.process_count())


def _check(coordinator, num_processes, process_id) -> None:
    if None in (coordinator, num_processes, process_id):
        raise SettingsError(
            "coordinator, num_processes and process_id belong together: give all"
        )
    if not re.fullmatch(r".+:\d+", coordinator):
        raise SettingsError(f"coordinator must be HOST:PORT, not {coordinator!r}")
    if num_processes < 1:
        raise SettingsError(f"num_processes must be at least 1, not {num_processes}")
    if not 0 <= process_id < num_processes:
        raise SettingsError(
            f"process_id must be in 0..{num_processes - 1}, not {process_id}"
        )


def _leave_at_once() -> None:
    """Ends a process that failed without waiting for the others.

    JAX would wait for them at the end, and they may be waiting for this one; when it is
    gone, they end too.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1)
