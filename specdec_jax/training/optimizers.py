"""Optimizers and the learning-rate schedule."""

import dataclasses

import jax.numpy as jnp
import optax

from specdec_jax.errors import SettingsError


@dataclasses.dataclass(frozen=True)
class OptimizerConfig:
    """An optimizer and its schedule: warm up, hold, then cool down to zero.

    Attributes:
      name: "adam", or "adafactor" with T5X's settings. Both steps are relative: a
        tensor moves by learning_rate times its own root mean square. T5's tensors
        differ in scale a hundredfold (embeddings of 1, queries of 1 / sqrt(D H), for
        attention is not scaled), so that no one absolute step suits them all.
      learning_rate: while it is held, relative.
      warmup_steps: of linear growth from zero.
      cooldown_steps: of linear decay to zero, the last ones of the run. A run may be
        prolonged from a checkpoint before its cool-down.
      clip_norm: global gradient norm, at most.
    """

    name: str = "adam"
    learning_rate: float = 1e-2
    warmup_steps: int = 400
    cooldown_steps: int = 1000
    clip_norm: float = 1.0

    def schedule(self, total_steps: int) -> optax.Schedule:
        """The learning rate of each step."""
        cooldown_start = max(self.warmup_steps, total_steps - self.cooldown_steps)
        places = jnp.array([0, self.warmup_steps, cooldown_start, total_steps], float)
        rates = jnp.array([0.0, self.learning_rate, self.learning_rate, 0.0])
        return lambda step: jnp.interp(jnp.asarray(step, float), places, rates)

    def build(self, total_steps: int) -> optax.GradientTransformation:
        """The optax transformation.

        Raises:
          SettingsError: an unknown name.
        """
        schedule = self.schedule(total_steps)
        if self.name == "adam":
            return optax.chain(
                optax.clip_by_global_norm(self.clip_norm),
                optax.scale_by_adam(b1=0.9, b2=0.98, eps=1e-9),
                optax.scale_by_param_block_rms(1e-3),
                optax.scale_by_learning_rate(schedule),
            )
        if self.name == "adafactor":
            return optax.adafactor(
                schedule, decay_rate=0.8, multiply_by_parameter_scale=True
            )
        raise SettingsError(
            f"optimizer.name must be 'adam' or 'adafactor', not {self.name!r}"
        )
