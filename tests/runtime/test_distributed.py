import jax
import pytest

import specdec_jax as sd
from specdec_jax.runtime.distributed import Processes, joined
from tests.thread_processes import run_processes


def test_a_process_alone_starts_nothing_and_gathers_what_it_gave():
    for arguments in ((), ("localhost:1", 1, 0)):
        with joined(*arguments) as processes:
            assert processes == Processes(0, 1) and processes.first
            value = object()
            assert processes.gather(value)[0] is value
    assert not jax.distributed.is_initialized()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"num_processes": 2}, "belong together"),
        ({"coordinator": "localhost:1", "process_id": 0}, "belong together"),
        ({"multihost": True, "process_id": 0}, "know each other"),
        (dict(coordinator="localhost", num_processes=2, process_id=0), "HOST:PORT"),
        (dict(coordinator="a:1", num_processes=2, process_id=2), r"0\.\.1, not 2"),
        (dict(coordinator="a:1", num_processes=2, process_id=-1), r"0\.\.1, not -1"),
        (dict(coordinator="a:1", num_processes=0, process_id=0), r"num_processes"),
        ({"multihost": True}, "no host of a TPU slice"),
    ],
)
def test_arguments_that_do_not_fit_together_are_refused(arguments, words):
    with pytest.raises(sd.SettingsError, match=words), joined(**arguments):
        pass
    assert not jax.distributed.is_initialized()


def test_an_error_of_one_is_the_error_of_all_and_none_is_nobodys():
    def work(processes):
        with processes.together():
            pass
        with processes.together():
            if processes.index == 1:
                raise sd.PairError("no pair")

    errors = run_processes(3, work)
    assert [str(error) for error in errors] == [
        "process 1: no pair",
        "no pair",
        "process 1: no pair",
    ]
    assert isinstance(errors[1], sd.PairError)
    assert all(isinstance(error, sd.SpecdecError) for error in errors)
