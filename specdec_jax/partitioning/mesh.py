"""The mesh: devices as a grid of two axes, `data` and `model`.

The batch is sharded over `data`, and a network that is sharded over `model`. One device
has no mesh.
"""

from collections.abc import Sequence

import jax
import numpy as np
from jax.experimental import mesh_utils
from jax.sharding import AbstractMesh, AxisType, Mesh

from specdec_jax.errors import SettingsError
from specdec_jax.models.config import ModelConfig
from specdec_jax.models.lowering import Lowering, lowering_for
from specdec_jax.typing import Any, Callable

DATA, MODEL = AXES = ("data", "model")

# What the default weighs against each other, of the order of a TPU's: how fast weights
# are read, and what a sum over devices costs, however small.
BYTES_PER_SECOND = 1e12
SECONDS_PER_SUM = 5e-6
CLEARLY = 0.9  # a drafter is sharded where its step takes less than this part

Shape = tuple[int, int]


def choose_mesh(
    shape: Any,
    config: Callable[[], ModelConfig],
    devices: Sequence[jax.Device] | None = None,
) -> Mesh | None:
    """The mesh to decode on, or None for one device.

    Args:
      shape: (data, model); "auto" for `default_shape`; or None for the first device
        alone.
      config: the target's sizes, which only "auto" asks for.
      devices: of this process if not given; a mesh takes the first that it needs.

    Raises:
      SettingsError: the shape is no two integers, or needs more devices.
    """
    devices = jax.local_devices() if devices is None else list(devices)
    if shape is None or (shape == "auto" and len(devices) == 1):
        return None
    if shape == "auto":
        shape = default_shape(len(devices), config())
    try:
        data, model = (int(size) for size in shape)
        valid = min(data, model) >= 1 and (data, model) == tuple(shape)
    except (TypeError, ValueError):
        valid = False
    if not valid:
        raise SettingsError(f"mesh must be 'auto' or (data, model), not {shape!r}")
    if data * model > len(devices):
        raise SettingsError(
            f"a mesh of {data} x {model} needs {data * model} devices and there are "
            f"{len(devices)}"
        )
    if data * model == 1:
        return None
    return make_mesh((data, model), devices[: data * model])


def make_mesh(shape: Shape, devices: Sequence[jax.Device]) -> Mesh:
    """A mesh of these devices, neighbours on `model` being near each other.

    Devices that are no grid of their own, as three of a host's four, keep their order.
    """
    try:
        grid = mesh_utils.create_device_mesh(shape, list(devices))
    except (AssertionError, NotImplementedError, ValueError):
        grid = np.array(devices).reshape(shape)
    return Mesh(grid, AXES, axis_types=(AxisType.Auto,) * 2)


def default_shape(num_devices: int, config: ModelConfig) -> Shape:
    """(data, model) for a target of these sizes.

    A decoding step reads all weights once. Over m devices on `model` it reads an m-th
    on each, and pays a sum over them after each of three products a layer (a GPT's has
    two), and one more for the logits. The m of the least time is taken, of those that
    divide the number of devices, the heads, the feed-forward and the vocabulary; the
    rest of the devices is on `data`. Eight devices are (1, 8) for a T5-XXL and (8, 1)
    for a T5-small.
    """
    sizes = (num_devices, config.num_heads, config.mlp_dim, config.padded_vocab_size)
    fitting = [
        m for m in range(1, num_devices + 1) if all(size % m == 0 for size in sizes)
    ]
    model = min(fitting, key=lambda m: (_step_seconds(config, m), m))
    return num_devices // model, model


def default_shard_drafter(config: ModelConfig, model: int) -> bool:
    """Whether a drafter of these sizes is sharded over the mesh's axis `model`.

    Sharded, each device reads less of it in a step, and pays the sums. At batch 1 a
    T5-large's step on eight devices takes 463 us sharded and 783 us replicated; a
    T5-small's, whose 6 heads stay whole, 71 us and 77 us: too close for constants of an
    order of magnitude, and the replicated one waits for no other device.

    Args:
      config: the drafter's.
      model: devices along `model`; with one there is nothing to shard.
    """
    return _step_seconds(config, model) < CLEARLY * _step_seconds(config, 1)


def is_drafter_sharded(
    given: bool | None, config: ModelConfig, mesh: Mesh | AbstractMesh | None
) -> bool:
    """What `load_pair` takes as `shard_drafter`, None being `default_shard_drafter`.

    Args:
      given: True, False or None.
      config: the drafter's sizes.
      mesh: the devices, or None for one.
    """
    if given is not None:
        return given
    return default_shard_drafter(config, 1 if mesh is None else axis_size(mesh, MODEL))


def _step_seconds(config: ModelConfig, m: int) -> float:
    num_bytes = step_bytes(config, m)
    return num_bytes / BYTES_PER_SECOND + step_messages(config, m) * SECONDS_PER_SUM


def step_bytes(config: ModelConfig, m: int = 1) -> int:
    """Bytes of bfloat16 weights that one decoder step multiplies with, on one of m.

    Cross-attention's keys and values are computed once an input, and of the embedding a
    step reads a row a token. What m does not divide is whole on each device.
    """
    joined = config.num_heads * config.head_dim
    attention = config.step_kernels * config.emb_dim * joined
    mlp = (len(config.mlp_activations) + 1) * config.emb_dim * config.mlp_dim
    logits = config.emb_dim * config.padded_vocab_size
    heads, hidden, vocab = _parts(config, m)
    layer = attention // heads + mlp // hidden
    return 2 * (config.decoder_layers * layer + logits // vocab)


def step_messages(config: ModelConfig, m: int) -> int:
    """Sums over m devices on `model` in one decoder step, and the gathering of logits.

    What m does not divide needs none.
    """
    if m == 1:
        return 0
    heads, hidden, vocab = (parts > 1 for parts in _parts(config, m))
    sums = (config.step_sums - 1) * heads + hidden
    return config.decoder_layers * sums + vocab


def _parts(config: ModelConfig, m: int) -> list[int]:
    """In how many parts heads, feed-forward and vocabulary are: m, or 1."""
    sizes = (config.num_heads, config.mlp_dim, config.padded_vocab_size)
    return [1 if size % m else m for size in sizes]


def lowering_on(
    mesh: Mesh | AbstractMesh | None,
    sharded: bool = True,
    devices: Sequence[jax.Device] | None = None,
) -> Lowering:
    """How a network is computed where it is.

    Args:
      mesh: the devices, or None for one.
      sharded: whether it is, over the mesh's axis `model`.
      devices: of one kind; the mesh's, or of this process, if not given.
    """
    if devices is None:
        devices = jax.local_devices() if mesh is None else mesh.devices.flat
    parts = 1 if mesh is None or not sharded else axis_size(mesh, MODEL)
    return lowering_for(devices[0].platform, parts)


def axis_size(mesh: Mesh | AbstractMesh, axis: str) -> int:
    """How many devices an axis of a mesh has."""
    return int(np.asarray(mesh.shape[axis]))
