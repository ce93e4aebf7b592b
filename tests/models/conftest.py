import pytest

from tests.models.goldens import CASES, Golden, load


@pytest.fixture(params=CASES)
def golden(request) -> Golden:
    return load(request.param)
