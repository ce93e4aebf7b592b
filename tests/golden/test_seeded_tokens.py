"""A refactoring keeps every token that a seed gave; slow, as it decodes them all."""

import json
from pathlib import Path

import pytest

from tests.golden import seeded_tokens

STORED = Path(__file__).parent / "seeded_tokens.json"


@pytest.mark.slow
def test_tokens_of_stored_seeds_are_the_same():
    """In float32, on a CPU that sums as the one that stored them."""
    stored, found = json.loads(STORED.read_text("utf-8")), seeded_tokens.decode_all()
    assert {name for name in stored if stored[name] != found.get(name)} == set()
