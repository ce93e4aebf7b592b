"""What speculation gains at larger batches: a roofline and Theorem 3.8.

A target step at batch 1 reads its weights and computes little, so that verifying more
tokens is free. With the batch the products grow, v with them, and the gain falls.
"""

import dataclasses
from collections.abc import Iterator

import numpy as np

from specdec_jax.decoding.settings import LARGEST_AUTO
from specdec_jax.errors import SettingsError
from specdec_jax.partitioning import roofline
from specdec_jax.partitioning.description import Decode
from specdec_jax.partitioning.mesh import MODEL, axis_size
from specdec_jax.partitioning.topology import Chip
from specdec_jax.sampling import theory
from specdec_jax.typing import Any

BATCHES = (1, 8, 32, 128, 256)


def batch_costs(
    decode: Decode, chip: Chip, alpha: float, batches: tuple[int, ...] = BATCHES
) -> Iterator[dict[str, Any]]:
    """For each batch and each place of the drafter, fields of `BatchCost`.

    Args:
      decode: the run's.
      chip: whose peaks count.
      alpha: with which draft tokens are accepted.
      batches: rows, made multiples of the mesh's axis `data`.
    """
    partition = decode.partition
    padded = [partition.padded(b) if partition else b for b in batches]
    for batch in sorted(set(padded)):
        made = placed(dataclasses.replace(decode, batch=batch))
        found = []
        for one in made:
            most = max(LARGEST_AUTO, decode.gamma)
            c, v = roofline.block_costs(one, chip, most)
            found.append(
                {
                    "batch": batch,
                    "shard_drafter": one.is_drafter_sharded,
                    "is_used": one.is_drafter_sharded == decode.is_drafter_sharded,
                    **gains(alpha, c, v, decode.gamma),
                    **room(one, chip),
                }
            )
        better = max(found, key=lambda one: one["best_speedup"])  # of equals the first
        for one in found:
            yield one | {"is_better": one is better, "alpha": alpha}


def gains(alpha: float, c: float, v: list[float], gamma: int) -> dict[str, Any]:
    """Speedups at a gamma and at the best one.

    Args:
      alpha, c: as in `theory`.
      v: of a pass over 1, 2, ... tokens.
      gamma: the run's.
    """
    best = theory.best_gamma(alpha, c, len(v) - 1, np.asarray(v))
    return {
        "gamma": gamma,
        "c": c,
        "v": v[gamma],
        "speedup": theory.speedup(alpha, gamma, c, v[gamma]),
        "best_gamma": best,
        "best_speedup": theory.speedup(alpha, best, c, v[best]),
    }


def room(decode: Decode, chip: Chip) -> dict[str, Any]:
    """What the rows take on a chip, and whether they fit beside the weights."""
    row = roofline.bytes_a_row(decode)
    held = roofline.weight_bytes(decode) + roofline.rows_of_a_chip(decode) * row
    return {
        "bytes_a_row": row,
        "resident": held,
        "fits": held <= chip.memory,
    }


def placed(decode: Decode) -> list[Decode]:
    """The decode with its drafter replicated, and sharded where that can be."""
    replicated = dataclasses.replace(decode, shard_drafter=False)
    if decode.partition is None or axis_size(decode.partition.mesh, MODEL) == 1:
        return [replicated]
    sharded = dataclasses.replace(decode, shard_drafter=True)
    try:
        _ = sharded.sides
    except SettingsError:  # `model` divides none of its sizes
        return [replicated]
    return [replicated, sharded]
