"""The training loop: steps, validation, checkpoints, and exact resume."""

import contextlib
import json
from collections.abc import Sequence
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint as ocp

from specdec_jax.data.batching import BucketedPairs, Seq2SeqBatch, TokenPair
from specdec_jax.data.tokenizer import SpecialIds
from specdec_jax.runtime.json_lines import JsonLinesFile
from specdec_jax.runtime.progress import Clock, progress_bar
from specdec_jax.runtime.validation import check_kinds, check_seed
from specdec_jax.training.objectives import Objective
from specdec_jax.training.optimizers import OptimizerConfig
from specdec_jax.typing import Any, Array, Callable, Int32, Params, record, self_checked


@self_checked
class TrainConfig:
    """How long, in what batches, and how often to look.

    Attributes:
      total_steps: optimizer steps; the learning rate ends at zero there.
      tokens_per_batch: padded tokens of each side of a batch, about.
      boundaries: lengths that batches are padded to; longer pairs are left out.
      optimizer: which, and its learning rate.
      label_smoothing: of references.
      average_decay: of the exponential moving average of the parameters, which is
        what is validated and exported.
      validate_every, checkpoint_every: in steps.
      seed: of the order of the data and of dropout.
    """

    total_steps: int
    tokens_per_batch: int = 2048
    boundaries: tuple[int, ...] = (12, 16, 20, 24, 32, 48, 64)
    optimizer: OptimizerConfig = OptimizerConfig()
    label_smoothing: float = 0.1
    average_decay: float = 0.999
    validate_every: int = 500
    checkpoint_every: int = 500
    seed: int = 0

    def __post_init__(self):
        check_kinds(self, may_be_0=("seed",))
        check_seed(self.seed)


@record
class TrainState:
    """All that the next step needs, and all that a checkpoint holds."""

    step: Int32[Array, ""]
    params: Params
    average: Params
    optimizer: Any

    @classmethod
    def create(cls, params: Params, optimizer: optax.GradientTransformation):
        return cls(
            step=jnp.zeros((), jnp.int32),
            params=params,
            average=jax.tree.map(jnp.copy, params),
            optimizer=optimizer.init(params),
        )


def make_step(
    objective: Objective, config: TrainConfig
) -> Callable[[TrainState, Params, Seq2SeqBatch], tuple[TrainState, dict]]:
    """The jitted step: (state, frozen parameters, batch) -> (state, metrics).

    The dropout key is fold_in(seed, step), so a resumed run draws the same masks.
    """
    optimizer = config.optimizer.build(config.total_steps)

    def step(state, frozen, batch):
        dropout_key = jax.random.fold_in(jax.random.key(config.seed), state.step)
        (loss, metrics), grads = jax.value_and_grad(objective.loss, has_aux=True)(
            state.params, frozen, batch, dropout_key
        )
        updates, opt_state = optimizer.update(grads, state.optimizer, state.params)
        params = optax.apply_updates(state.params, updates)
        # Early on the average follows closely, or it would remember the random start.
        done = state.step.astype(jnp.float32)
        decay = jnp.minimum(config.average_decay, (1 + done) / (10 + done))
        average = optax.incremental_update(params, state.average, 1 - decay)
        state = TrainState(state.step + 1, params, average, opt_state)
        return state, {"loss": loss, **metrics}

    return jax.jit(step, donate_argnums=0)


class Trainer:
    """Trains in a folder, and goes on from its last checkpoint if it has one.

    The folder holds `checkpoints/` (Orbax) and `metrics.jsonl`, a line per validation.
    """

    def __init__(
        self,
        folder: Path,
        config: TrainConfig,
        objective: Objective,
        init_params: Callable[[], Params],
        pairs: Sequence[TokenPair],
        validation_pairs: Sequence[TokenPair],
        special_ids: SpecialIds,
        evaluate: Callable[[Params], dict[str, float]] | None = None,
    ):
        """Prepares the run.

        Args:
          folder: of the run.
          config: lengths, batches, optimizer.
          objective: the loss.
          init_params: the parameters that a fresh run starts from.
          pairs, validation_pairs: ids of (source, target).
          special_ids: of the tokenizer.
          evaluate: more numbers of the averaged parameters, say BLEU; taken where the
            validation loss is.
        """
        self.folder = Path(folder).absolute()
        self.config = config
        self.objective = objective
        self.evaluate = evaluate
        self.data = BucketedPairs(
            pairs,
            config.boundaries,
            config.tokens_per_batch,
            config.seed,
            special_ids,
        )
        self.validation = BucketedPairs(
            validation_pairs,
            config.boundaries,
            config.tokens_per_batch,
            seed=0,
            special_ids=special_ids,
        )
        self._step = make_step(objective, config)
        self._validate = jax.jit(
            lambda params, frozen, batch: objective.loss(params, frozen, batch, None)[1]
        )
        optimizer = config.optimizer.build(config.total_steps)
        self._manager = ocp.CheckpointManager(
            self.folder / "checkpoints",
            options=ocp.CheckpointManagerOptions(
                max_to_keep=2, enable_async_checkpointing=False
            ),
        )
        self.state = self._restore(init_params, optimizer)

    @property
    def steps_left(self) -> int:
        """How many steps `run` will take."""
        return max(0, self.config.total_steps - int(self.state.step))

    def run(self) -> TrainState:
        """Trains up to `total_steps`; returns the last state."""
        config, start = self.config, int(self.state.step)
        self._forget_later_metrics(start)
        clock, compiled = Clock(), set()
        losses, since = [], clock()
        with progress_bar("training", clock=clock) as bar:
            task = bar.add_task("", total=config.total_steps, completed=start)
            for step in range(start, config.total_steps):
                batch = self.data.batch(step)
                shape = batch.decoder_inputs.shape
                counted = contextlib.nullcontext()
                if shape not in compiled:  # each width of a batch is a program
                    compiled.add(shape)
                    bar.update(task, description="compiling")
                    counted = clock.stopped()
                with counted:
                    self.state, metrics = self._step(
                        self.state, self.objective.frozen, batch
                    )
                    losses.append(float(metrics["loss"]))
                bar.update(task, advance=1, description=f"loss {losses[-1]:.3f}")
                last = step + 1 == config.total_steps
                if last or (step + 1) % config.validate_every == 0:
                    self._record(
                        step=step + 1,
                        epoch=(step + 1) / self.data.batches_per_epoch,
                        train_loss=float(np.mean(losses)),
                        seconds_per_step=(clock() - since) / len(losses),
                        **self.validate(),
                    )
                    losses, since = [], clock()
                if last or (step + 1) % config.checkpoint_every == 0:
                    self._manager.save(step + 1, args=ocp.args.StandardSave(self.state))
        self._manager.wait_until_finished()
        return self.state

    def validate(self) -> dict[str, float]:
        """Metrics of the averaged parameters, weighted by tokens."""
        totals, tokens = {}, 0.0
        for i in range(self.validation.batches_per_epoch):
            batch = self.validation.batch(i)
            weight = float(batch.weights.sum())
            metrics = self._validate(self.state.average, self.objective.frozen, batch)
            for name, value in metrics.items():
                totals[name] = totals.get(name, 0.0) + weight * float(value)
            tokens += weight
        result = {f"validation_{name}": v / tokens for name, v in totals.items()}
        if self.evaluate is not None:
            result |= self.evaluate(self.state.average)
        return result

    def _restore(self, init_params, optimizer) -> TrainState:
        create = lambda: TrainState.create(init_params(), optimizer)  # noqa: E731
        latest = self._manager.latest_step()
        if latest is None:
            return create()
        return self._manager.restore(
            latest, args=ocp.args.StandardRestore(jax.eval_shape(create))
        )

    @property
    def _metrics_file(self) -> Path:
        return self.folder / "metrics.jsonl"

    def _record(self, **metrics: int | float) -> None:
        with self._metrics_file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(metrics) + "\n")

    def _forget_later_metrics(self, step: int) -> None:
        """Drops lines of steps that a kill lost and that will be taken again."""
        if self._metrics_file.exists():
            lines = JsonLinesFile(self._metrics_file)  # without one that was cut short
            kept = [json.dumps(line) for line in lines if line["step"] <= step]
            whole = self._metrics_file.with_name("metrics.unfinished")
            whole.write_text("".join(k + "\n" for k in kept), "utf-8")
            whole.replace(self._metrics_file)
