"""T5X: its `examples/t5` network and `temperature_sample`, the paper's baseline.

The network computes the cross-attention's keys and values anew in each step, and looks
embeddings up by a product with one-hot rows; that is T5X's own, and stays.
"""

import dataclasses
import functools
import time
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from t5x import decoding
from t5x.examples.t5 import network

from specdec_jax.data import batching
from specdec_jax.data.tokenizer import Tokenizer
from specdec_jax.experiments.peers.catalogue import versions
from specdec_jax.experiments.peers.protocol import Decoded, PeerAbsent, Task
from specdec_jax.experiments.peers.shared_weights import unpadded
from specdec_jax.experiments.peers.threads import available_cores
from specdec_jax.models import inputs
from specdec_jax.models.t5 import T5Config

BUCKETS, DISTANCE = 32, 128  # of relative positions; T5X has no other


class T5X:
    """One jitted program for each padded length of the prompt, as ours has."""

    def __init__(self, task: Task):
        """Loads the weights.

        Raises:
          PeerAbsent: the target is a T5 that T5X's `examples/t5` does not have.
        """
        config, params = unpadded(task.target, task.tokenizer)
        self._ids = Tokenizer(task.tokenizer).special_ids
        self._params = jax.device_put(params)
        self._program = jax.jit(
            functools.partial(
                _decode, _network(config), self._ids.eos_id, task.max_new_tokens
            )
        )
        self._temperature = jnp.float32(task.temperature)
        self.versions = versions("t5x", "jax", "jaxlib", "flax")
        self.settings = {"topk": 0, "topp": 0.0, "threads": available_cores()}

    def decode(self, tokens: Sequence[int], seed: int) -> Decoded:
        width = batching.bucketed(len(tokens), inputs.BUCKET)
        given = (
            jnp.asarray(batching.pad([tokens], width, self._ids.pad_id)),
            jax.random.PRNGKey(seed),  # T5X splits keys of the old kind
            self._temperature,
        )
        jax.block_until_ready(given)
        start = time.perf_counter()
        output = jax.block_until_ready(self._program(self._params, *given))
        seconds = time.perf_counter() - start
        ids = np.asarray(output).tolist()
        eos_id = self._ids.eos_id
        length = ids.index(eos_id) + 1 if eos_id in ids else len(ids)
        # temperature_sample runs the target once a token, and ends at EOS.
        return Decoded(seconds, ids[:length], length)


def _network(config: T5Config) -> network.Transformer:
    """T5X's network of our sizes."""
    if not config.shared_relative_bias:
        raise PeerAbsent("T5X's examples/t5 has one relative bias for all layers")
    if (
        config.relative_attention_num_buckets,
        config.relative_attention_max_distance,
    ) != (BUCKETS, DISTANCE):
        raise PeerAbsent(f"T5X has {BUCKETS} buckets up to a distance of {DISTANCE}")
    known = {field.name for field in dataclasses.fields(network.T5Config)}
    sizes = {k: v for k, v in dataclasses.asdict(config).items() if k in known}
    sizes |= {"vocab_size": config.padded_vocab_size, "dtype": jnp.float32}
    return network.Transformer(network.T5Config(**sizes))


def _decode(model, eos_id, max_new_tokens, params, encoder_tokens, key, temperature):
    """Encodes, then samples: ids [M]."""
    variables = {"params": params}
    encoded = model.apply(
        variables, encoder_tokens, enable_dropout=False, method=model.encode
    )
    decoder_tokens = jnp.zeros((1, max_new_tokens), jnp.int32)

    def logits_of(tokens, cache, **options):
        return model.apply(
            variables | cache,
            encoded,
            encoder_tokens,
            tokens,
            tokens,
            enable_dropout=False,
            decode=True,
            mutable=["cache"],
            method=model.decode,
            **options,
        )

    # The cache of a pass over all places; its shapes are all that is needed of it.
    _, shapes = jax.eval_shape(lambda: logits_of(decoder_tokens, {}))
    cache = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes["cache"])

    def tokens_to_logits(state):
        logits, updated = logits_of(
            state.cur_token, {"cache": state.cache}, max_decode_length=max_new_tokens
        )
        return logits[:, 0], updated["cache"]

    outputs, _ = decoding.temperature_sample(
        decoder_tokens,
        cache,
        tokens_to_logits,
        eos_id,
        decode_rng=key,
        temperature=temperature,
        topk=0,
    )
    return outputs[0, -1]
