"""Makes the golden T5 files beside it, with a network that is not ours.

Each file holds one tiny random T5 and what PyTorch `transformers` computes with it:
the sizes (`config`, JSON), the weights (`params/...`, under T5X's names), the inputs
and the logits of teacher forcing. The tests need none of the packages used here:

    python -m venv /tmp/golden && /tmp/golden/bin/pip install torch==2.13.0 transformers
    /tmp/golden/bin/python tests/models/golden/make_t5_golden.py

The files in the repository were made with torch 2.13.0 (CPU) and transformers 5.24.0.

Weights are drawn here, since those of `transformers` are degenerate (norms of exactly
1, relative biases near 0), and they are rounded to float16, in which they are stored,
before the network runs: the file holds exactly the weights that gave the logits.
"""

import json
import pathlib

import numpy as np
import torch
from transformers import T5Config, T5ForConditionalGeneration

HERE = pathlib.Path(__file__).parent

# Inputs long enough for every logarithmic bucket of the encoder; of the decoder's, v1.0
# has all and v1.1 those up to 48. In v1.0 heads x head size is not the width.
CASES = {
    "t5_v1_1": {
        "sizes": {
            "vocab_size": 90,
            "padded_vocab_size": 96,
            "emb_dim": 32,
            "num_heads": 4,
            "head_dim": 8,
            "mlp_dim": 48,
            "num_encoder_layers": 2,
            "num_decoder_layers": 3,
            "mlp_activations": ["gelu", "linear"],
            "logits_via_embedding": False,
        },
        "encoder_lengths": [136, 57, 3],
        "decoder_length": 48,
        "seed": 11,
    },
    "t5_v1_0": {
        "sizes": {
            "vocab_size": 93,
            "padded_vocab_size": 96,
            "emb_dim": 32,
            "num_heads": 3,
            "head_dim": 8,
            "mlp_dim": 64,
            "num_encoder_layers": 2,
            "num_decoder_layers": 2,
            "mlp_activations": ["relu"],
            "logits_via_embedding": True,
        },
        "encoder_lengths": [21, 40],
        "decoder_length": 136,
        "seed": 10,
    },
}


def draw_weights(sizes: dict, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Float16 weights by T5X's names, at scales that give lively attention."""
    width, inner = sizes["emb_dim"], sizes["num_heads"] * sizes["head_dim"]
    params = {}

    def normal(name, shape, std):
        params[name] = (rng.standard_normal(shape) * std).astype(np.float16)

    def norm(name):
        params[f"{name}/scale"] = rng.uniform(0.5, 1.5, width).astype(np.float16)

    def attention(name):
        # Logits of a query and a key then have a deviation of about 2.
        for kernel, gain in (("query", 0.7), ("key", 1.0), ("value", 1.0)):
            normal(f"{name}/{kernel}/kernel", (width, inner), gain * width**-0.5)
        normal(f"{name}/out/kernel", (inner, width), 1.5 * inner**-0.5)

    def mlp(name):
        gated = len(sizes["mlp_activations"]) > 1
        for kernel in ("wi_0", "wi_1") if gated else ("wi",):
            normal(f"{name}/{kernel}/kernel", (width, sizes["mlp_dim"]), width**-0.5)
        shape = (sizes["mlp_dim"], width)
        normal(f"{name}/wo/kernel", shape, 1.5 * sizes["mlp_dim"] ** -0.5)

    normal("token_embedder/embedding", (sizes["padded_vocab_size"], width), 1.0)
    for stack in ("encoder", "decoder"):
        normal(f"{stack}/relpos_bias/rel_embedding", (sizes["num_heads"], 32), 1.0)
        norm(f"{stack}/{stack}_norm")
    for i in range(sizes["num_encoder_layers"]):
        layer = f"encoder/layers_{i}"
        norm(f"{layer}/pre_attention_layer_norm")
        attention(f"{layer}/attention")
        norm(f"{layer}/pre_mlp_layer_norm")
        mlp(f"{layer}/mlp")
    for i in range(sizes["num_decoder_layers"]):
        layer = f"decoder/layers_{i}"
        norm(f"{layer}/pre_self_attention_layer_norm")
        attention(f"{layer}/self_attention")
        norm(f"{layer}/pre_cross_attention_layer_norm")
        attention(f"{layer}/encoder_decoder_attention")
        norm(f"{layer}/pre_mlp_layer_norm")
        mlp(f"{layer}/mlp")
    if not sizes["logits_via_embedding"]:
        shape = (width, sizes["padded_vocab_size"])
        normal("decoder/logits_dense/kernel", shape, 1.5 * width**-0.5)
    return params


def torch_name(name: str) -> str:
    """The name in `transformers` of a weight of T5X."""
    whole = {
        "token_embedder/embedding": "shared",
        "decoder/logits_dense/kernel": "lm_head",
        "encoder/encoder_norm/scale": "encoder.final_layer_norm",
        "decoder/decoder_norm/scale": "decoder.final_layer_norm",
    }
    if name in whole:
        return whole[name] + ".weight"
    stack, layer, *rest = name.split("/")
    first = f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
    if layer == "relpos_bias":
        return first
    sublayers = {
        "attention": (0, "SelfAttention"),
        "self_attention": (0, "SelfAttention"),
        "encoder_decoder_attention": (1, "EncDecAttention"),
        "mlp": (1 if stack == "encoder" else 2, "DenseReluDense"),
    }
    block = f"{stack}.block.{layer.removeprefix('layers_')}.layer"
    if rest[0].startswith("pre_"):
        of = rest[0].removeprefix("pre_").removesuffix("_layer_norm")
        of = {"cross_attention": "encoder_decoder_attention"}.get(of, of)
        return f"{block}.{sublayers[of][0]}.layer_norm.weight"
    index, module = sublayers[rest[0]]
    kernels = {"query": "q", "key": "k", "value": "v", "out": "o"}
    return f"{block}.{index}.{module}.{kernels.get(rest[1], rest[1])}.weight"


def make_model(sizes: dict, params: dict) -> T5ForConditionalGeneration:
    """The same network in PyTorch, with every one of its weights set from `params`."""
    tied = sizes["logits_via_embedding"]
    config = T5Config(
        vocab_size=sizes["padded_vocab_size"],
        d_model=sizes["emb_dim"],
        d_kv=sizes["head_dim"],
        d_ff=sizes["mlp_dim"],
        num_heads=sizes["num_heads"],
        num_layers=sizes["num_encoder_layers"],
        num_decoder_layers=sizes["num_decoder_layers"],
        feed_forward_proj="relu" if tied else "gated-gelu",
        relative_attention_num_buckets=32,
        relative_attention_max_distance=128,
        tie_word_embeddings=tied,
        attn_implementation="eager",
    )
    model = T5ForConditionalGeneration(config).eval()
    if not tied:
        # transformers 5 ties the logits of a new model whatever the config says.
        model.lm_head = torch.nn.Linear(
            sizes["emb_dim"], sizes["padded_vocab_size"], bias=False
        )
    assert config.scale_decoder_outputs == tied
    unset = {p.data_ptr() for p in model.parameters()}
    weights = dict(model.named_parameters(remove_duplicate=False))
    with torch.no_grad():
        for name, value in params.items():
            turned = name.endswith("kernel") or name.endswith("rel_embedding")
            value = torch.from_numpy(value.astype(np.float32))
            weight = weights[torch_name(name)]
            assert weight.shape == (value.T if turned else value).shape, name
            weight.copy_(value.T if turned else value)
            unset.remove(weight.data_ptr())
    assert not unset, "weights that no name of T5X reached"
    return model


def make_case(case: dict) -> dict[str, np.ndarray]:
    """All that one file holds."""
    rng = np.random.default_rng(case["seed"])
    sizes, lengths = case["sizes"], np.array(case["encoder_lengths"])
    params = draw_weights(sizes, rng)
    # Ids in the padding too: only the mask may say what is hidden.
    shape = (len(lengths), lengths.max())
    encoder_tokens = rng.integers(1, sizes["vocab_size"], shape)
    encoder_mask = np.arange(lengths.max()) < lengths[:, None]
    shape = (len(lengths), case["decoder_length"])
    decoder_tokens = rng.integers(0, sizes["vocab_size"], shape)
    decoder_tokens[:, 0] = 0
    with torch.no_grad():
        logits = make_model(sizes, params)(
            input_ids=torch.from_numpy(encoder_tokens),
            attention_mask=torch.from_numpy(encoder_mask.astype(np.int64)),
            decoder_input_ids=torch.from_numpy(decoder_tokens),
        ).logits.numpy()
    print(f"logits: deviation {logits.std():.2f}, largest {np.abs(logits).max():.2f}")
    return {
        "config": np.array(json.dumps(sizes)),
        "encoder_tokens": encoder_tokens.astype(np.int32),
        "encoder_mask": encoder_mask,
        "decoder_tokens": decoder_tokens.astype(np.int32),
        "logits": logits,
        **{f"params/{name}": value for name, value in params.items()},
    }


if __name__ == "__main__":
    for name, case in CASES.items():
        np.savez_compressed(HERE / f"{name}.npz", **make_case(case))
