"""Makes the T5X checkpoints beside it, with T5X's own networks, decoding and writer.

`t5.tar.gz` is a tiny random `examples/t5`; `scalable_t5.tar.gz` a tiny
`examples/scalable_t5`, its layers stacked; `orbax.tar.gz` is the former written by T5X
through Orbax. `t5x.npz` holds T5X's logits of teacher forcing and its greedily decoded
tokens. With a checkout of google-research/t5x and what it imports:

    PYTHONPATH=<checkout> python tests/checkpoints/golden/make_t5x_golden.py
"""

import pathlib
import shutil
import tempfile

import jax
import jax.numpy as jnp
import numpy as np
import seqio
from flax.linen import partitioning as flax_partitioning
from t5x import adafactor, checkpoints, decoding, models, partitioning, utils
from t5x.examples.scalable_t5 import network as scalable
from t5x.examples.t5 import network as minimal

HERE = pathlib.Path(__file__).parent
SIZES = dict(
    vocab_size=64,
    emb_dim=16,
    num_heads=2,
    head_dim=6,
    num_encoder_layers=2,
    num_decoder_layers=2,
    mlp_dim=24,
    mlp_activations=("gelu", "linear"),
    dropout_rate=0.0,
    dtype="float32",
    logits_via_embedding=False,
)
STEP, NEW_TOKENS = 3, 12


def lively(params, seed):
    """Weights that make logits differ; those of a new network are nearly flat."""
    random = np.random.default_rng(seed)

    def draw(path, leaf):
        name = str(path[-1])
        noise = random.standard_normal(leaf.shape).astype(np.float32)
        if "scale" in name:
            return jnp.asarray(1 + 0.2 * noise)
        if "embedding" in name:
            return jnp.asarray(noise)
        return jnp.asarray(0.35 * noise)

    return jax.tree_util.tree_map_with_path(draw, params)


def main():
    rng = np.random.default_rng(0)
    # T5X takes id 0 for padding.
    encoder_tokens = rng.integers(2, 64, (3, 9)).astype(np.int32)
    encoder_tokens *= np.arange(9) < np.array([[9], [4], [2]])
    decoder_tokens = rng.integers(2, 64, (3, NEW_TOKENS)).astype(np.int32)
    decoder_inputs = np.pad(decoder_tokens, ((0, 0), (1, 0)))[:, :-1]
    results = {"encoder_tokens": encoder_tokens, "decoder_inputs": decoder_inputs}
    for name, network, extra in (
        ("t5", minimal, {}),
        ("scalable_t5", scalable, {"scan_layers": True, "param_scan_axis": 1}),
    ):
        vocabulary = seqio.PassThroughVocabulary(64, eos_id=1)
        model = models.EncoderDecoderModel(
            network.Transformer(network.T5Config(**SIZES, **extra)),
            vocabulary,
            vocabulary,
            optimizer_def=adafactor.Adafactor(
                0.001, logical_factor_rules=adafactor.standard_logical_factor_rules()
            ),
            decode_fn=decoding.temperature_sample,
        )
        shapes = {"encoder_input_tokens": (3, 9), "decoder_input_tokens": (3, 12)}
        partitioner = partitioning.PjitPartitioner(num_partitions=1)
        maker = utils.TrainStateInitializer(
            optimizer_def=model.optimizer_def,
            init_fn=model.get_initial_variables,
            input_shapes=shapes,
            partitioner=partitioner,
        )
        state = maker.from_scratch(jax.random.PRNGKey(0))
        state = state.replace_params(lively(state.params, seed=len(name)))
        state = state.replace_step(STEP)
        batch = {
            "encoder_input_tokens": jnp.asarray(encoder_tokens),
            "decoder_input_tokens": jnp.asarray(decoder_inputs),
            "decoder_target_tokens": jnp.asarray(decoder_tokens),
        }
        with flax_partitioning.axis_rules(()):
            results[f"{name}/logits"] = np.asarray(
                model._compute_logits(state.params, batch)
            )
            tokens, _ = model.predict_batch_with_aux(
                state.params, batch, decoder_params={"topk": 1, "temperature": 1.0}
            )
        results[f"{name}/generated"] = np.asarray(tokens)
        write(partitioner, maker, state, name)
    np.savez_compressed(HERE / "t5x.npz", **results)
    for name, value in results.items():
        print(name, value.shape, value if "generated" in name else "")


def write(partitioner, maker, state, name):
    place = pathlib.Path(tempfile.mkdtemp())
    checkpoints.Checkpointer(
        maker.global_train_state_shape, partitioner, str(place / "own")
    ).save(state)
    folders = {name: place / "own"}
    if name == "t5":
        (place / "orbax").mkdir()  # or T5X writes beside it
        manager = checkpoints.OrbaxCheckpointManagerInterface(
            str(place / "orbax"), maker.global_train_state_shape, partitioner
        )
        manager.save(state, force=True)
        manager.close()
        folders["orbax"] = place / "orbax"
    for kind, folder in folders.items():
        shutil.make_archive(str(HERE / kind), "gztar", folder)


if __name__ == "__main__":
    main()
