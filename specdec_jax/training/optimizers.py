"""Optimizers and the learning-rate schedule."""

import dataclasses

import optax

from specdec_jax.errors import SettingsError


@dataclasses.dataclass(frozen=True)
class OptimizerConfig:
    """An optimizer and its schedule: warm up, hold, then cool down to zero.

    Attributes:
      name: "adamw", or "adafactor" with T5X's settings.
      learning_rate: while it is held.
      warmup_steps: of linear growth from zero.
      cooldown_steps: of linear decay to zero, the last ones of the run. A run may be
        prolonged from a checkpoint before its cool-down.
      weight_decay: of "adamw".
      clip_norm: global gradient norm, at most.
    """

    name: str = "adamw"
    learning_rate: float = 1e-3
    warmup_steps: int = 400
    cooldown_steps: int = 1000
    weight_decay: float = 0.01
    clip_norm: float = 1.0

    def schedule(self, total_steps: int) -> optax.Schedule:
        """The learning rate of each step."""
        hold = max(0, total_steps - self.warmup_steps - self.cooldown_steps)
        return optax.join_schedules(
            [
                optax.linear_schedule(0.0, self.learning_rate, self.warmup_steps),
                optax.constant_schedule(self.learning_rate),
                optax.linear_schedule(self.learning_rate, 0.0, self.cooldown_steps),
            ],
            [self.warmup_steps, self.warmup_steps + hold],
        )

    def build(self, total_steps: int) -> optax.GradientTransformation:
        """The optax transformation.

        Raises:
          SettingsError: an unknown name.
        """
        schedule = self.schedule(total_steps)
        if self.name == "adamw":
            return optax.chain(
                optax.clip_by_global_norm(self.clip_norm),
                optax.adamw(
                    schedule,
                    b1=0.9,
                    b2=0.98,
                    eps=1e-9,
                    weight_decay=self.weight_decay,
                ),
            )
        if self.name == "adafactor":
            return optax.adafactor(
                schedule, decay_rate=0.8, multiply_by_parameter_scale=True
            )
        raise SettingsError(
            f"optimizer.name must be 'adamw' or 'adafactor', not {self.name!r}"
        )
