from pathlib import Path

import pytest

from specdec_jax.runtime.storage import beside


@pytest.mark.parametrize(
    ("records", "expected"),
    [("a/t0.5.jsonl", "a/t0.5.gin"), ("alpha.v1", "alpha.v1.gin"), ("x", "x.gin")],
)
def test_a_name_with_dots_keeps_them(records, expected):
    assert beside(records, ".gin") == Path(expected)
