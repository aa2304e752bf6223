"""The only training loop: AdamW on fresh pairs, evaluated on held-out ones, resumable at any step.

The batch and the slices of step s come from the streams ("data", s) and ("slices", s) of the seed, so the
state to save is the weights and the optimiser's alone, and a run that was killed and started again ends
with the same bits as one that was not (on the same machine, with the same number of threads).
"""

import math
import shutil
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from isojepa.encoders.modes import embed, evaluating
from isojepa.linear import collapsed, held_out_r2, spread
from isojepa.objectives.loss import Loss
from isojepa.seeds import borrowed, generator
from isojepa.training import checkpoints
from isojepa.training.checkpoints import Progress
from isojepa.training.description import describe
from isojepa.training.display import Bar
from isojepa.training.interrupts import Interrupts
from isojepa.training.loggers import Logger
from isojepa.training.recipe import DEFAULT, Recipe
from isojepa.training.records import Record
from isojepa.training.schedules import SCHEDULES
from isojepa.worlds import World

if TYPE_CHECKING:
    from lightning_fabric import Fabric


class RunWarning(UserWarning):
    """A run ended, but not well."""


@dataclass(frozen=True)
class Run:
    """What training leaves.

    Attributes:
        encoder: the trained encoder, in evaluation mode.
        status: "done", "collapsed" or "diverged".
        reason: one sentence when the run did not end well, else empty.
        metrics: one row per evaluation.
        seconds: training time.
        record: the run's folder, if it has one.
    """

    encoder: nn.Module
    status: str
    reason: str
    metrics: list[dict[str, Any]] = field(repr=False)
    seconds: float
    record: Record | None

    @property
    def r2(self) -> float:
        """Held-out R^2 of the latents regressed on the embeddings, at the last evaluation."""
        return float(self.metrics[-1]["r2"]) if self.metrics else math.nan


class Learner(nn.Module):
    """Encoder and objective as one module, so that learned parts of either are trained together."""

    def __init__(self, encoder: nn.Module, objective: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder
        self.objective = objective

    def forward(self, x: Tensor, views: int, slices: torch.Generator) -> dict[str, Tensor]:
        """The loss of stacked views (view * batch, ...) and its terms, by name."""
        h = self.encoder(x)
        loss = self.objective(h.reshape(views, -1, h.shape[-1]), slices)
        if not isinstance(loss, Loss):
            raise ValueError(
                f"objective must return a Loss, got {type(loss).__name__}; a regularizer alone is none: "
                "use LeJEPA(regularizer=...)"
            )
        return {"loss": loss.total, **loss.terms}


def fit(
    encoder: nn.Module,
    world: World,
    objective: nn.Module,
    *,
    steps: int = DEFAULT.steps,
    batch: int = DEFAULT.batch,
    batch_start: int | None = DEFAULT.batch_start,
    pairs: int | None = DEFAULT.pairs,
    learning_rate: float = DEFAULT.learning_rate,
    schedule: str = DEFAULT.schedule,
    warmup: float = DEFAULT.warmup,
    weight_decay: float = DEFAULT.weight_decay,
    beta2: float = DEFAULT.beta2,
    clip: float | None = DEFAULT.clip,
    eval_every: int = DEFAULT.eval_every,
    eval_samples: int = DEFAULT.eval_samples,
    checkpoint_seconds: float = DEFAULT.checkpoint_seconds,
    accelerator: str = DEFAULT.accelerator,
    seed: int = 0,
    record: str | Path | None = None,
    config: Mapping[str, Any] | None = None,
    progress: bool | None = None,
    loggers: Sequence[Logger] = (),
) -> Run:
    """Train an encoder in a world.

    The encoder starts from the weights it has. With a record, the same call goes on where it was stopped,
    and returns at once when the run is finished.

    Args:
        encoder: maps observations to embeddings; trained in place.
        world: where pairs come from.
        objective: what is minimised, see `isojepa.objectives.Objective`.
        steps, batch, batch_start, pairs, learning_rate, schedule, warmup, weight_decay, beta2, clip,
            eval_every, eval_samples, checkpoint_seconds, accelerator: see `Recipe`.
        seed: draws the data, the slices and the held-out set.
        record: folder of the run; none keeps everything in memory.
        config: what the record says it was made from; by default a description of the arguments.
        progress: draw a progress bar; by default when standard error is a terminal.
        loggers: receive every row of metrics.

    Returns:
        The run. If it diverged or collapsed, `status` and `reason` say so and a RunWarning is given.

    Raises:
        ValueError: the encoder does not fit the world, or the record is not this run's.
    """
    recipe = Recipe(
        steps=steps,
        batch=batch,
        batch_start=batch_start,
        pairs=pairs,
        learning_rate=learning_rate,
        schedule=schedule,
        warmup=warmup,
        weight_decay=weight_decay,
        beta2=beta2,
        clip=clip,
        eval_every=eval_every,
        eval_samples=eval_samples,
        checkpoint_seconds=checkpoint_seconds,
        accelerator=accelerator,
    ).checked()
    _check_fit(encoder, world)
    fabric = _fabric(recipe.accelerator)
    if record is None:
        return _Training(encoder, world, objective, recipe, seed, None, loggers, fabric).run(progress)
    folder = Record.start(record, config or describe(encoder, world, objective, recipe, seed))
    with folder.locked():
        if folder.result is not None:
            return _finished(encoder, objective, folder, folder.result)
        folder.clean()
        return _Training(encoder, world, objective, recipe, seed, folder, loggers, fabric).run(progress)


def _fabric(accelerator: str) -> "Fabric":
    """The device to train on.

    Raises:
        ValueError: there is no such device.
    """
    from lightning_fabric import Fabric  # seconds to import: only for those who train

    try:
        with warnings.catch_warnings():
            # where Slurm is installed it asks for srun, which one device does not need
            warnings.filterwarnings("ignore", message=".*srun.*")
            return Fabric(accelerator=accelerator, devices=1)
    except (RuntimeError, ValueError, TypeError) as error:
        raise ValueError(
            f"accelerator must be a device of this machine, got {accelerator!r}: {error}"
        ) from error


class _Training:
    """The state of one run while it runs."""

    def __init__(
        self,
        encoder: nn.Module,
        world: World,
        objective: nn.Module,
        recipe: Recipe,
        seed: int,
        record: Record | None,
        loggers: Sequence[Logger],
        fabric: "Fabric",
    ) -> None:
        self.encoder, self.objective, self.world = encoder, objective, world
        self.recipe, self.seed = recipe, seed
        self.record, self.loggers, self.fabric = record, loggers, fabric
        learner = Learner(encoder, objective)
        self.parameters = list(learner.parameters())
        optimizer = torch.optim.AdamW(
            self.parameters,
            lr=recipe.learning_rate,
            betas=(0.9, recipe.beta2),
            weight_decay=recipe.weight_decay,
            fused=self.fabric.device.type in ("cpu", "cuda"),
        )
        self.model, self.optimizer = self.fabric.setup(learner, optimizer)
        self.learner = learner
        self.held_out = world.sample(recipe.eval_samples, generator(seed, "eval"))
        self.training_set = (
            None if recipe.pairs is None else world.sample(recipe.pairs, generator(seed, "training-set"))
        )
        self.names: list[str] = []
        self.metrics: list[dict[str, Any]] = []
        self.state = self._restore()

    def run(self, progress: bool | None) -> Run:
        state, recipe = self.state, self.recipe
        started, cpu_started = time.monotonic() - state.seconds, time.process_time() - state.cpu_seconds
        saved = time.monotonic()
        self.encoder.train()
        reason = ""
        try:
            with Bar(recipe.steps, state.step, progress) as bar, Interrupts() as interrupts:
                while state.step < recipe.steps and not reason:
                    reason = self._step()
                    if not reason and (state.step % recipe.eval_every == 0 or state.step == recipe.steps):
                        reason = self._evaluate(bar)
                    bar.move(state.step)
                    now = time.monotonic()
                    state.seconds, state.cpu_seconds = now - started, time.process_time() - cpu_started
                    if not reason and (interrupts.pending or now - saved >= recipe.checkpoint_seconds):
                        self._save()
                        saved = now
                    if interrupts.pending:
                        raise KeyboardInterrupt
        finally:
            for logger in self.loggers:
                logger.close()
        return self._end(reason)

    def _step(self) -> str:
        """One optimiser step; returns why the run cannot go on, or nothing."""
        state, recipe = self.state, self.recipe
        factor = SCHEDULES[recipe.schedule](state.step, recipe.steps, recipe.warmup)
        for group in self.optimizer.param_groups:
            group["lr"] = recipe.learning_rate * factor
        x = self._draw(recipe.batch_at(state.step)).to(self.fabric.device)
        with borrowed(self.seed, "encoder", state.step):
            terms = self.model(x, 2, generator(self.seed, "slices", state.step))
        value = terms["loss"].item()
        if not math.isfinite(value):
            return f"the loss became {value} at step {state.step}: try a lower learning_rate"
        self.optimizer.zero_grad()
        self.fabric.backward(terms["loss"])
        if recipe.clip is not None:
            torch.nn.utils.clip_grad_norm_(self.parameters, recipe.clip)
        self.optimizer.step()
        self.names = list(terms)
        state.window = state.window + torch.tensor(
            [term.item() for term in terms.values()], dtype=torch.float64
        )
        state.step += 1
        return ""

    def _draw(self, size: int) -> Tensor:
        """The stacked observations (2 * size, ...) of this step's pairs."""
        source = generator(self.seed, "data", self.state.step)
        if self.training_set is None:
            pairs = self.world.sample(size, source)
            return torch.cat((pairs.x, pairs.x_next))
        chosen = torch.randperm(len(self.training_set), generator=source)[:size]  # no pair twice in a batch
        return torch.cat((self.training_set.x[chosen], self.training_set.x_next[chosen]))

    def _evaluate(self, bar: Bar) -> str:
        """Score the held-out pairs, log the row, and begin a new window of loss terms.

        Returns why the run cannot go on, or nothing.
        """
        state, recipe = self.state, self.recipe
        h = embed(self.encoder, self.held_out.x).double().numpy()
        if not np.isfinite(h).all():
            return f"the embeddings became NaN or Inf by step {state.step}: try a lower learning_rate"
        since = (state.step - 1) % recipe.eval_every + 1
        row: dict[str, Any] = {"step": state.step}
        row |= {name: value / since for name, value in zip(self.names, state.window.tolist(), strict=True)}
        row["r2"] = held_out_r2(h, self.held_out.z.double().numpy())
        row["smallest_variance"], row["mean_variance"] = spread(h)
        row["learning_rate"] = self.optimizer.param_groups[0]["lr"]
        state.window = torch.zeros(())
        self.metrics.append(row)
        if self.record is not None:
            self.record.append(row)
            state.metrics_size = self.record.metrics_size
        for logger in self.loggers:
            logger.log(row)
        bar.show(row)
        return ""

    def _restore(self) -> Progress:
        """The state to go on from: the checkpoint's, or that of a new run."""
        fresh = Progress(0, 0.0, 0.0, 0, torch.zeros(()))
        if self.record is None:
            return fresh
        if self._checkpoint.exists():
            fresh = checkpoints.load(self._checkpoint, self.learner, self.optimizer)
        self.record.rewind(fresh.metrics_size)
        self.metrics = self.record.metrics
        return fresh

    def _save(self) -> None:
        if self.record is not None:
            checkpoints.save(self._checkpoint, self.learner, self.optimizer, self.state)

    @property
    def _checkpoint(self) -> Path:
        return self.record.path / "checkpoint" / "state.safetensors"  # type: ignore[union-attr]

    def _end(self, reason: str) -> Run:
        """Judge the run and write its result."""
        status = "diverged" if reason else "done"
        last = self.metrics[-1] if self.metrics else {}
        if status == "done" and collapsed(last["smallest_variance"], last["mean_variance"]):
            status = "collapsed"
            reason = (
                f"the embedding collapsed: its smallest variance is {last['smallest_variance']:.2g} at step "
                f"{last['step']}; raise the regularizer's weight"
            )
        self.encoder.eval()
        if self.record is not None:
            self.record.save_weights("encoder", self.encoder)
            self.record.save_weights("objective", self.objective)
            self.record.finish(
                {
                    "status": status,
                    "reason": reason,
                    "steps": self.state.step,
                    "metrics": last,
                    "seconds": self.state.seconds,
                    "cpu_seconds": self.state.cpu_seconds,
                }
            )
            shutil.rmtree(self._checkpoint.parent, ignore_errors=True)
        return _warned(Run(self.encoder, status, reason, self.metrics, self.state.seconds, self.record))


def _finished(encoder: nn.Module, objective: nn.Module, record: Record, result: Mapping[str, Any]) -> Run:
    """The run of a record that is already complete."""
    record.load_weights("encoder", encoder)
    record.load_weights("objective", objective)
    encoder.eval()
    run = Run(encoder, result["status"], result["reason"], record.metrics, float(result["seconds"]), record)
    return _warned(run)


def _warned(run: Run) -> Run:
    if run.reason:
        warnings.warn(run.reason, RunWarning, stacklevel=3)
    return run


def _check_fit(encoder: nn.Module, world: World) -> None:
    """Try the encoder on a few observations, so that a mismatch is told before the first step."""
    pairs = world.sample(4, generator(0, "probe"))
    device = next((p.device for p in encoder.parameters()), torch.device("cpu"))
    try:
        with evaluating(encoder), torch.no_grad():
            h = encoder(pairs.x.to(device))
    except RuntimeError as error:
        raise ValueError(
            f"encoder does not take the world's observations of shape {tuple(pairs.x.shape)}: {error}"
        ) from error
    if not isinstance(h, Tensor):
        raise ValueError(f"encoder must return a tensor (batch, dim), got {type(h).__name__}")
    if h.ndim != 2 or len(h) != 4:
        raise ValueError(f"encoder must map (batch, ...) to (batch, dim), got {tuple(h.shape)} for batch 4")
