"""Decodes on one device and on meshes of eight, and what the programs move.

A program of its own, since a process has as many CPU devices as it started with:
python -m tests.partitioning.eight_devices PAIR_FOLDER OUT.pickle
"""

import os
import pickle
import sys

if __name__ == "__main__":
    # What is tested does not depend on how well the programs are optimised.
    os.environ["XLA_FLAGS"] = (
        "--xla_force_host_platform_device_count=8 --xla_backend_optimization_level=0"
    )

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
from flax import traverse_util

from specdec_jax import auto_gamma, generate, load_pair
from specdec_jax.checkpoints import reading
from specdec_jax.checkpoints.formats import open_checkpoint
from specdec_jax.decoding import compiled
from specdec_jax.decoding.loop import finish, first_rows
from specdec_jax.decoding.settings import DecodeSettings
from specdec_jax.decoding.speculative import PairParams, Speculative
from specdec_jax.drafters.neural import NeuralDrafter
from specdec_jax.models.adapters import language_model
from specdec_jax.models.config import ModelConfig
from specdec_jax.models.gpt import GPTConfig
from specdec_jax.models.packing import pack
from specdec_jax.models.parameters import random_params
from specdec_jax.models.quantization import columns_axis, quantize, scale_name
from specdec_jax.models.t5 import T5Config
from specdec_jax.partitioning.hlo import Program
from specdec_jax.partitioning.loops import Partition
from specdec_jax.partitioning.mesh import lowering_on, make_mesh
from specdec_jax.partitioning.sharding import layout_of, partitioned
from specdec_jax.partitioning.topology import CHIPS
from tests import toy_models as toys
from tests.tiny_pairs import SENTENCES

G, M, LAYERS, PADDED = 3, 12, 2, 64
TARGET = T5Config(60, PADDED, 32, 8, 4, 64, 1, LAYERS)
DRAFTER = T5Config(60, PADDED, 16, 6, 4, 32, 1, 1)  # 6 heads
GPT = GPTConfig(60, PADDED, 32, 8, 4, 64, LAYERS, 48)  # both sides
PROMPT = toys.prompt_of([0, 5, 9], [0], [0, 7, 7, 8, 3], [0, 4], [0, 50])
ROWS = {
    "gamma": (3, 1, 2, 3, 0),
    "temperature": (0.0, 0.0, 1.0, 0.7, 1.5),
    "top_k": (0, 0, 0, 5, 0),
    "top_p": (1.0, 1.0, 1.0, 1.0, 0.9),
    "max_new_tokens": (12, 7, 12, 9, 11),
}
INPUTS = toys.encoder_inputs(3, (7, 2, 5, 1, 6), width=8, vocab_size=60)
BATCH = len(ROWS["gamma"])


@functools.cache
def params_of(config: ModelConfig, seed: int) -> dict:
    """Random parameters, sure enough of themselves that sums may round."""
    init = functools.partial(random_params, config)
    shapes = jax.eval_shape(init, jax.random.key(0))
    random = np.random.default_rng(seed)

    def weight(path, leaf):
        noise = random.normal(size=leaf.shape).astype(np.float32)
        if path[-1].key == "kernel":
            return jnp.asarray(1.5 * noise / np.sqrt(leaf.shape[0], dtype=np.float32))
        return jnp.asarray(1 + 0.1 * noise if path[-1].key == "scale" else noise)

    return jax.tree_util.tree_map_with_path(weight, shapes)


def placed(config: ModelConfig, params: dict, mesh, cut: bool):
    """A model and its parameters, packed, on a mesh or on one device."""
    config = dataclasses.replace(config, lowering=lowering_on(mesh, cut))
    model, params = language_model(config), pack(config, params)
    if mesh is None:
        return model, params
    layout = layout_of(config, mesh, cut)

    def place(path, leaf):
        name = "/".join(part.key for part in path)
        return jax.device_put(leaf, layout.parameter(name, leaf.shape))

    placed = jax.tree_util.tree_map_with_path(place, params)
    return partitioned(model, layout), placed


def decode(shape=None, shard_drafter=False, seed=5, gpt=False) -> dict:
    """A batch of unlike rows; the result's arrays and what each program moves."""
    mesh = shape and make_mesh(shape, jax.devices())
    first, second = (GPT, GPT) if gpt else (TARGET, DRAFTER)
    ours = params_of(first, 1)
    theirs = toys.similar_params(ours, 2, 0.1) if gpt else params_of(second, 2)
    target, target_params = placed(first, ours, mesh, True)
    drafter, draft_params = placed(second, theirs, mesh, shard_drafter)
    params = PairParams(target_params, draft_params)
    decoder = Speculative(target, NeuralDrafter(drafter), G, M, toys.EOS)
    rows = DecodeSettings(**ROWS, max_gamma=G).rows(BATCH)
    inputs, prompt = INPUTS, toys.start_prompt(BATCH)
    if gpt:
        inputs, prompt = toys.only_prompts(BATCH), PROMPT
    given = (toys.keys(BATCH, seed), inputs, prompt, rows)
    if mesh is not None:
        partition = Partition(mesh)
        decoder, given = partition.decoder(decoder), partition.deal(*given)
    keys, inputs, prompt, rows = given
    begin = compiled.begin.lower(decoder, params, inputs, prompt).compile()
    state = begin(params, inputs, prompt)
    run = compiled.run.lower(decoder, keys, state, params, rows).compile()
    state = run(keys, state, params, rows)
    return {
        "result": jax.tree.map(np.asarray, first_rows(finish(state), BATCH)),
        "caches": [
            [getattr(x.sharding, "spec", None) for x in jax.tree.leaves(cache)]
            for cache in (getattr(state.target_cache, "past", None), state.draft_state)
        ],
        "begin": moved(begin),
        "run": moved(run),
    }


def moved(program) -> list[tuple[str, list, bool]]:
    """Kind, arrays, and whether it is in the loop, of each collective."""
    parsed = Program.parse(program.as_text())
    in_loop = set(parsed.collectives(parsed.loop_body))
    return [
        (i.opcode.removesuffix("-start"), i.arrays, i in in_loop)
        for i in parsed.collectives()
    ]


def loaded(folder: str, mesh) -> dict:
    """A pair from disk on a mesh, through the front door, with an odd batch.

    Also the shapes that were read of each shape of parameter.
    """
    read = {}
    put = reading._Place.put

    def spy(place):
        shapes = {part.array.shape for part in place.parts}
        read.setdefault(place.parameter.shape, set()).update(shapes)
        return put(place)

    reading._Place.put = spy
    pair = load_pair(folder, mesh=mesh)
    reading._Place.put = put
    settings = DecodeSettings(temperature=[0.0, 1.0, 0.8], max_new_tokens=[9, 4, 7])
    out = generate(pair, SENTENCES[:3], settings, seed=1, method="autoregressive")
    auto_gamma.chip_of = lambda device: CHIPS["v5e"]
    auto = DecodeSettings(gamma="auto", max_gamma=5)
    return {
        "tokens": out.tokens,
        "stats": out.stats,
        "texts": out.texts,
        "read": read,
        "auto": auto_gamma.choose(pair, auto, batch=3, source=8),
        "is_sharded": [
            auto_gamma.is_sharded(side)
            for side in (pair.params.target, pair.params.drafter)
        ],
    }


def quantized(folder: str, mesh) -> dict:
    """An int8 target on a mesh: tokens, and its parameters beside expected ones."""
    pair = load_pair(folder, mesh=mesh, target_quantization="int8")
    checkpoint = open_checkpoint(f"{folder}/target")
    lowering = lowering_on(pair.partition and pair.partition.mesh)
    flat = {}
    for name, leaf in flattened(checkpoint.load()).items():
        columns = columns_axis(checkpoint.config, name)
        flat[name] = leaf
        if columns is not None:
            flat[name], flat[scale_name(name)] = quantize(leaf, columns)
    config = dataclasses.replace(checkpoint.config, lowering=lowering)
    expected = pack(config, traverse_util.unflatten_dict(flat, sep="/"))
    out = generate(pair, SENTENCES[:3], gamma=2, max_new_tokens=8)
    return {
        "tokens": out.tokens,
        "found": jax.tree.map(np.asarray, flattened(pair.params.target)),
        "expected": jax.tree.map(np.asarray, flattened(expected)),
        "specs": {
            name: getattr(leaf.sharding, "spec", None)
            for name, leaf in flattened(pair.params.target).items()
        },
    }


flattened = functools.partial(traverse_util.flatten_dict, sep="/")

CASES = {
    "one device": {},
    "1x8": {"shape": (1, 8)},
    "2x4": {"shape": (2, 4)},
    "4x2": {"shape": (4, 2)},
    "8x1": {"shape": (8, 1)},
    "2x4, drafter cut": {"shape": (2, 4), "shard_drafter": True},
    "GPTs": {"gpt": True},
    "GPTs, 2x4": {"gpt": True, "shape": (2, 4)},
}


def main(folder: str, out: str) -> None:
    jax.config.update("jax_numpy_rank_promotion", "raise")
    jax.config.update("jax_numpy_dtype_promotion", "strict")
    found = {name: decode(**case) for name, case in CASES.items()}
    found |= {"loaded": loaded(folder, None), "loaded, 2x2": loaded(folder, (2, 2))}
    found |= {
        f"int8, {mesh}": quantized(folder, mesh)
        for mesh in (None, (1, 8), (2, 4), (4, 2))
    }
    with open(out, "wb") as file:
        pickle.dump(found, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
