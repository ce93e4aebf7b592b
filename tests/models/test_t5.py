"""T5 against golden logits of PyTorch `transformers`, and against itself."""

import dataclasses
import functools
import itertools
import json
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import traverse_util

from specdec_jax.models.packing import pack
from specdec_jax.models.t5 import T5, T5Config

GOLDEN = pathlib.Path(__file__).parent / "golden"
CASES = ("t5_v1_1", "t5_v1_0")
TOLERANCE = {"rtol": 1e-4, "atol": 1e-4}


@dataclasses.dataclass(frozen=True, eq=False)
class Golden:
    """A file of `golden/make_t5_golden.py`: B rows, and jitted calls of the network."""

    model: T5
    variables: dict
    encoder_tokens: jax.Array
    encoder_mask: jax.Array
    decoder_tokens: jax.Array
    logits: np.ndarray

    @functools.cached_property
    def extend(self):
        return jax.jit(functools.partial(self.model.apply, method="extend"))

    @functools.cached_property
    def start_cache(self):
        start = functools.partial(self.model.apply, method="start_cache")
        return jax.jit(start, static_argnums=3)

    def with_config(self, **changes):
        """The same weights in a network with another config."""
        model = T5(dataclasses.replace(self.model.config, **changes))
        variables = self.variables
        if model.config.packed and not self.model.config.packed:
            variables = {"params": pack(variables["params"])}
        return dataclasses.replace(self, model=model, variables=variables)

    def teacher_forced(self):
        return jax.jit(self.model.apply)(
            self.variables, self.encoder_tokens, self.encoder_mask, self.decoder_tokens
        )


@functools.cache
def load(case: str) -> Golden:
    with np.load(GOLDEN / f"{case}.npz") as file:
        data = dict(file)
    params = {
        name.removeprefix("params/"): jnp.asarray(data[name], jnp.float32)
        for name in data
        if name.startswith("params/")
    }
    return Golden(
        model=T5(T5Config(**json.loads(str(data["config"])))),
        variables={"params": traverse_util.unflatten_dict(params, sep="/")},
        encoder_tokens=jnp.asarray(data["encoder_tokens"]),
        encoder_mask=jnp.asarray(data["encoder_mask"]),
        decoder_tokens=jnp.asarray(data["decoder_tokens"]),
        logits=data["logits"],
    )


@pytest.fixture(params=CASES)
def golden(request) -> Golden:
    return load(request.param)


# Every decoding test begins with one block of this size, in a cache of one size, so
# that a block of any one size is compiled once for a network.
PREFIX = 9


def start(golden: Golden):
    slots = golden.decoder_tokens.shape[1] + PREFIX
    return golden.start_cache(
        golden.variables, golden.encoder_tokens, golden.encoder_mask, slots
    )


def decode(golden: Golden, chunk: int, starts, keep, junk_seed: int):
    """Feeds every row its decoder tokens in blocks; returns the logits of each.

    Each block begins with tokens that the row keeps and ends with junk that it forgets,
    as after rejected guesses.

    Args:
      golden: the network and its tokens.
      chunk: T of every call but the first.
      starts: [B], how many tokens each row keeps of the first call, 1 to PREFIX.
      keep: step -> [B], how many tokens of its block each row keeps, 1 to chunk.
      junk_seed: of the ids that fill what is left of a block.

    Returns:
      Logits [B, T, V] of all decoder tokens.
    """
    tokens = np.asarray(golden.decoder_tokens)
    batch, total = tokens.shape
    rng = np.random.default_rng(junk_seed)
    cache = start(golden)
    result = np.full(golden.logits.shape, np.nan, np.float32)
    lengths = np.zeros(batch, np.int32)
    for step in itertools.count():
        kept = starts if step == 0 else keep(step)
        kept = np.minimum(kept, total - lengths)
        width = PREFIX if step == 0 else chunk
        block = rng.integers(0, golden.model.config.vocab_size, (batch, width))
        for row, (old, count) in enumerate(zip(lengths, kept, strict=True)):
            block[row, :count] = tokens[row, old : old + count]
        logits, _, cache = golden.extend(
            golden.variables, cache, jnp.asarray(block, jnp.int32), jnp.asarray(lengths)
        )
        for row, (old, count) in enumerate(zip(lengths, kept, strict=True)):
            result[row, old : old + count] = np.asarray(logits)[row, :count]
        lengths = (lengths + kept).astype(np.int32)
        if (lengths == total).all():
            return result


def test_teacher_forcing_equals_golden(golden):
    logits = golden.teacher_forced()
    assert logits.dtype == jnp.float32
    np.testing.assert_allclose(logits, golden.logits, **TOLERANCE)


@pytest.mark.parametrize("chunk", [1, 2, 3, 5])
def test_decoding_in_chunks_equals_golden_with_rows_at_unlike_offsets(golden, chunk):
    starts = np.array([9, 2, 5])[: len(golden.logits)]
    logits = decode(golden, chunk, starts, lambda _: np.full_like(starts, chunk), 1)
    np.testing.assert_allclose(logits, golden.logits, **TOLERANCE)


@pytest.mark.parametrize("chunk", [2, 5])
def test_rows_that_each_forget_junk_at_every_step_equal_golden(golden, chunk):
    rows = np.arange(len(golden.logits))
    starts = 1 + rows
    keep = lambda step: 1 + (step + 2 * rows) % chunk  # noqa: E731
    logits = decode(golden, chunk, starts, keep, 2)
    np.testing.assert_allclose(logits, golden.logits, **TOLERANCE)


def test_a_cache_after_a_rollback_decodes_as_if_it_had_never_seen_the_junk(golden):
    rows = len(golden.logits)
    tokens = np.asarray(golden.decoder_tokens)
    lengths = np.array([3, 8, 6], np.int32)[:rows]
    call = functools.partial(golden.extend, golden.variables)
    _, _, clean = call(start(golden), tokens[:, :PREFIX], np.zeros(rows, np.int32))
    # Junk over all that follows each row's length, more than once.
    junked = clean
    rng = np.random.default_rng(3)
    for begin in (lengths, lengths + 4, lengths + 1):
        junk = rng.integers(0, 90, (rows, 5)).astype(np.int32)
        _, _, junked = call(junked, junk, begin)
    before, after = np.asarray(clean.past[0].keys), np.asarray(junked.past[0].keys)
    changed = (before != after).any(axis=(1, 3))
    for row, length in enumerate(lengths):
        assert changed[row, length : length + 9].all()
        assert not changed[row, :length].any()

    fresh = np.stack([tokens[row, n : n + 5] for row, n in enumerate(lengths)])
    expected, expected_features, _ = call(clean, fresh, lengths)
    logits, features, _ = call(junked, fresh, lengths)
    np.testing.assert_array_equal(logits, expected)
    np.testing.assert_array_equal(features, expected_features)


@pytest.mark.parametrize("padding", [1, 90])
def test_encoder_padding_of_any_amount_changes_nothing(golden, padding):
    row = 1
    real = int(golden.encoder_mask[row].sum())
    tokens = np.full((1, real + padding), 17, np.int32)
    tokens[0, :real] = golden.encoder_tokens[row, :real]
    alone = dataclasses.replace(
        golden,
        encoder_tokens=tokens,
        encoder_mask=np.arange(real + padding)[None, :] < real,
        decoder_tokens=golden.decoder_tokens[row : row + 1],
    )
    logits, _, _ = alone.extend(
        alone.variables, start(alone), alone.decoder_tokens, np.zeros(1, np.int32)
    )
    np.testing.assert_allclose(logits[0], golden.logits[row], **TOLERANCE)


def test_packed_equals_unpacked(golden):
    packed = golden.with_config(packed=True)
    logits, _, _ = packed.extend(
        packed.variables,
        start(packed),
        packed.decoder_tokens,
        np.zeros(len(golden.logits), np.int32),
    )
    np.testing.assert_allclose(logits, golden.logits, **TOLERANCE)


def test_packed_parameters_are_those_of_a_packed_network(golden):
    packed = golden.with_config(packed=True)
    args = (packed.encoder_tokens, packed.encoder_mask, packed.decoder_tokens)
    fresh = jax.eval_shape(packed.model.init, jax.random.key(0), *args)
    assert jax.tree.map(jnp.shape, fresh["params"]) == jax.tree.map(
        jnp.shape, packed.variables["params"]
    )


@pytest.mark.parametrize(("case", "cast"), [("t5_v1_1", False), ("t5_v1_0", True)])
def test_bfloat16_is_close_and_its_logits_are_float32(case, cast):
    golden = load(case)
    low = golden.with_config(dtype="bfloat16", packed=cast)
    if cast:
        variables = jax.tree.map(lambda x: x.astype(jnp.bfloat16), low.variables)
        low = dataclasses.replace(low, variables=variables)
    rows = np.zeros(len(golden.logits), np.int32)
    logits, features, cache = low.extend(
        low.variables, start(low), low.decoder_tokens, rows
    )
    assert logits.dtype == jnp.float32
    assert features.dtype == jnp.bfloat16
    assert cache.past[0].keys.dtype == cache.encoded[0].keys.dtype == jnp.bfloat16
    # bfloat16 keeps 8 bits: some 0.4% at each of a few dozen roundings.
    error = np.abs(logits - golden.logits)
    assert 0.001 < error.mean() / golden.logits.std() < 0.03
    assert error.max() < 0.25 * golden.logits.std()


def test_float16_is_refused():
    with pytest.raises(ValueError, match="float16.*overflows"):
        dataclasses.replace(load("t5_v1_1").model.config, dtype="float16")


def test_a_vocabulary_larger_than_its_padding_is_refused():
    with pytest.raises(ValueError, match="vocab_size must be in 1..padded.*97"):
        dataclasses.replace(load("t5_v1_1").model.config, vocab_size=97)


def test_dropout_draws_by_its_key_and_only_in_training():
    golden = load("t5_v1_1")

    def train(key, model):
        args = (golden.encoder_tokens, golden.encoder_mask, golden.decoder_tokens)
        rngs = {"dropout": key}
        return model.apply(golden.variables, *args, False, rngs=rngs)

    dropped = jax.jit(functools.partial(train, model=golden.model))
    first, other = dropped(jax.random.key(1)), dropped(jax.random.key(2))
    np.testing.assert_array_equal(first, dropped(jax.random.key(1)))
    assert np.abs(first - other).max(axis=(1, 2)).min() > 0.1
    assert np.abs(first - golden.logits).max(axis=(1, 2)).min() > 0.1
    undropped = jax.jit(
        functools.partial(train, model=golden.with_config(dropout_rate=0.0).model)
    )
    logits = undropped(jax.random.key(1))
    np.testing.assert_allclose(logits, golden.logits, **TOLERANCE)


def test_dropout_has_one_mask_a_row_but_at_the_output_of_the_encoder():
    model = T5(T5Config(13, 16, 8, 2, 3, 5, 0, 0, dropout_rate=0.5))
    tokens = jnp.full((2, 12), 4, jnp.int32)
    variables = model.init(jax.random.key(0), tokens, tokens > 0, tokens)
    call = functools.partial(
        model.apply,
        variables,
        tokens,
        tokens > 0,
        deterministic=False,
        rngs={"dropout": jax.random.key(1)},
    )
    # The mask of the embeddings drops features of whole rows, that of the output
    # single numbers. Without layers the decoder's logits show its own masks alone.
    dropped = np.asarray(call(method="encode") == 0)
    of_whole_rows = dropped.all(axis=1)
    assert 0 < of_whole_rows.sum() < dropped.any(axis=1).sum()
    assert (of_whole_rows[0] != of_whole_rows[1]).any()
    logits = np.asarray(call(decoder_tokens=tokens))
    np.testing.assert_allclose(logits, logits[:, :1].repeat(12, axis=1), atol=1e-6)
    assert (logits[0] != logits[1]).any()


def test_gradient_reaches_every_parameter(golden):
    def loss(params):
        logits = golden.model.apply(
            {"params": params},
            golden.encoder_tokens,
            golden.encoder_mask,
            golden.decoder_tokens[:, :24],
        )
        labels = golden.decoder_tokens[:, 1:25, None]
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels, axis=-1).mean()

    gradients = jax.jit(jax.grad(loss))(golden.variables["params"])
    flat = traverse_util.flatten_dict(gradients, sep="/")
    assert len(flat) == len(traverse_util.flatten_dict(golden.variables["params"]))
    for name, gradient in flat.items():
        assert jnp.isfinite(gradient).all(), name
        reached = float((gradient != 0).mean())
        # Buckets of distances that did not occur have none.
        assert reached > (0.4 if "rel_embedding" in name else 0.9), name


def attention_shapes(layer: str) -> dict:
    return {
        f"{layer}/query/kernel": (8, 6),
        f"{layer}/key/kernel": (8, 6),
        f"{layer}/value/kernel": (8, 6),
        f"{layer}/out/kernel": (6, 8),
    }


SHARED_SHAPES = {
    "token_embedder/embedding": (16, 8),
    "encoder/relpos_bias/rel_embedding": (2, 32),
    "encoder/layers_0/pre_attention_layer_norm/scale": (8,),
    **attention_shapes("encoder/layers_0/attention"),
    "encoder/layers_0/pre_mlp_layer_norm/scale": (8,),
    "encoder/layers_0/mlp/wo/kernel": (5, 8),
    "encoder/encoder_norm/scale": (8,),
    "decoder/relpos_bias/rel_embedding": (2, 32),
    "decoder/layers_0/pre_self_attention_layer_norm/scale": (8,),
    **attention_shapes("decoder/layers_0/self_attention"),
    "decoder/layers_0/pre_cross_attention_layer_norm/scale": (8,),
    **attention_shapes("decoder/layers_0/encoder_decoder_attention"),
    "decoder/layers_0/pre_mlp_layer_norm/scale": (8,),
    "decoder/layers_0/mlp/wo/kernel": (5, 8),
    "decoder/layers_1/pre_self_attention_layer_norm/scale": (8,),
    **attention_shapes("decoder/layers_1/self_attention"),
    "decoder/layers_1/pre_cross_attention_layer_norm/scale": (8,),
    **attention_shapes("decoder/layers_1/encoder_decoder_attention"),
    "decoder/layers_1/pre_mlp_layer_norm/scale": (8,),
    "decoder/layers_1/mlp/wo/kernel": (5, 8),
    "decoder/decoder_norm/scale": (8,),
}
V1_1_SHAPES = {
    "encoder/layers_0/mlp/wi_0/kernel": (8, 5),
    "encoder/layers_0/mlp/wi_1/kernel": (8, 5),
    "decoder/layers_0/mlp/wi_0/kernel": (8, 5),
    "decoder/layers_0/mlp/wi_1/kernel": (8, 5),
    "decoder/layers_1/mlp/wi_0/kernel": (8, 5),
    "decoder/layers_1/mlp/wi_1/kernel": (8, 5),
    "decoder/logits_dense/kernel": (8, 16),
}
V1_0_SHAPES = {
    "encoder/layers_0/mlp/wi/kernel": (8, 5),
    "decoder/layers_0/mlp/wi/kernel": (8, 5),
    "decoder/layers_1/mlp/wi/kernel": (8, 5),
}


@pytest.mark.parametrize(
    ("changes", "shapes"),
    [
        ({}, V1_1_SHAPES),
        ({"mlp_activations": ("relu",), "logits_via_embedding": True}, V1_0_SHAPES),
    ],
    ids=["v1_1", "v1_0"],
)
def test_parameters_have_exactly_t5x_names_and_shapes(changes, shapes):
    config = T5Config(13, 16, 8, 2, 3, 5, 1, 2, **changes)
    tokens = jnp.ones((1, 2), jnp.int32)
    variables = jax.eval_shape(
        T5(config).init, jax.random.key(0), tokens, tokens > 0, tokens
    )
    flat = traverse_util.flatten_dict(variables["params"], sep="/")
    assert {name: leaf.shape for name, leaf in flat.items()} == SHARED_SHAPES | shapes
    assert {leaf.dtype for leaf in flat.values()} == {jnp.dtype("float32")}


def test_initial_weights_have_t5x_variances():
    config = T5Config(400, 512, 256, 4, 16, 384, 0, 1)
    tokens = jnp.ones((1, 2), jnp.int32)
    init = jax.jit(T5(config).init)
    params = init(jax.random.key(0), tokens, tokens > 0, tokens)["params"]
    layer = params["decoder"]["layers_0"]
    attention = layer["self_attention"]

    def check(kernel, deviation, cut):
        np.testing.assert_allclose(kernel.std(), deviation, rtol=0.05)
        # A normal of 16,384 and more draws passes 3 deviations, a cut one 2.3 never.
        assert (abs(kernel).max() < 2.3 * deviation) == cut

    check(attention["query"]["kernel"], 256**-0.5 / 16**0.5, cut=False)
    check(attention["key"]["kernel"], 256**-0.5, cut=False)
    check(attention["value"]["kernel"], 256**-0.5, cut=False)
    check(attention["out"]["kernel"], 64**-0.5, cut=False)
    check(layer["mlp"]["wi_0"]["kernel"], 256**-0.5, cut=True)
    check(layer["mlp"]["wo"]["kernel"], 384**-0.5, cut=True)
    check(params["decoder"]["logits_dense"]["kernel"], 256**-0.5, cut=True)
    check(params["token_embedder"]["embedding"], 1.0, cut=False)
    for norm in (layer["pre_mlp_layer_norm"], params["decoder"]["decoder_norm"]):
        np.testing.assert_array_equal(norm["scale"], 1.0)
    # Uniform within sqrt(3 / mean of fans).
    bias = params["decoder"]["relpos_bias"]["rel_embedding"]
    assert 0.9 < abs(bias).max() / (3 / ((4 + 32) / 2)) ** 0.5 <= 1.0
