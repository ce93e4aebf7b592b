import pytest

from specdec_jax.experiments.peers.agreement import compare

EXPECTED = [[5, 1], [6, 7, 1], [8, 9]]


def test_the_example_of_the_docstring():
    assert compare([[5, 1], [6, 1]], [[[5, 1], [6, 7, 1]]]) == {
        "equal": 1,
        "prompts": 2,
        "differences": [{"prompt": 1, "place": 1, "expected": 1, "found": 7}],
    }


def test_equal_in_all_rounds_is_equal():
    told = compare(EXPECTED, [EXPECTED, [tuple(ids) for ids in EXPECTED]])
    assert told == {"equal": 3, "prompts": 3, "differences": []}


def test_one_round_that_differs_is_a_difference():
    other = [[5, 1], [6, 2, 1], [8, 9]]
    told = compare(EXPECTED, [EXPECTED, other, EXPECTED])
    assert told["equal"] == 2
    assert told["differences"] == [{"prompt": 1, "place": 1, "expected": 7, "found": 2}]


@pytest.mark.parametrize(
    "found, place, expected, got",
    [([8], 1, 9, None), ([8, 9, 4], 2, None, 4), ([], 0, 8, None)],
)
def test_an_output_that_ended_has_none_there(found, place, expected, got):
    told = compare(EXPECTED, [[*EXPECTED[:2], found]])
    assert told["differences"] == [
        {"prompt": 2, "place": place, "expected": expected, "found": got}
    ]
