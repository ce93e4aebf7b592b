"""What a person may set about decoding, checked."""

import dataclasses
from collections.abc import Sequence
from typing import Any, TypedDict

import jax.numpy as jnp
import numpy as np

from specdec_jax.decoding.state import RowSettings
from specdec_jax.errors import SettingsError
from specdec_jax.sampling import RULES, Rule, Warp
from specdec_jax.typing import self_checked

PerRow = float | Sequence[float] | np.ndarray
IntPerRow = int | Sequence[int] | np.ndarray
AUTO = "auto"
LARGEST_AUTO = 16  # gamma, where it is chosen and max_gamma is not given
LONGEST = 2**16  # tokens of a row or a block; buffers are made of their size


class DecodeFields(TypedDict, total=False):
    """The fields of `DecodeSettings`, as keyword arguments."""

    gamma: IntPerRow | str
    temperature: PerRow
    top_k: IntPerRow
    top_p: PerRow
    lenience: PerRow
    max_new_tokens: IntPerRow
    max_gamma: int | None
    rule: str | Rule


@self_checked
class DecodeSettings:
    """How to decode. Each number may be one for all rows, or a sequence of one a row.

    Attributes:
      gamma: draft tokens a block; 0 does not speculate. "auto" is chosen for the batch
        from what a step costs: see `auto_gamma`.
      temperature: 0 is argmax.
      top_k: keep the k likeliest tokens; 0 is off.
      top_p: keep the smallest set of this mass, in (0, 1]; 1 is off.
      lenience: l in (0, 1]; below 1 the output is no longer exact (appendix A.5).
      max_new_tokens: a row ends here if it has not ended by itself.
      max_gamma: the width of the verify pass, which is compiled in; the largest gamma
        if not given. Set it to sweep gamma below it without compiling anew.
      rule: how draft tokens are verified, one for all rows: a name of `sampling.RULES`
        ("token", Algorithm 1) or a `sampling.Rule` of your own. It is compiled in.

    Raises:
      SettingsError: a number is outside what it may be; the message names it.
    """

    gamma: IntPerRow | str = 4
    temperature: PerRow = 0.0
    top_k: IntPerRow = 0
    top_p: PerRow = 1.0
    lenience: PerRow = 1.0
    max_new_tokens: IntPerRow = 64
    max_gamma: int | None = None
    rule: str | Rule = "token"

    def __post_init__(self):
        if not self.is_gamma_auto:
            self._check(
                "gamma",
                lambda x: (x >= 0) & (x <= LONGEST),
                f'an integer from 0 to {LONGEST}, or "{AUTO}"',
                whole=True,
            )
        self._check("temperature", lambda x: x >= 0, "finite and at least 0")
        self._check("top_k", lambda x: x >= 0, "an integer, at least 0", whole=True)
        # XLA takes what is below the least normal number as 0.
        least = np.finfo(np.float32).tiny
        for name in ("top_p", "lenience"):
            self._check(name, lambda x: (x >= least) & (x <= 1), "in (0, 1]")
        self._check(
            "max_new_tokens",
            lambda x: (x >= 1) & (x <= LONGEST),
            f"an integer from 1 to {LONGEST}",
            whole=True,
        )
        largest = 0 if self.is_gamma_auto else int(np.max(self.gamma))
        if self.max_gamma is not None:
            self._check(
                "max_gamma",
                lambda x: (x >= largest) & (x <= LONGEST) & (np.ndim(x) == 0),
                f"one integer, from gamma ({largest}) to {LONGEST}",
                whole=True,
            )

        self._check_rule()

    @property
    def is_gamma_auto(self) -> bool:
        """Whether gamma is still to be chosen, once the batch is known."""
        return isinstance(self.gamma, str) and self.gamma == AUTO

    @property
    def verification_rule(self) -> Rule:
        """The rule itself."""
        return RULES[self.rule] if isinstance(self.rule, str) else self.rule

    def as_dict(self) -> dict[str, Any]:
        """The settings by name, as records hold them; a rule is told by its name."""
        fields = dataclasses.fields(self)
        values = {field.name: getattr(self, field.name) for field in fields}
        if not isinstance(self.rule, str):
            values["rule"] = getattr(self.rule, "name", type(self.rule).__name__)
        return values

    @property
    def static_gamma(self) -> int:
        """G: draft tokens of the widest block, which is compiled in.

        Where gamma is still to be chosen, the most that it may be.
        """
        if self.max_gamma is not None:
            return self.max_gamma
        return LARGEST_AUTO if self.is_gamma_auto else int(np.max(self.gamma))

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

    def _check_rule(self):
        if isinstance(self.rule, str):
            if self.rule not in RULES:
                raise SettingsError(
                    f"rule must be one of {', '.join(RULES)}, or a Rule of your own, "
                    f"not {self.rule!r}"
                )
            return
        if isinstance(self.rule, type) or not isinstance(self.rule, Rule):
            raise SettingsError(
                "a rule is a value with the methods draw and verify (see "
                f"specdec_jax/sampling/rules/base.py), not {self.rule!r}"
            )
        try:
            hash(self.rule)
        except TypeError as error:
            raise SettingsError(
                f"the rule {type(self.rule).__name__} must be hashable, as it is "
                "compiled in: make it a dataclass with frozen=True"
            ) from error

    def _check(self, name, is_valid, requirement, whole=False):
        """Raises, or puts the value in its plain form: an int, a float, or a tuple.

        What is checked is what the loop will see, in int32 or float32: a top_p of 1e-50
        is 0 there.
        """
        value = getattr(self, name)
        try:
            given = np.asarray(value)
        except ValueError:  # a ragged sequence
            given = np.array(None)
        good = given.dtype.kind in "iuf" and given.ndim <= 1 and given.size > 0
        if good:
            with np.errstate(over="ignore"):
                seen = given.astype(np.float64 if whole else np.float32)
            good = np.all(np.isfinite(seen)) and np.all(is_valid(seen))
            if whole:
                good = good and np.all((seen == np.round(seen)) & (seen < 2**31))
        if not good:
            raise SettingsError(f"{name} must be {requirement}, not {value!r}")
        plain = given.astype(np.int64 if whole else np.float64).tolist()
        # Hashable, and safe from later changes.
        object.__setattr__(self, name, tuple(plain) if given.ndim else plain)
