"""TPUs that are not there: their devices, for the compiler, and their published peaks.

libtpu compiles for a described topology on any machine (`pip install -e '.[aot]'`).
"""

import dataclasses
import os

import jax
from jax.experimental import topologies

from specdec_jax.errors import SettingsError, one_line


@dataclasses.dataclass(frozen=True)
class Chip:
    """Published peaks of one chip.

    Attributes:
      device_kinds: what JAX calls it.
      flops: bfloat16 operations a second.
      memory: bytes of HBM.
      bandwidth: bytes a second, of HBM.
      links: bytes a second, to all neighbours together.
      clock: cycles a second: the peak over what the matrix units do in a cycle.
    """

    device_kinds: tuple[str, ...]
    flops: float
    memory: float
    bandwidth: float
    links: float
    clock: float


CHIPS = {
    "v4": Chip(("TPU v4",), 275e12, 32e9, 1.23e12, 300e9, 1.05e9),
    "v5e": Chip(("TPU v5 lite", "TPU v5e"), 197e12, 16e9, 0.82e12, 200e9, 1.5e9),
    "v5p": Chip(("TPU v5", "TPU v5p"), 459e12, 95e9, 2.77e12, 600e9, 1.75e9),
    "v6e": Chip(("TPU v6 lite", "TPU v6e"), 918e12, 32e9, 1.64e12, 448e9, 1.75e9),
}
_TORUS = {4: "2x2x1", 8: "2x2x2", 16: "2x2x4", 32: "2x4x4", 64: "4x4x4"}
_GRID = {4: "2x2", 8: "2x4", 16: "4x4", 32: "4x8", 64: "8x8"}
# The shapes of slices, by their number of chips; one chip is taken of the smallest.
SLICES = {"v4": _TORUS, "v5p": _TORUS, "v5e": _GRID, "v6e": _GRID}


def chip_of(device: jax.Device) -> Chip | None:
    """The peaks of a device; None of what is not in `CHIPS`."""
    kind = device.device_kind
    return next((c for c in CHIPS.values() if kind in c.device_kinds), None)


def describe(kind: str, chips: int) -> list[jax.Device]:
    """Devices to compile for, one a chip; nothing can be run on them.

    Args:
      kind: a name in `CHIPS`.
      chips: 1, or the size of a slice: 4, 8, 16, 32 or 64.

    Raises:
      SettingsError: there are no such slices, or libtpu is missing.
    """
    if kind not in CHIPS:
        raise SettingsError(f"topology must be one of {', '.join(CHIPS)}, not {kind!r}")
    slices = SLICES[kind]
    if chips != 1 and chips not in slices:
        raise SettingsError(
            f"{kind} has slices of 1, {', '.join(map(str, slices))} chips, not {chips}"
        )
    # Else libtpu looks for the machine's own TPU, and waits for a network to tell it.
    os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
    os.environ.setdefault("TPU_WORKER_HOSTNAMES", "localhost")
    os.environ.setdefault("TPU_ACCELERATOR_TYPE", "v4-8")
    # A chip may be one process's; a compiler may be everybody's.
    os.environ.setdefault("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")
    options = {}
    if kind == "v4":  # one device a chip in place of one a core
        options = {
            "chip_config_name": "megacore",
            "chips_per_host_bounds": (2, 2, 1),
            "num_slices": 1,
        }
    name = f"{kind}:{slices[max(chips, min(slices))]}"
    try:
        found = topologies.get_topology_desc(
            platform="tpu", topology_name=name, **options
        )
    except Exception as error:  # whatever a missing or another libtpu raises
        reason = one_line(error)
        raise SettingsError(
            f"cannot describe a TPU {name}: {reason} (pip install -e '.[aot]')"
        ) from error
    return list(found.devices)[:chips]
