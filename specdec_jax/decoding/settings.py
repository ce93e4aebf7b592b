"""What a person may set about decoding, checked."""

import dataclasses
from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np

from specdec_jax.decoding.state import RowSettings
from specdec_jax.errors import SettingsError
from specdec_jax.sampling import Warp

PerRow = float | Sequence[float]


@dataclasses.dataclass(frozen=True)
class DecodeSettings:
    """How to decode. Each number may be one for all rows, or a sequence of one a row.

    Attributes:
      gamma: guesses a block; 0 does not speculate.
      temperature: 0 is argmax.
      top_k: keep the k likeliest tokens; 0 is off.
      top_p: keep the smallest set of this mass, in (0, 1]; 1 is off.
      lenience: l in (0, 1]; below 1 the output is no longer exact (appendix A.5).
      max_new_tokens: a row ends here if it has not ended by itself.
      max_gamma: the width of the verify pass, which is compiled in; the largest gamma
        if not given. Set it to sweep gamma below it without compiling anew.

    Raises:
      SettingsError: a number is outside what it may be; the message names it.
    """

    gamma: int | Sequence[int] = 4
    temperature: PerRow = 0.0
    top_k: int | Sequence[int] = 0
    top_p: PerRow = 1.0
    lenience: PerRow = 1.0
    max_new_tokens: int | Sequence[int] = 64
    max_gamma: int | None = None

    def __post_init__(self):
        self._check("gamma", lambda x: x >= 0, "a whole number, at least 0", whole=True)
        self._check("temperature", lambda x: x >= 0, "finite and at least 0")
        self._check("top_k", lambda x: x >= 0, "a whole number, at least 0", whole=True)
        self._check("top_p", lambda x: (x > 0) & (x <= 1), "in (0, 1]")
        self._check("lenience", lambda x: (x > 0) & (x <= 1), "in (0, 1]")
        self._check(
            "max_new_tokens", lambda x: x >= 1, "a whole number, at least 1", whole=True
        )
        largest = int(np.max(self.gamma))
        if self.max_gamma is None:
            object.__setattr__(self, "max_gamma", largest)
        if self.max_gamma < largest:
            raise SettingsError(
                f"max_gamma must be at least gamma ({largest}), not {self.max_gamma}"
            )

    @property
    def buffer_size(self) -> int:
        """M: new tokens of the longest row."""
        return int(np.max(self.max_new_tokens))

    def rows(self, batch: int) -> RowSettings:
        """The settings of each of `batch` rows, as traced arrays.

        Raises:
          SettingsError: a sequence has not one number for each row.
        """

        def spread(name, dtype):
            value = np.asarray(getattr(self, name))
            if value.ndim and value.shape != (batch,):
                raise SettingsError(
                    f"{name} has {value.shape[0]} values for {batch} rows: give one "
                    "for all, or one for each"
                )
            return jnp.asarray(np.broadcast_to(value, batch), dtype)

        return RowSettings(
            warp=Warp(
                temperature=spread("temperature", jnp.float32),
                top_k=spread("top_k", jnp.int32),
                top_p=spread("top_p", jnp.float32),
            ),
            gamma=spread("gamma", jnp.int32),
            lenience=spread("lenience", jnp.float32),
            max_new_tokens=spread("max_new_tokens", jnp.int32),
        )

    def _check(self, name, is_valid, requirement, whole=False):
        value = getattr(self, name)
        try:
            numbers = np.asarray(value, np.float64)
        except (TypeError, ValueError):
            numbers = np.array(np.nan)
        good = numbers.ndim <= 1 and numbers.size > 0
        good = good and np.all(np.isfinite(numbers)) and np.all(is_valid(numbers))
        if good and whole:
            good = np.all(numbers == np.round(numbers))
        if not good:
            raise SettingsError(f"{name} must be {requirement}, not {value!r}")
        if numbers.ndim:  # hashable, and safe from later changes
            object.__setattr__(self, name, tuple(numbers.tolist()))
