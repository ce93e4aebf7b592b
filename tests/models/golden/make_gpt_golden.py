"""Makes the golden GPT files beside it, with a network that is not ours: GPT-2.

Each file holds one tiny random GPT and what PyTorch `transformers` computes with it:
the sizes (`config`, JSON), the weights (`params/...`), the tokens and the logits. How
to run it, and why weights are drawn here, is told in `make_t5_golden.py`:

    /tmp/golden/bin/python tests/models/golden/make_gpt_golden.py

The files in the repository were made with torch 2.14.1 (CPU) and transformers 5.24.0.
"""

import json
import pathlib

import numpy as np
import torch
from transformers import GPT2Config, GPT2LMHeadModel

HERE = pathlib.Path(__file__).parent

CASES = {
    "gpt_untied": {
        "sizes": {
            "vocab_size": 90,
            "padded_vocab_size": 96,
            "emb_dim": 32,
            "num_heads": 4,
            "head_dim": 8,
            "mlp_dim": 48,
            "num_layers": 3,
            "max_length": 64,
            "logits_via_embedding": False,
        },
        "rows": 3,
        "length": 48,
        "seed": 12,
    },
    "gpt_tied": {
        "sizes": {
            "vocab_size": 93,
            "padded_vocab_size": 96,
            "emb_dim": 24,
            "num_heads": 2,
            "head_dim": 12,
            "mlp_dim": 96,
            "num_layers": 2,
            "max_length": 40,
            "logits_via_embedding": True,
        },
        "rows": 2,
        "length": 40,  # up to the last position
        "seed": 13,
    },
}


def draw_weights(sizes: dict, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Float16 weights by our names, at scales that give lively attention."""
    width, hidden = sizes["emb_dim"], sizes["mlp_dim"]
    params = {}

    def normal(name, shape, std):
        params[name] = (rng.standard_normal(shape) * std).astype(np.float16)

    def norm(name):
        params[f"{name}/scale"] = rng.uniform(0.5, 1.5, width).astype(np.float16)
        normal(f"{name}/bias", width, 0.3)

    def dense(name, rows, columns, gain=1.0):
        normal(f"{name}/kernel", (rows, columns), gain * rows**-0.5)
        normal(f"{name}/bias", columns, 0.3)

    tied = sizes["logits_via_embedding"]
    normal(
        "token_embedder/embedding",
        (sizes["padded_vocab_size"], width),
        width**-0.5 if tied else 1.0,
    )
    normal("position_embedder/embedding", (sizes["max_length"], width), 0.5)
    for i in range(sizes["num_layers"]):
        layer = f"decoder/layers_{i}"
        norm(f"{layer}/pre_self_attention_layer_norm")
        for name, gain in (("query", 2.0), ("key", 1.5), ("value", 1.0), ("out", 1.5)):
            dense(f"{layer}/self_attention/{name}", width, width, gain)
        norm(f"{layer}/pre_mlp_layer_norm")
        dense(f"{layer}/mlp/wi", width, hidden)
        dense(f"{layer}/mlp/wo", hidden, width, 1.5)
    norm("decoder/decoder_norm")
    if not tied:
        shape = (width, sizes["padded_vocab_size"])
        normal("decoder/logits_dense/kernel", shape, 1.5 * width**-0.5)
    return params


def torch_weights(sizes: dict, params: dict) -> dict[str, np.ndarray]:
    """The weights by GPT-2's names; its products are x W + b too."""
    weights = {
        "transformer.wte.weight": params["token_embedder/embedding"],
        "transformer.wpe.weight": params["position_embedder/embedding"],
        "transformer.ln_f.weight": params["decoder/decoder_norm/scale"],
        "transformer.ln_f.bias": params["decoder/decoder_norm/bias"],
    }
    if not sizes["logits_via_embedding"]:
        weights["lm_head.weight"] = params["decoder/logits_dense/kernel"].T
    for i in range(sizes["num_layers"]):
        ours, theirs = f"decoder/layers_{i}", f"transformer.h.{i}"
        for norm, name in (
            ("ln_1", "pre_self_attention_layer_norm"),
            ("ln_2", "pre_mlp_layer_norm"),
        ):
            weights[f"{theirs}.{norm}.weight"] = params[f"{ours}/{name}/scale"]
            weights[f"{theirs}.{norm}.bias"] = params[f"{ours}/{name}/bias"]
        for kind, ending in (("kernel", "weight"), ("bias", "bias")):
            attention = f"{ours}/self_attention"
            joined = [
                params[f"{attention}/{n}/{kind}"] for n in ("query", "key", "value")
            ]
            weights[f"{theirs}.attn.c_attn.{ending}"] = np.concatenate(joined, axis=-1)
            weights[f"{theirs}.attn.c_proj.{ending}"] = params[
                f"{attention}/out/{kind}"
            ]
            weights[f"{theirs}.mlp.c_fc.{ending}"] = params[f"{ours}/mlp/wi/{kind}"]
            weights[f"{theirs}.mlp.c_proj.{ending}"] = params[f"{ours}/mlp/wo/{kind}"]
    return weights


def make_model(sizes: dict, params: dict) -> GPT2LMHeadModel:
    """The same network in PyTorch, with every one of its weights set from `params`."""
    tied = sizes["logits_via_embedding"]
    config = GPT2Config(
        vocab_size=sizes["padded_vocab_size"],
        n_positions=sizes["max_length"],
        n_embd=sizes["emb_dim"],
        n_layer=sizes["num_layers"],
        n_head=sizes["num_heads"],
        n_inner=sizes["mlp_dim"],
        tie_word_embeddings=tied,
        attn_implementation="eager",
    )
    assert config.activation_function == "gelu_new"
    model = GPT2LMHeadModel(config).eval()
    if not tied:
        # transformers 5 ties the logits of a new model whatever the config says.
        model.lm_head = torch.nn.Linear(
            sizes["emb_dim"], sizes["padded_vocab_size"], bias=False
        )
    unset = {p.data_ptr() for p in model.parameters()}
    weights = dict(model.named_parameters(remove_duplicate=False))
    with torch.no_grad():
        for name, value in torch_weights(sizes, params).items():
            value = torch.from_numpy(value.astype(np.float32))
            assert weights[name].shape == value.shape, name
            weights[name].copy_(value)
            unset.remove(weights[name].data_ptr())
    assert not unset, "weights that no name of ours reached"
    return model


def make_case(case: dict) -> dict[str, np.ndarray]:
    """All that one file holds."""
    rng = np.random.default_rng(case["seed"])
    sizes = case["sizes"]
    params = draw_weights(sizes, rng)
    tokens = rng.integers(0, sizes["vocab_size"], (case["rows"], case["length"]))
    tokens[:, 0] = 0
    with torch.no_grad():
        model = make_model(sizes, params)
        logits = model(input_ids=torch.from_numpy(tokens)).logits.numpy()
    print(f"logits: deviation {logits.std():.2f}, largest {np.abs(logits).max():.2f}")
    return {
        "config": np.array(json.dumps(sizes)),
        "tokens": tokens.astype(np.int32),
        "logits": logits,
        **{f"params/{name}": value for name, value in params.items()},
    }


if __name__ == "__main__":
    for name, case in CASES.items():
        np.savez_compressed(HERE / f"{name}.npz", **make_case(case))
