"""A rule of one's own is told in a line what is wrong with it."""

import dataclasses
import functools

import jax.numpy as jnp
import pytest

from specdec_jax.errors import SettingsError
from specdec_jax.sampling import TokenRule
from specdec_jax.sampling.rules.check import check_rule

VOCAB, PADDED = 11, 16
token = TokenRule()


@dataclasses.dataclass(frozen=True)
class Changed:
    """The token rule with something else in its results."""

    verdict: functools.partial = functools.partial(lambda verdict: verdict)
    drawn: functools.partial = functools.partial(lambda drawn: drawn)

    def draw(self, probs_v, noise):
        return self.drawn(token.draw(probs_v, noise))

    def verify(self, block):
        return self.verdict(token.verify(block))


def test_a_rule_that_keeps_to_the_contract_passes():
    check_rule(token, VOCAB, PADDED)
    check_rule(Changed(), VOCAB, PADDED)


def replaced(**changes):
    """A change of a verdict's fields, each by a function."""

    def change(verdict):
        made = {name: f(getattr(verdict, name)) for name, f in changes.items()}
        return verdict.replace(**made)

    return functools.partial(change)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"verdict": replaced(num_accepted=lambda n: n + 5)},
            "verify gave num_accepted = 5 for a block with gamma = 0",
        ),
        ({"verdict": replaced(num_accepted=lambda n: n - 3)}, "num_accepted = -3"),
        (
            {"verdict": replaced(num_accepted=lambda n: n.astype(jnp.float32))},
            r"verify's num_accepted must be one int32, and is float32 \[\]",
        ),
        (
            {"verdict": replaced(next_token=lambda t: t[None])},
            r"verify's next_token must be one int32, and is int32 \[1\]",
        ),
        ({"verdict": replaced(next_token=lambda t: t + VOCAB)}, "verify gave the ids"),
        (
            {"verdict": functools.partial(lambda verdict: (1, 2))},
            "verify must return a Verdict.*, and returned tuple",
        ),
        ({"drawn": functools.partial(lambda t: t - VOCAB)}, "draw gave the ids"),
        ({"drawn": functools.partial(lambda t: None)}, "fails: "),
        (
            {"verdict": functools.partial(lambda verdict: verdict.no_such_field)},
            "the rule Changed fails: AttributeError",
        ),
        (
            {"drawn": functools.partial(lambda t: jnp.ones((2, 3)) @ jnp.ones(2))},
            "the rule Changed fails: TypeError",
        ),
    ],
)
def test_what_is_wrong_is_named(unannotated, changes, words):
    with pytest.raises(SettingsError, match=words):
        check_rule(Changed(**changes), VOCAB, PADDED)
