"""Makes the Hugging Face folders beside it, with PyTorch `transformers` itself.

Each folder is a tiny random T5 as `save_pretrained` writes it, `v1_1` in one file and
`v1_0` in shards; `huggingface.npz` holds what `transformers` computes with them: logits
of teacher forcing, and greedily generated tokens. Run it as `make_t5_golden.py` (in
tests/models/golden), whose weights and models it uses:

    /tmp/golden/bin/python tests/checkpoints/golden/make_huggingface_golden.py
"""

import importlib.util
import pathlib
import shutil

import numpy as np
import torch

HERE = pathlib.Path(__file__).parent
MAKER = HERE.parent.parent / "models" / "golden" / "make_t5_golden.py"
SIZES = {
    "vocab_size": 64,
    "padded_vocab_size": 64,
    "emb_dim": 16,
    "num_heads": 2,
    "head_dim": 6,
    "mlp_dim": 24,
    "num_encoder_layers": 2,
    "num_decoder_layers": 1,
}
CASES = {
    "v1_1": {"mlp_activations": ["gelu", "linear"], "logits_via_embedding": False},
    "v1_0": {"mlp_activations": ["relu"], "logits_via_embedding": True},
}
NEW_TOKENS = 12


def main():
    spec = importlib.util.spec_from_file_location("make_t5_golden", MAKER)
    maker = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(maker)
    rng = np.random.default_rng(8)
    lengths = np.array([9, 4, 1])
    encoder_tokens = rng.integers(2, SIZES["vocab_size"], (3, 9))
    encoder_mask = np.arange(9) < lengths[:, None]
    decoder_tokens = rng.integers(2, SIZES["vocab_size"], (3, 7))
    decoder_tokens[:, 0] = 0
    results = {
        "encoder_tokens": encoder_tokens.astype(np.int32),
        "encoder_mask": encoder_mask,
        "decoder_tokens": decoder_tokens.astype(np.int32),
    }
    inputs = {
        "input_ids": torch.from_numpy(encoder_tokens),
        "attention_mask": torch.from_numpy(encoder_mask.astype(np.int64)),
    }
    for name, changes in CASES.items():
        sizes = SIZES | changes
        model = maker.make_model(sizes, maker.draw_weights(sizes, rng))
        model.config.decoder_start_token_id = 0
        model.generation_config.decoder_start_token_id = 0
        with torch.no_grad():
            logits = model(
                **inputs, decoder_input_ids=torch.from_numpy(decoder_tokens)
            ).logits
            generated = model.generate(
                **inputs, num_beams=1, do_sample=False, max_new_tokens=NEW_TOKENS
            )
        results[f"{name}/logits"] = logits.numpy()
        # Without the start token; padding follows the end.
        results[f"{name}/generated"] = generated[:, 1:].numpy().astype(np.int32)
        shutil.rmtree(HERE / name, ignore_errors=True)
        # The smallest shard holds the largest tensor alone.
        shard = "5KB" if name == "v1_0" else "1GB"
        model.save_pretrained(HERE / name, max_shard_size=shard)
        print(name, sorted(p.name for p in (HERE / name).iterdir()))
    np.savez_compressed(HERE / "huggingface.npz", **results)


if __name__ == "__main__":
    main()
