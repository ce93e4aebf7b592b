"""A drafter of one's own: how it joins a pair, and what is said when it cannot."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

import specdec_jax as sd
from tests.tiny_pairs import SENTENCES

SETTINGS = sd.DecodeSettings(gamma=3, max_new_tokens=10)


@dataclasses.dataclass(frozen=True)
class Cycling(sd.RuleBasedDrafter):
    """Drafts ids 3, 4, 5 again and again; its state counts blocks."""

    def init(self, params, inputs, context, prompt, prompt_features, slots):
        return jnp.zeros_like(prompt.lengths)

    def propose(self, params, state, draw, warp, gamma):
        ids = 3 + jnp.arange(draw.max_gamma, dtype=jnp.int32) % 3
        tokens = jnp.broadcast_to(ids[None], (gamma.shape[0], draw.max_gamma))
        return self.one_hot(tokens, gamma), state

    def commit(self, params, state, commit):
        return jnp.where(commit.active, state + 1, state)


@dataclasses.dataclass(frozen=True)
class FromParams(sd.RuleBasedDrafter):
    """Draws from the distribution that its parameters hold."""

    def propose(self, params, state, draw, warp, gamma):
        batch = gamma.shape[0]
        q = jnp.broadcast_to(params["q"][None], (batch, len(params["q"])))
        tokens = jnp.stack([draw(q, i) for i in range(draw.max_gamma)], axis=1)
        probs = jnp.stack([q] * draw.max_gamma, axis=1)
        return sd.Proposal(tokens, probs, gamma), state


def assert_same_as_the_target_alone(pair):
    out = sd.generate(pair, SENTENCES, SETTINGS)
    base = sd.generate(pair, SENTENCES, SETTINGS, method="autoregressive")
    assert out.texts == base.texts
    assert out.stats.drafted.sum() > 0


@dataclasses.dataclass(frozen=True)
class TooFewArguments(sd.RuleBasedDrafter):
    def propose(self, params, state, draw):
        return None, state


@dataclasses.dataclass(frozen=True)
class TwoTokens(sd.RuleBasedDrafter):
    """Its block is always two wide."""

    def propose(self, params, state, draw, warp, gamma):
        return self.one_hot(jnp.ones((len(gamma), 2), jnp.int32), gamma), state


@dataclasses.dataclass(frozen=True)
class PastTheEnd(sd.RuleBasedDrafter):
    def propose(self, params, state, draw, warp, gamma):
        q = jnp.full((len(gamma), self.padded_vocab_size), 1 / self.vocab_size)
        draw(q, draw.max_gamma)
        return None, state


def test_a_drafter_of_one_width_is_refused(tiny_pair):
    with pytest.raises(sd.PairError, match=r"max_gamma = 3 it must be int32 \[1, 3\]"):
        tiny_pair.with_drafter(TwoTokens)


@pytest.mark.parametrize(
    ("name", "value"), [("taps", "5"), ("taps", (1.0,)), ("max_length", "a")]
)
def test_a_member_of_another_type_is_named(unannotated, tiny_pair, name, value):
    odd = type("Odd", (Cycling,), {name: value})
    with pytest.raises(sd.PairError, match=f"Odd.{name} must be"):
        tiny_pair.with_drafter(odd)


def test_a_place_past_the_block_cannot_be_drawn(tiny_pair):
    with pytest.raises(sd.PairError, match="a block of 2 has no place 2"):
        tiny_pair.with_drafter(PastTheEnd)


def test_a_drafter_that_fails_is_told_in_a_line(tiny_pair):
    def refuses(vocab_size, padded):
        raise ValueError("no such vocabulary")

    with pytest.raises(sd.PairError, match="FromParams fails .it was given no draft"):
        tiny_pair.with_drafter(FromParams)
    with pytest.raises(sd.PairError, match="NeuralDrafter fails .it was given no dra"):
        tiny_pair.with_drafter(tiny_pair.drafter)
    with pytest.raises(sd.PairError, match="TooFewArguments fails.*TypeError"):
        tiny_pair.with_drafter(TooFewArguments)
    with pytest.raises(sd.PairError, match="refuses cannot be made.*no such vocab"):
        tiny_pair.with_drafter(refuses)


@pytest.mark.parametrize("family", ["tiny_pair", "gpt_pair"])
def test_a_class_or_a_value_drafts_for_either_family(family, request):
    pair = request.getfixturevalue(family)
    value = Cycling(pair.vocab_size, pair.padded_vocab_size)
    for given in (Cycling, value, lambda size, padded: Cycling(size, padded)):
        made = pair.with_drafter(given)
        assert made.drafter == value and made.name == f"{pair.name} + Cycling"
    assert_same_as_the_target_alone(made)
    assert pair.drafter != value


def test_a_drafter_is_given_to_load_pair_with_its_parameters(pair_folder, tiny_pair):
    q = np.zeros(tiny_pair.padded_vocab_size, np.float32)
    q[3:9] = 1 / 6
    params = {"q": jnp.asarray(q)}
    pair = sd.load_pair(pair_folder, drafter=FromParams, drafter_params=params)
    assert "FromParams" in pair.name and pair.checkpoints is None
    assert_same_as_the_target_alone(pair)


def test_a_wrapped_network_keeps_its_parameters(tiny_pair):
    wrapped = sd.WrappedDrafter(tiny_pair.drafter)
    pair = tiny_pair.with_drafter(wrapped, tiny_pair.params.drafter)
    ours, theirs = (
        sd.generate(one, SENTENCES, SETTINGS).stats for one in (pair, tiny_pair)
    )
    assert ours.accepted.tolist() == theirs.accepted.tolist()


def test_a_wrapped_network_knows_no_more_positions_than_the_network(gpt_pair):
    wrapped = sd.WrappedDrafter(gpt_pair.drafter)
    short = dataclasses.replace(gpt_pair.drafter.model, max_length=12)
    drafter = dataclasses.replace(gpt_pair.drafter, model=short)
    wrapped = dataclasses.replace(wrapped, inner=drafter)
    pair = gpt_pair.with_drafter(wrapped, gpt_pair.params.drafter)
    with pytest.raises(sd.SettingsError, match="the drafter knows 12 positions"):
        sd.generate(pair, SENTENCES, SETTINGS)


class NotFrozen(Cycling):
    __hash__ = None


class NoPropose:
    vocab_size, max_length, taps = 50, None, ()

    def init(self, *given):
        return ()

    def commit(self, params, state, commit):
        return state


def changed(**functions):
    """`Cycling` with some of its functions replaced."""
    return dataclasses.dataclass(frozen=True)(type("Changed", (Cycling,), functions))


def proposing(make):
    def propose(self, params, state, draw, warp, gamma):
        return make(Cycling.propose(self, params, state, draw, warp, gamma), state)

    return changed(propose=propose)


def with_fields(**fields):
    def make(returned, state):
        proposal, state = returned
        return proposal.replace(**{k: f(proposal) for k, f in fields.items()}), state

    return proposing(make)


FAULTS = {
    "a number": (3, "int is no drafter"),
    "no class of sizes": (NoPropose, "NoPropose cannot be made of .vocab_size, padded"),
    "no propose": (NoPropose(), "NoPropose is no drafter"),
    "not hashable": (NotFrozen, "NotFrozen must be hashable.*frozen=True"),
    "another vocabulary": (Cycling(7, 56), "has 50 tokens and the drafter Cycling 7"),
    "a layer too many": (changed(taps=(0, 9)), r"taps layers \(0, 9\).* has 2"),
    "no state": (proposing(lambda r, s: r[0]), "must return a Proposal and the state"),
    "a tuple": (
        proposing(lambda r, s: ((r[0].tokens, r[0].probs), s)),
        "must return a Proposal and the state, and returned tuple",
    ),
    "a width": (
        with_fields(tokens=lambda p: p.tokens[:, :1]),
        r"tokens of int32 \[2, 1\].*must be int32 \[2, 2\]",
    ),
    "a type": (
        with_fields(probs=lambda p: p.probs.astype(jnp.bfloat16)),
        "probs of bfloat16 .*must be float32",
    ),
    "a vocabulary without padding": (
        with_fields(probs=lambda p: p.probs[..., :50]),
        r"probs of float32 \[2, 2, 50\].*V, the width of the target's logits, is 56",
    ),
    "ids past the vocabulary": (
        with_fields(tokens=lambda p: p.tokens + 50),
        r"drafted the ids \[53, 54\]: ids are from 0 to 49",
    ),
    "too many": (with_fields(num_drafted=lambda p: p.num_drafted + 5), "num_drafted"),
    "no distribution": (with_fields(probs=lambda p: 2 * p.probs), "no distributions"),
    "q of another token": (
        with_fields(probs=lambda p: jnp.roll(p.probs, 1, axis=-1)),
        "a token that it drafted has none",
    ),
    "another state": (
        changed(commit=lambda self, params, state, commit: (state, state)),
        "commit must give back a state as init made it",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_wrong_with_a_drafter_is_said_in_one_line(tiny_pair, fault):
    given, words = FAULTS[fault]
    with pytest.raises(sd.PairError, match=words) as raised:
        tiny_pair.with_drafter(given)
    assert "\n" not in str(raised.value)
