"""Packed kernels are those that share an input, side by side in as many parts."""

import dataclasses
import functools

import jax.numpy as jnp
import numpy as np

from specdec_jax.models import packing
from specdec_jax.models.lowering import Lowering
from tests.tiny_pairs import tiny_config

pack = functools.partial(packing.pack, tiny_config())


def kernel(first: int, width: int = 2) -> dict:
    numbers = jnp.arange(first, first + 3 * width, dtype=jnp.float32)
    return {"kernel": numbers.reshape(3, width)}


def params() -> dict:
    return {
        "token_embedder": {"embedding": jnp.ones((5, 3))},
        "encoder": {
            "layers_0": {
                "attention": {
                    name: kernel(10 * i)
                    for i, name in enumerate(("key", "out", "query", "value"))
                },
                "mlp": {"wi": kernel(100, 4), "wo": kernel(200)},
            }
        },
        "decoder": {
            "layers_0": {
                "self_attention": {
                    name: kernel(300 + 10 * i)
                    for i, name in enumerate(("key", "out", "query", "value"))
                },
                "encoder_decoder_attention": {
                    name: kernel(400 + 10 * i)
                    for i, name in enumerate(("key", "out", "query", "value"))
                },
                "mlp": {
                    "wi_0": kernel(500, 4),
                    "wi_1": kernel(600, 4),
                    "wo": kernel(700),
                },
            }
        },
    }


def stacked(*kernels: dict) -> np.ndarray:
    return np.concatenate([np.asarray(k["kernel"]) for k in kernels], axis=1)


def test_each_of_several_devices_has_its_part_of_every_kernel():
    config = dataclasses.replace(tiny_config(), lowering=Lowering(packed=2))
    mlp = packing.pack(config, params())["decoder"]["layers_0"]["mlp"]
    old = params()["decoder"]["layers_0"]["mlp"]
    halves = [
        np.asarray(old[name]["kernel"])[:, half]
        for half in (slice(0, 2), slice(2, 4))
        for name in ("wi_0", "wi_1")
    ]
    np.testing.assert_array_equal(
        mlp["wi_0_and_wi_1"]["kernel"], np.concatenate(halves, axis=1)
    )


def test_self_attentions_pack_query_key_and_value_in_this_order():
    plain, packed = params(), pack(params())
    for stack, name in (("encoder", "attention"), ("decoder", "self_attention")):
        old, new = plain[stack]["layers_0"][name], packed[stack]["layers_0"][name]
        assert set(new) == {"query_and_key_and_value", "out"}
        np.testing.assert_array_equal(
            new["query_and_key_and_value"]["kernel"],
            stacked(old["query"], old["key"], old["value"]),
        )
        np.testing.assert_array_equal(new["out"]["kernel"], old["out"]["kernel"])


def test_cross_attention_packs_only_what_reads_the_encoder():
    old = params()["decoder"]["layers_0"]["encoder_decoder_attention"]
    new = pack(params())["decoder"]["layers_0"]["encoder_decoder_attention"]
    assert set(new) == {"query", "key_and_value", "out"}
    np.testing.assert_array_equal(
        new["key_and_value"]["kernel"], stacked(old["key"], old["value"])
    )
    np.testing.assert_array_equal(new["query"]["kernel"], old["query"]["kernel"])


def test_gated_feed_forwards_are_packed_and_plain_ones_left():
    old, new = params(), pack(params())
    gated = new["decoder"]["layers_0"]["mlp"]
    assert set(gated) == {"wi_0_and_wi_1", "wo"}
    mlp = old["decoder"]["layers_0"]["mlp"]
    np.testing.assert_array_equal(
        gated["wi_0_and_wi_1"]["kernel"], stacked(mlp["wi_0"], mlp["wi_1"])
    )
    assert set(new["encoder"]["layers_0"]["mlp"]) == {"wi", "wo"}


def test_packing_leaves_its_argument_and_all_other_parameters_alone():
    plain = params()
    packed = pack(plain)
    assert set(plain["decoder"]["layers_0"]["mlp"]) == {"wi_0", "wi_1", "wo"}
    assert packed["token_embedder"]["embedding"] is plain["token_embedder"]["embedding"]


def test_packing_twice_is_packing_once():
    once = pack(params())
    twice = pack(once)
    assert set(twice["encoder"]["layers_0"]["attention"]) == set(
        once["encoder"]["layers_0"]["attention"]
    )
