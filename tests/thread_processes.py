"""Processes as threads of one, so that a test can run many, and kill them anywhere."""

import dataclasses
import itertools
import json
import threading

from specdec_jax.runtime.distributed import Processes


class BrokenUp(Exception):
    """What gathering ends with when another process is gone."""


class Meeting:
    """Where threads leave what they gather, until one of them is gone."""

    def __init__(self, count: int):
        self.count, self.gone = count, False
        self.left = {}  # (number of the gathering, process) -> what it gave
        self.changed = threading.Condition()

    def gather(self, number: int, index: int, value) -> list:
        keys = [(number, process) for process in range(self.count)]
        with self.changed:
            self.left[number, index] = json.dumps(value)
            self.changed.notify_all()
            while not all(key in self.left for key in keys):
                if self.gone or not self.changed.wait(60):
                    raise BrokenUp
            return [json.loads(self.left[key]) for key in keys]

    def leave(self) -> None:
        with self.changed:
            self.gone = True
            self.changed.notify_all()


@dataclasses.dataclass(frozen=True)
class ThreadProcesses(Processes):
    """One of several processes; `at_gather` is told of each gathering that begins."""

    meeting: Meeting | None = None
    at_gather: object = lambda: None
    number: object = dataclasses.field(default_factory=itertools.count)

    def gather(self, value):
        self.at_gather()
        return self.meeting.gather(next(self.number), self.index, value)


def run_processes(count: int, work, at_gather=None) -> list:
    """What `work(processes)` returned, or raised, in each of `count` processes.

    Args:
      count: of processes.
      work: what each does.
      at_gather: process -> what to call whenever it begins to gather.
    """
    meeting, outcomes = Meeting(count), [None] * count

    def run(index):
        told = (at_gather or {}).get(index, lambda: None)
        try:
            outcomes[index] = work(ThreadProcesses(index, count, meeting, told))
        except Exception as error:
            outcomes[index] = error
            meeting.leave()

    threads = [threading.Thread(target=run, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes
