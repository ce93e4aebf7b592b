"""What drafters are told of the target: its context, and the features that they tap."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from specdec_jax.decoding import loop
from specdec_jax.decoding.settings import DecodeSettings
from specdec_jax.decoding.speculative import PairParams, Speculative
from specdec_jax.drafters.base import WrappedDrafter
from specdec_jax.drafters.neural import NeuralDrafter
from specdec_jax.drafters.repeat_last import RepeatLastDrafter
from specdec_jax.errors import PairError
from specdec_jax.typing import Array, Int32, record
from tests import toy_models as toys

B, CAP, G = 3, 9, 3
TAPS = (1, 0)
LENGTHS = (4, 2, 3)  # of the rows' source texts, or of their prompts


@record
class Seen:
    """A drafter's state, and the features of all tokens that the target has scored."""

    inner: Array
    features: Array  # [B, S, K, D]
    lengths: Int32[Array, " B"]
    context: Array | None
    scale: Array


@dataclasses.dataclass(frozen=True)
class WatchingDrafter(WrappedDrafter):
    """Keeps what it is told, and its parameters' scale from `init` and `commit`."""

    taps: tuple[int, ...] = TAPS

    def init(self, params, inputs, context, prompt, prompt_features, slots):
        inner = self.inner.init({}, inputs, context, prompt, prompt_features, slots)
        batch = prompt.lengths.shape[0]
        features = jnp.zeros((batch, slots, len(self.taps), 32))
        if prompt_features is not None:
            size = prompt_features.shape[1]
            features = features.at[:, :size].set(prompt_features)
        return Seen(inner, features, prompt.lengths - 1, context, params["scale"])

    def propose(self, params, state, draw, warp, gamma):
        proposal, inner = self.inner.propose({}, state.inner, draw, warp, gamma)
        return proposal, state.replace(inner=inner)

    def commit(self, params, state, commit):
        write = jax.vmap(
            lambda x, y, at: jax.lax.dynamic_update_slice(x, y, (at, 0, 0))
        )
        grown = jnp.where(commit.active, commit.num_accepted + 1, 0)
        return state.replace(
            inner=self.inner.commit({}, state.inner, commit),
            features=write(state.features, commit.features, state.lengths),
            lengths=state.lengths + grown,
            scale=state.scale * params["scale"],
        )


@functools.cache
def world(family):
    """The target, its parameters, inputs and prompt."""
    if family == "T5":
        inputs = toys.encoder_inputs(0, LENGTHS, width=5)
        return *toys.tiny_t5(), inputs, toys.start_prompt(B)
    prompt = toys.prompt_of(*([0, *range(3, 3 + n)] for n in LENGTHS))
    return *toys.tiny_gpt(), toys.only_prompts(B), prompt


def decoded(family):
    """The state after a whole decode, and each row's tokens, prompt included."""
    target, params, inputs, prompt = world(family)
    drafter = WatchingDrafter(RepeatLastDrafter(30, 32))
    decoder = Speculative(target, drafter, G, CAP, toys.NO_EOS)
    rows = DecodeSettings(gamma=[3, 1, 2], max_gamma=G, max_new_tokens=CAP).rows(B)
    pair = PairParams(params, {"scale": jnp.float32(2)})
    state = jax.jit(decoder.init)(pair, inputs, prompt)
    state = jax.jit(decoder.run)(toys.keys(B), state, pair, rows)
    texts = [
        [*np.asarray(prompt.tokens)[row, : int(prompt.lengths[row])], *tokens]
        for row, tokens in enumerate(np.asarray(loop.finish(state).tokens))
    ]
    return state, texts


@pytest.mark.parametrize("family", ["T5", "GPT"])
def test_a_drafter_sees_the_features_of_every_token_that_was_committed(family):
    target, params, inputs, _ = world(family)
    state, texts = decoded(family)
    width = max(map(len, texts))
    padded = np.array([row + [2] * (width - len(row)) for row in texts])
    cache, context = target.start(params, inputs, width)
    zeros = jnp.zeros(B, jnp.int32)
    _, features, _ = target.extend(
        params, cache, jnp.asarray(padded, jnp.int32), zeros, TAPS
    )
    seen = state.draft_state
    for row, text in enumerate(texts):
        # All but the newest token, which the target has not scored.
        count = len(text) - 1
        assert int(seen.lengths[row]) >= count
        np.testing.assert_allclose(
            seen.features[row, :count], features[row, :count], rtol=2e-4, atol=2e-5
        )
    if family == "T5":
        np.testing.assert_allclose(seen.context, context, rtol=1e-5, atol=1e-6)
    else:
        assert seen.context is None


def test_a_drafters_parameters_reach_init_and_every_commit():
    state, _ = decoded("T5")
    assert float(state.draft_state.scale) == 2.0 ** (1 + int(state.step))


@pytest.mark.parametrize("family", ["T5", "GPT"])
def test_features_are_the_tapped_layers_in_the_order_of_the_taps(family):
    target, params, inputs, prompt = world(family)
    cache, _ = target.start(params, inputs, 8)
    tokens = jnp.asarray([[5, 6], [7, 8], [9, 3]], jnp.int32)
    call = functools.partial(target.extend, params, cache, tokens, jnp.zeros(B, int))
    (plain, nothing, _), (_, both, _), (_, first, _) = (
        call(taps) for taps in ((), (1, 0), (0,))
    )
    assert nothing is None
    assert both.shape == (B, 2, 2, 32) and first.shape == (B, 2, 1, 32)
    np.testing.assert_array_equal(both[:, :, 1], first[:, :, 0])
    assert not np.allclose(both[:, :, 0], both[:, :, 1])
    np.testing.assert_array_equal(plain, call((1,))[0])


def test_without_taps_the_loop_computes_no_features():
    """No array of a block's features is in the program of a decode."""
    target, params, inputs, prompt = world("T5")
    rows = DecodeSettings(gamma=G, max_new_tokens=CAP).rows(B)
    pair = PairParams(params, {"scale": jnp.float32(2)})
    texts = {}
    for taps in ((), TAPS):
        drafter = WatchingDrafter(RepeatLastDrafter(30, 32), TAPS)
        drafter = drafter if taps else drafter.inner
        decoder = Speculative(target, drafter, G, CAP, toys.NO_EOS)
        state = jax.eval_shape(decoder.init, pair, inputs, prompt)
        texts[taps] = jax.jit(decoder.run).lower(toys.keys(B), state, pair, rows)
    shape = f"tensor<{B}x{G + 1}x{len(TAPS)}x32xf32>"
    assert shape in texts[TAPS].as_text()
    assert shape not in texts[()].as_text()


def test_a_layer_that_the_target_does_not_have_is_named():
    target, *_ = world("T5")
    drafter = WatchingDrafter(RepeatLastDrafter(30, 32), taps=(0, 2))
    with pytest.raises(PairError, match=r"taps layers \(0, 2\).* which has 2"):
        Speculative(target, drafter, G, CAP, toys.NO_EOS)


def test_a_wrapped_drafter_is_as_the_inner_one_in_all_that_is_asked_of_it():
    model, _ = toys.tiny_gpt(max_length=40)
    inner = NeuralDrafter(model)
    for drafter in (toys.HesitantDrafter(inner), WrappedDrafter(WrappedDrafter(inner))):
        assert drafter.max_length == inner.max_length == 40
        assert drafter.taps == inner.taps == ()
        assert drafter.vocab_size == inner.vocab_size
