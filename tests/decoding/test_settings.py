"""Settings are checked, and the message names the one that is wrong."""

import dataclasses
import json

import numpy as np
import pytest

from specdec_jax.decoding.autoregressive import Autoregressive
from specdec_jax.decoding.settings import DecodeSettings
from specdec_jax.decoding.speculative import Speculative
from specdec_jax.drafters.constant import ConstantDrafter
from specdec_jax.drafters.neural import NeuralDrafter
from specdec_jax.errors import PairError, SettingsError, SpecdecError
from specdec_jax.sampling import TokenRule
from tests import toy_models as toys

NAN, INF = float("nan"), float("inf")
NOT_NUMBERS = [None, "4", "x", [], [[1, 1]], [1, [1]], True, {}]
WRONG = {
    "gamma": [-1, 1.5, NAN, INF, 2**31, [4, -1]],
    "temperature": [-0.1, NAN, INF, -INF, 1e39, [0.0, -1.0]],
    "top_k": [-1, 0.5, NAN, 2**31, [3, -2]],
    "top_p": [0.0, -0.5, 1.1, NAN, INF, 1e-50, 1e-40, [0.5, 0.0]],
    "lenience": [0.0, -1.0, 1.5, NAN, INF, 1e-50, 1e-40, [1.0, 2.0]],
    "max_new_tokens": [0, -1, 2.5, NAN, 2**31, [4, 0]],
    "max_gamma": [-1, 3, 4.5, NAN, [4, 4], 2**31],
}


@pytest.mark.parametrize(
    "name, value",
    [
        (name, value)
        for name, values in WRONG.items()
        for value in values + NOT_NUMBERS
        if (name, value) != ("max_gamma", None)  # which says: the largest gamma
    ],
    ids=str,
)
def test_a_wrong_value_is_named(name, value):
    with pytest.raises(SettingsError, match=rf"^{name} must be .*, not ") as error:
        DecodeSettings(**{name: value})
    assert isinstance(error.value, SpecdecError)
    assert repr(value) in str(error.value)


@pytest.mark.parametrize(
    "name, value, dtype",
    [
        ("gamma", [0, 4, 2], np.int32),
        ("temperature", [0.0, 0.5, 3.0], np.float32),
        ("top_k", [0, 1, 40], np.int32),
        ("top_p", [1.0, 0.5, 1e-6], np.float32),
        ("lenience", [1.0, 0.25, 0.5], np.float32),
        ("max_new_tokens", [1, 64, 7], np.int32),
    ],
)
def test_one_value_serves_all_rows_and_a_sequence_gives_each_its_own(
    name, value, dtype
):
    def of_rows(value):
        rows = DecodeSettings(**{name: value}).rows(3)
        return getattr(rows if hasattr(rows, name) else rows.warp, name)

    for sequence in (value, tuple(value), np.array(value)):
        assert of_rows(sequence).dtype == dtype
        np.testing.assert_allclose(of_rows(sequence), value)
    np.testing.assert_allclose(of_rows(value[0]), [value[0]] * 3)
    with pytest.raises(SettingsError, match=f"^{name} has 3 values for 2 rows"):
        DecodeSettings(**{name: value}).rows(2)


def test_the_block_is_as_wide_as_the_largest_gamma_unless_said_otherwise():
    assert DecodeSettings().static_gamma == 4
    assert DecodeSettings(gamma=[1, 7, 2]).static_gamma == 7
    assert DecodeSettings(gamma=[1, 7, 2], max_gamma=9).static_gamma == 9
    assert dataclasses.replace(DecodeSettings(), gamma=8).static_gamma == 8
    with pytest.raises(SettingsError, match=r"from gamma \(7\) to 65536, not 6"):
        DecodeSettings(gamma=[1, 7, 2], max_gamma=6)


def test_the_buffer_is_as_long_as_the_longest_rows_cap():
    assert DecodeSettings(max_new_tokens=[3, 9, 1]).buffer_size == 9
    assert isinstance(DecodeSettings(max_new_tokens=9.0).buffer_size, int)


def test_settings_are_hashable_and_do_not_follow_the_callers_array():
    gamma = np.array([1, 2])
    settings = DecodeSettings(gamma=gamma, temperature=np.float32(0.5))
    gamma[:] = 7
    assert settings.gamma == (1, 2)
    assert hash(settings) == hash(DecodeSettings(gamma=[1, 2], temperature=0.5))


def test_a_drafter_of_another_vocabulary_is_refused():
    target = toys.table_model(9)
    for drafter in (NeuralDrafter(toys.table_model(8)), ConstantDrafter(8, 9)):
        with pytest.raises(PairError, match="9 tokens and the drafter 8"):
            Speculative(target, drafter, 4, 8, toys.EOS)


def test_sizes_that_no_loop_can_have_are_refused():
    model = toys.table_model(9)
    with pytest.raises(SettingsError, match="max_gamma must be at least 0, not -1"):
        Speculative(model, NeuralDrafter(model), -1, 8, toys.EOS)
    with pytest.raises(SettingsError, match="max_new_tokens must be at least 1"):
        Speculative(model, NeuralDrafter(model), 4, 0, toys.EOS)
    with pytest.raises(SettingsError, match="max_new_tokens must be at least 1"):
        Autoregressive(model, 0, toys.EOS)


def test_settings_by_name_are_json_and_a_rule_is_told_by_its_name():
    settings = DecodeSettings(gamma=[1, 2], temperature=0.5)
    assert json.loads(json.dumps(settings.as_dict())) == {
        "gamma": [1, 2],
        "temperature": 0.5,
        "top_k": 0,
        "top_p": 1.0,
        "lenience": 1.0,
        "max_new_tokens": 64,
        "max_gamma": None,
        "rule": "token",
    }
    own = DecodeSettings(rule=TokenRule())
    assert own.as_dict()["rule"] == "token"
