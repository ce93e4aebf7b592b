"""Parameters as T5X's `scalable_t5` stores them."""

import numpy as np


def stacked(leaves, config):
    """Layers on axis 1, and heads on an axis of their own."""
    result = {n: a for n, a in leaves.items() if "/layers_" not in n}
    for stack in ("encoder", "decoder"):
        start = f"{stack}/layers_0/"
        for name in [n for n in leaves if n.startswith(start)]:
            rest = name.removeprefix(start)
            count = getattr(config, f"num_{stack}_layers")
            layers = [leaves[f"{stack}/layers_{i}/{rest}"] for i in range(count)]
            if "attention/" in rest and rest.endswith("kernel"):
                heads = (config.num_heads, config.head_dim)
                out = rest.endswith("out/kernel")
                shape = (*heads, config.emb_dim) if out else (config.emb_dim, *heads)
                layers = [layer.reshape(shape) for layer in layers]
            result[f"{stack}/{stack}/{rest}"] = np.stack(layers, axis=1)
    return result
