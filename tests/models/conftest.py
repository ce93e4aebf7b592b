import pytest

from tests.models.goldens import (
    CASES,
    GPT_CASES,
    Golden,
    GPTGolden,
    load,
    load_gpt,
)


@pytest.fixture(params=CASES)
def golden(request) -> Golden:
    return load(request.param)


@pytest.fixture(params=GPT_CASES)
def gpt_golden(request) -> GPTGolden:
    return load_gpt(request.param)
