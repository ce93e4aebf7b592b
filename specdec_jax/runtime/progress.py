"""The progress of long work: a bar in a terminal, a line now and then in a log."""

import contextlib
import time
from collections.abc import Callable, Iterator

from rich import get_console, progress
from rich.console import Console

from specdec_jax.typing import Any

LINES_APART = 30.0  # seconds


class Clock:
    """Seconds since some moment, without the time for which it is stopped.

    A bar with such a clock leaves compilation out of what it says is left.
    """

    def __init__(self):
        self._left_out = 0.0
        self._stopped_at: float | None = None

    def __call__(self) -> float:
        now = time.monotonic() if self._stopped_at is None else self._stopped_at
        return now - self._left_out

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """Stops it for as long as the context lasts."""
        self._stopped_at = time.monotonic()
        try:
            yield
        finally:
            self._left_out += time.monotonic() - self._stopped_at
            self._stopped_at = None


def progress_bar(
    name: str,
    shown: bool = True,
    clock: Callable[[], float] = time.monotonic,
    in_bytes: bool = False,
) -> progress.Progress:
    """A bar on stderr with counts, time elapsed and time left; none in a notebook.

    There rich would draw it with widgets, which are no part of this project. Where
    stderr is no terminal, a line every half minute stands in.

    Args:
      name: of the work.
      shown: False for work of which another process tells.
      clock: which the time elapsed and the time left are read from, in seconds.
      in_bytes: what is counted are bytes.
    """
    console = Console(stderr=True)
    if not shown or get_console().is_jupyter:
        return progress.Progress(console=console, disable=True)
    if not console.is_terminal:
        return _Lines(name, console, clock, in_bytes)
    return progress.Progress(
        progress.TextColumn(name),
        progress.BarColumn(),
        progress.DownloadColumn() if in_bytes else progress.MofNCompleteColumn(),
        progress.TimeElapsedColumn(),
        progress.TimeRemainingColumn(),
        progress.TextColumn("{task.description}"),
        console=console,
        get_time=clock,
        transient=True,
    )


class _Lines(progress.Progress):
    """Draws nothing, and says how far it is in a line of its own."""

    def __init__(
        self,
        name: str,
        console: Console,
        clock: Callable[[], float],
        in_bytes: bool,
    ):
        # With automatic refreshes `track` would advance a bar only while it is drawn.
        super().__init__(
            console=console, disable=True, auto_refresh=False, get_time=clock
        )
        self._name, self._last = name, time.monotonic()
        self._count = _gigabytes if in_bytes else "{:g}".format

    def update(self, task_id: progress.TaskID, **changes: Any) -> None:
        super().update(task_id, **changes)
        self._say(self.tasks[self.task_ids.index(task_id)])

    def advance(self, task_id: progress.TaskID, advance: int | float = 1) -> None:
        self.update(task_id, advance=advance)

    def _say(self, task: progress.Task) -> None:
        if time.monotonic() - self._last < LINES_APART:
            return
        self._last = time.monotonic()
        left = task.time_remaining  # rich rounds it up to an integer
        done, total = self._count(task.completed), self._count(task.total or 0)
        parts = [f"{self._name}: {done} of {total}"]
        parts += [f"{_minutes(float(left))} left"] if left else []
        parts += [task.description] if task.description else []
        self.console.print(
            ", ".join(parts), markup=False, highlight=False, soft_wrap=True
        )


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.1f} min" if seconds >= 60 else f"{seconds:.0f} s"


def _gigabytes(num_bytes: float) -> str:
    return f"{num_bytes / 1e9:.2f} GB"
