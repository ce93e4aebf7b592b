"""gamma="auto": the block size that pays for a batch, from what a step costs.

By Theorem 3.8 with an assumed acceptance rate, and with the least times of a target
step, a verify pass and a draft step by the peaks of the TPU that they run on. A large
batch computes more in a verify pass, and wants a smaller gamma, or none.
"""

import jax
import numpy as np
from jax.sharding import NamedSharding

from specdec_jax.decoding.settings import AUTO, DecodeSettings
from specdec_jax.errors import SettingsError
from specdec_jax.pair import Pair
from specdec_jax.partitioning import roofline
from specdec_jax.partitioning.description import Decode
from specdec_jax.partitioning.mesh import DATA, MODEL
from specdec_jax.partitioning.topology import Chip, chip_of
from specdec_jax.sampling import theory
from specdec_jax.typing import Params

ALPHA = 0.7  # the paper's drafters have .53 to .82


def choose(pair: Pair, settings: DecodeSettings, batch: int, source: int) -> int:
    """The gamma of a batch; 0 where the baseline is faster than any.

    Args:
      pair: that decodes.
      settings: whose `static_gamma` is the most that is chosen.
      batch: rows decoded together.
      source: tokens of the longest input.

    Raises:
      SettingsError: the costs are not known on these devices, or of this drafter.
    """
    partition = pair.partition
    devices = jax.local_devices()[:1]
    if partition is not None:
        devices = list(partition.mesh.devices.flat)
    chip = chip_of(devices[0])
    if chip is None:
        raise SettingsError(
            f'gamma="{AUTO}" needs the peaks of a TPU, and this is '
            f"{devices[0].device_kind}: give gamma a number"
        )
    if pair.drafter_config is None:
        raise SettingsError(
            f'gamma="{AUTO}" is for a drafter that is a checkpoint: give gamma a number'
        )
    decode = Decode(
        target=pair.config,
        drafter=pair.drafter_config,
        gamma=settings.static_gamma,
        max_new_tokens=settings.buffer_size,
        devices=devices,
        batch=batch,
        source=source,
        mesh=partition and (partition.mesh.shape[DATA], partition.mesh.shape[MODEL]),
        shard_drafter=is_sharded(pair.params.drafter),
        dtype=pair.dtype,
        target_quantization=pair.quantization,
    )
    return best_gamma(decode, chip)


def best_gamma(decode: Decode, chip: Chip, alpha: float = ALPHA) -> int:
    """The gamma of the largest speedup; 0 where the baseline is faster than any.

    Args:
      decode: sizes, batch and devices; its gamma is the most that is chosen.
      chip: of the devices.
      alpha: with which draft tokens are accepted.
    """
    c, v = roofline.block_costs(decode, chip, decode.gamma)
    return theory.best_gamma(alpha, c, decode.gamma, np.asarray(v))


def is_sharded(params: Params) -> bool:
    """Whether any parameter lies on the mesh's axis `model`."""
    return any(
        MODEL in jax.tree.leaves(tuple(x.sharding.spec))
        for x in jax.tree.leaves(params)
        if isinstance(x.sharding, NamedSharding)
    )
