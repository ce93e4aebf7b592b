"""Whether the values of a configuration can be those of a network."""

from collections.abc import Collection, Sequence
from typing import Any

from specdec_jax.models.layers import ACTIVATIONS
from specdec_jax.runtime.validation import check_kinds


def check_network(config: Any, may_be_0: Collection[str] = ()) -> None:
    """Checks what the configurations of all families have in common.

    Args:
      config: a `T5Config` or a `GPTConfig`.
      may_be_0: the fields of whole numbers that need not be above 0.

    Raises:
      ValueError: a value is of another type, or not one that there is.
    """
    check_kinds(config, may_be_0)
    _check_activations(config.mlp_activations)
    if config.dtype not in ("float32", "bfloat16"):
        raise ValueError(
            f"dtype must be 'float32' or 'bfloat16', not {config.dtype!r}"
            + (": T5 overflows in it" if config.dtype == "float16" else "")
        )
    if config.vocab_size > config.padded_vocab_size:
        raise ValueError(
            f"vocab_size must be in 1..padded_vocab_size "
            f"({config.padded_vocab_size}), not {config.vocab_size}"
        )


def _check_activations(activations: Any) -> None:
    of_strings = isinstance(activations, Sequence) and not isinstance(activations, str)
    if (
        not of_strings
        or len(activations) not in (1, 2)
        or not all(isinstance(a, str) and a in ACTIVATIONS for a in activations)
    ):
        raise ValueError(
            "mlp_activations must be a list of one or two of "
            f"{', '.join(ACTIVATIONS)}, not {activations!r}"
        )
