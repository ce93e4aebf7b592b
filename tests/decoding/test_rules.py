"""A rule of one's own: how it is reached, and that it owns every draw of a row."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import specdec_jax as sd
from specdec_jax.decoding.autoregressive import Autoregressive
from specdec_jax.decoding.settings import DecodeSettings
from specdec_jax.decoding.speculative import PairParams, Speculative
from specdec_jax.drafters.neural import NeuralDrafter
from specdec_jax.drafters.uniform import UniformDrafter
from specdec_jax.sampling import RULES, Rule, TokenRule, Verdict, residual
from tests import toy_models as toys

V, B, CAP = 7, 6, 12
MODEL = toys.table_model(V)
TABLE = toys.random_table(1, V)


@dataclasses.dataclass(frozen=True)
class SharedNoise:
    """argmax(log p + noise), the noise being of a row's absolute position.

    The drafter and the target draw alike, and a draft token is accepted while it is the
    target's own. So the text does not depend on the drafter.
    """

    def draw(self, probs_v, noise):
        return jnp.argmax(
            jnp.log(probs_v) + jax.random.gumbel(noise.key, probs_v.shape)
        ).astype(jnp.int32)

    def verify(self, block):
        own = jax.vmap(
            lambda p_v, key: self.draw(p_v, block.noise(jnp.int32(0)).replace(key=key))
        )(block.target_probs, block.position_keys)
        place = jnp.arange(block.draft_tokens.shape[0], dtype=jnp.int32)
        same = (own[:-1] == block.draft_tokens) & (place < block.gamma)
        n = jnp.sum(jnp.cumprod(same.astype(jnp.int32)))
        return Verdict(n, own[n])


def outputs(decoder, params, order, **settings):
    """Each row's tokens, by its id, decoded in an order."""
    inputs = toys.random_inputs(3, B, V)[jnp.asarray(order)]
    rows = DecodeSettings(temperature=1.0, max_new_tokens=CAP, **settings)
    out = toys.decode(decoder, params, inputs, rows.rows(B), row_ids=order)
    tokens = zip(order, np.asarray(out.tokens), out.lengths, strict=True)
    return {row: found[: int(length)].tolist() for row, found, length in tokens}, out


@pytest.mark.parametrize("drafter", ["similar", "uniform"])
@pytest.mark.parametrize("gamma", [1, 4, [0, 1, 2, 3, 4, 2]])
def test_with_noise_of_positions_the_text_is_the_baselines_for_every_drafter(
    drafter, gamma
):
    rule, target = SharedNoise(), toys.table_params(TABLE)
    expected, _ = outputs(Autoregressive(MODEL, CAP, toys.EOS, rule), target, range(B))
    made = {
        "similar": (NeuralDrafter(MODEL), toys.similar_table(TABLE, 2, 0.5)),
        "uniform": (UniformDrafter(V, V), TABLE),
    }
    made, table = made[drafter]
    decoder = Speculative(MODEL, made, 4, CAP, toys.EOS, rule)
    pair = PairParams(target, toys.table_params(table))
    got, out = outputs(decoder, pair, list(range(B)), gamma=gamma, max_gamma=4)
    assert got == expected
    assert np.asarray(out.infos.num_accepted).sum() > 0
    if isinstance(gamma, int):
        assert outputs(decoder, pair, [3, 5, 0, 2, 1, 4], gamma=gamma)[0] == expected
    else:
        other = Autoregressive(MODEL, CAP, toys.EOS)
        assert outputs(other, target, range(B))[0] != expected


@dataclasses.dataclass(frozen=True)
class FirstOnly:
    """Algorithm 1 with at most one accepted draft token: lossless, and slower."""

    name = "first_only"

    def draw(self, probs_v, noise):
        return TokenRule().draw(probs_v, noise)

    def verify(self, block):
        return TokenRule().verify(
            block.replace(gamma=jnp.minimum(block.gamma, 1).astype(jnp.int32))
        )


def test_a_rule_is_reached_from_generate_and_gives_the_targets_argmax(tiny_pair):
    texts = ["a dog runs", "two men play music in the street"]
    greedy = sd.generate(tiny_pair, texts, method="autoregressive", seed=0)
    settings = DecodeSettings(gamma=3, rule=FirstOnly())
    out = sd.generate(tiny_pair, texts, settings=settings, seed=0)
    assert out.texts == greedy.texts
    assert out.infos.num_accepted.max() <= 1
    assert settings.as_dict()["rule"] == "first_only"
    named = DecodeSettings(gamma=3, rule="token")
    assert named.as_dict()["rule"] == "token"
    assert named.verification_rule == RULES["token"] == TokenRule()


class NotFrozen:
    __hash__ = None

    def draw(self, probs_v, noise):
        return jnp.int32(0)

    def verify(self, block):
        return Verdict(block.gamma, block.gamma)


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("blocks", "rule must be one of token"),
        (3, "a rule is a value with the methods draw and verify"),
        (TokenRule, "a rule is a value with the methods"),
        (residual, "a rule is a value with the methods"),
        (NotFrozen(), "NotFrozen must be hashable.* frozen=True"),
    ],
)
def test_what_is_no_rule_is_named(rule, words):
    with pytest.raises(sd.SettingsError, match=words):
        DecodeSettings(rule=rule)


@pytest.mark.parametrize("rule", [*RULES.values(), SharedNoise(), FirstOnly()])
def test_rules_are_rules_and_static(rule):
    assert isinstance(rule, Rule)
    assert hash(rule) == hash(type(rule)())
