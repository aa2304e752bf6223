"""The only training loop: AdamW on batches of any source, evaluated as it goes, resumable at any step.

The batch and the draws of step s come from streams of the seed that are named by s, so the state to save is
the weights and the optimiser's alone, and a run that was killed and started again ends with the same bits
as one that was not (on the same machine, with the same number of threads and ranks). Several ranks share
every batch; the loss is that of one process with the whole of it.
"""

import contextlib
import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack, cast

import torch
from torch import Tensor, nn

from isojepa.arguments import checked
from isojepa.encoders.layers import synchronised
from isojepa.encoders.model import as_model, evaluating
from isojepa.encoders.world_model import WorldModel
from isojepa.evaluations import Evaluation, default_evaluations
from isojepa.files import make_folder
from isojepa.objectives.objective import as_objective
from isojepa.seeds import borrowed, generator
from isojepa.training import checkpoints
from isojepa.training.averages import WeightAverage
from isojepa.training.checkpoints import Progress
from isojepa.training.description import describe
from isojepa.training.display import Bar
from isojepa.training.health import Health
from isojepa.training.interrupts import Interrupts
from isojepa.training.learner import Call, Learner, check_models, named_models
from isojepa.training.loggers import Logger
from isojepa.training.pace import Pace
from isojepa.training.parameters import decayed_groups
from isojepa.training.recipe import Recipe, Settings, check_settings
from isojepa.training.records import Record
from isojepa.training.run import Run, RunWarning
from isojepa.training.schedules import SCHEDULES
from isojepa.training.shares import Shares, check_alike
from isojepa.training.team import BROKEN, FINE, STOP, Team
from isojepa.worlds.as_source import as_source, own_batch
from isojepa.worlds.batch import Batch
from isojepa.worlds.episodes import Episodes
from isojepa.worlds.source import Source, summary
from isojepa.worlds.windows import Windows

__all__ = ["Run", "RunWarning", "fit"]

_TRIED = 8  # states that models are tried on before the first step, and that ranks compare


@checked
def fit(
    model: nn.Module | Mapping[str, nn.Module],
    source: Source | Any,
    objective: Callable[..., Any],
    *,
    recipe: Recipe | None = None,
    evaluations: Sequence[Evaluation] | None = None,
    seed: int = 0,
    record: str | Path | None = None,
    config: Mapping[str, Any] | None = None,
    progress: bool | None = None,
    loggers: Sequence[Logger] = (),
    **settings: Unpack[Settings],
) -> Run:
    """Train a model, or several, on batches of a source.

    Models start from the weights they have. With a record, the same call goes on where it was stopped, and
    returns at once when the run is finished.

    Args:
        model: maps observations to embeddings, see `isojepa.encoders.Model`; or several by name. Trained in
            place.
        source: where batches come from, e.g. a `World`; recorded `Episodes`; or pairs, `(x, x_next)` or a
            DataLoader of them (see `isojepa.worlds.as_source`), whose batch size is taken if none is given.
        objective: what is minimised: an `Objective`, or a loss of views such as `LeJEPA`.
        recipe: steps, batch, learning rate, devices, ...
        evaluations: what is measured while it trains; by default recovery where the source knows its
            latents, else the spread of the embedding, on fresh draws of the source. A finite set has no
            fresh ones: hand in evaluations of another set, e.g. `Recovery(held_out)`.
        seed: draws the data, the slices and the held-out set.
        record: folder of the run; none keeps everything in memory.
        config: what the record says it was made from; by default a description of the arguments.
        progress: draw a progress bar; by default when standard error is a terminal.
        loggers: receive every row of metrics.
        settings: single settings of the recipe, e.g. `steps=500`.

    Returns:
        The run. If it diverged or collapsed, `status` and `reason` say so and a RunWarning is given.

    Raises:
        ValueError: the model does not fit the source, or the record is not this run's.
    """
    models = named_models(model)
    source = _windows(source, objective, models)
    if recipe is None and "batch" not in settings and (own := own_batch(source)) is not None:
        settings = {"batch": own, "batch_start": None, **settings}
    source = as_source(source, "source")
    for module in models.values():
        if isinstance(module, WorldModel):
            module.calibrate(source)
    check_settings(settings)
    recipe = replace(recipe or Recipe(), **settings).checked()
    tried = source.sample(_TRIED, generator(0, "probe"))
    check_models(models, objective, tried)
    if record is not None and config is None:
        config = describe(models, source, objective, recipe, seed, evaluations)
    if evaluations is None:
        evaluations = default_evaluations(source, recipe.eval_samples)
    team = Team(recipe)
    with team.together(), contextlib.ExitStack() as held:
        check_alike(team, source, tried)
        training = _Training(models, source, objective, recipe, seed, evaluations, loggers, team)
        done = False
        if record is not None:
            told = config or {}
            folder = team.by_first(lambda: held.enter_context(Record.held(record, told)))
            done = team.by_first(lambda: folder.result) is not None
            team.by_first(folder.clean)
            training.record = folder
        run = training.finished() if done else training.run(progress)
    return run.warned() if team.first else run


def _windows(source: Any, objective: Callable[..., Any], models: Mapping[str, nn.Module]) -> Any:
    """Recorded episodes as windows of the length that the objective needs; other sources as they are."""
    if not isinstance(source, Episodes | Windows):
        return source
    answering = {name: as_model(module) for name, module in models.items()}
    length = as_objective(objective).window(answering)
    if isinstance(source, Episodes):
        longest = int(source.lengths.max())
    else:
        parts = [source] if source.aside is None else [source, source.aside]
        longest = min(part.observations.longest for part in parts)
    if longest <= length:
        raise ValueError(
            f"episodes must have more than {length} steps, context and rollout, got {longest} at most: "
            "lower the objective's rollout or the model's context, or collect longer episodes"
        )
    if isinstance(source, Episodes):
        return source.windows(length)
    return source.with_length(length) if length > source.length else source


class _Training:
    """The state of one run while it runs."""

    def __init__(
        self,
        models: dict[str, nn.Module],
        source: Source,
        objective: Callable[..., Any],
        recipe: Recipe,
        seed: int,
        evaluations: Sequence[Evaluation],
        loggers: Sequence[Logger],
        team: Team,
    ) -> None:
        self.models, self.given, self.source = models, objective, source
        self.recipe, self.seed, self.evaluations, self.team = recipe, seed, evaluations, team
        self.loggers = loggers if team.first else ()
        self.record: Record | None = None
        if recipe.sync_norms and team.size > 1:
            self.models = {name: synchronised(module) for name, module in models.items()}
        self.learner = Learner(self.models, objective)
        self.learner.objective.plan(recipe.steps)
        self.half = None if recipe.precision == "float32" else getattr(torch, recipe.precision)
        self.health = Health(tuple(models), self.learner.objective.spreads)
        self.names: list[str] = []
        self.norm = 0.0
        self.metrics: list[dict[str, Any]] = []

    def _prepare(self) -> None:
        recipe, device = self.recipe, self.team.device
        self.call = self.team.setup(self.learner)
        groups = decayed_groups(self.learner, 0.0 if recipe.decay_all else recipe.weight_decay)
        for group in groups if recipe.decay_all else ():
            group["weight_decay"] = recipe.weight_decay
        self.parameters = [parameter for group in groups for parameter in group["params"]]
        self.optimizer = torch.optim.AdamW(
            groups,
            lr=recipe.learning_rate,
            betas=(0.9, recipe.beta2),
            fused=device.type in ("cpu", "cuda"),
        )
        self.average = None if recipe.average is None else WeightAverage(self.learner, recipe.average)
        self.scaler = torch.amp.GradScaler(device.type) if recipe.precision == "float16" else None
        self.state = self._restore()
        pin, defer = device.type not in ("cpu", "mps"), device.type != "cpu"
        shares = Shares(self.source, recipe, self.seed, self.team.rank, self.team.size, pin, defer)
        self.batches = shares.from_step(self.state.step)
        self.learner.train()
        if recipe.compile:
            self.learner.compile_models()

    def run(self, progress: bool | None) -> Run:
        self._prepare()
        state, recipe = self.state, self.recipe
        started, cpu_started = time.monotonic() - state.seconds, time.process_time() - state.cpu_seconds
        pace = Pace(recipe.checkpoint_seconds)
        reason = ""
        show = progress if self.team.first else False
        try:
            with Bar(recipe.steps, state.step, show) as bar, Interrupts() as interrupts:
                while state.step < recipe.steps and not reason:
                    reason, stop = self._step(interrupts)
                    if not reason:
                        reason = self._evaluate(bar)
                    bar.move(state.step, recipe.batch_at(state.step - 1))
                    now = time.monotonic()
                    state.seconds, state.cpu_seconds = now - started, time.process_time() - cpu_started
                    if not reason and (stop or pace.due(now)):
                        with pace.measured():
                            self._save()
                    if stop:
                        raise KeyboardInterrupt
        finally:
            for logger in self.loggers:
                logger.close()
            if recipe.compile:
                self.learner.uncompile_models()
        return self._end(reason)

    def _step(self, interrupts: Interrupts) -> tuple[str, bool]:
        """One optimiser step: why the run cannot go on, or nothing, and whether it was asked to stop."""
        state, recipe = self.state, self.recipe
        factor = SCHEDULES[recipe.schedule](state.step, recipe.steps, recipe.warmup)
        for group in self.optimizer.param_groups:
            group["lr"] = recipe.learning_rate * factor * group["rate"]
        parts = [part.to(self.team.device) for part in next(self.batches)]
        self.optimizer.zero_grad()
        totals: list[float] = []
        code = FINE
        for index, part in enumerate(parts):
            last = index == len(parts) - 1
            with self.team.quiet(self.call, not last):
                terms = self._forward(part, index)
                values = [term.item() for term in terms.values()]
                code = STOP if interrupts.pending else FINE
                code = self.team.gravest(code if math.isfinite(values[0]) else BROKEN)
                if code == BROKEN:
                    return (
                        f"the loss became {values[0]} at step {state.step}: try a lower learning_rate",
                        False,
                    )
                loss = terms["loss"] / len(parts) if len(parts) > 1 else terms["loss"]
                self.team.backward(loss if self.scaler is None else self.scaler.scale(loss))
            totals = values if index == 0 else [a + b for a, b in zip(totals, values, strict=True)]
            self.names = list(terms)
        self._move()
        state.step += 1
        self.learner.objective.after_step(self.learner.answering, state.step)
        if self.average is not None:
            self.average.update()
        share = 1 / len(parts)
        state.add([share * total for total in totals])
        return "", code == STOP

    def _forward(self, batch: Batch, part: int) -> dict[str, Tensor]:
        """The terms of the loss; what is random in it comes from streams of the step."""
        stream = (self.state.step, *((part,) if part else ()))
        own = ("rank", self.team.rank) if self.team.rank else ()  # dropout differs from rank to rank
        device = self.team.device
        with borrowed(self.seed, "encoder", *stream, *own, device=device):
            call = Call(batch, generator(self.seed, "slices", *stream))
            terms: dict[str, Tensor]
            if self.half is None:
                terms = self.call(call)
            else:
                with torch.autocast(device.type, self.half):
                    terms = self.call(call)
            return terms

    def _move(self) -> None:
        """Clip the gradients and let the optimiser move the weights."""
        if self.recipe.clip is not None or self._row_due(self.state.step + 1):  # the norm is in the metrics
            if self.scaler is not None:
                self.scaler.unscale_(self.optimizer)
            self.norm = float(nn.utils.clip_grad_norm_(self.parameters, self.recipe.clip or math.inf))
        if self.scaler is None:
            self.optimizer.step()
        else:
            self.scaler.step(self.optimizer)
            self.scaler.update()

    def _due(self, step: int) -> list[Evaluation]:
        """The evaluations that are due when `step` steps are done."""
        return [
            evaluation
            for evaluation in self.evaluations
            if step % (evaluation.every or self.recipe.eval_every) == 0 or step == self.recipe.steps
        ]

    def _row_due(self, step: int) -> bool:
        """Whether the metrics get a row when `step` steps are done; without any evaluation too."""
        pace = step % self.recipe.eval_every == 0 or step == self.recipe.steps
        return bool(self._due(step)) or (pace and not self.evaluations)

    def _evaluate(self, bar: Bar) -> str:
        """Measure what is due, log the row, and begin a new window of loss terms.

        Returns why the run cannot go on, or nothing.
        """
        state = self.state
        due = self._due(state.step)
        if not self._row_due(state.step):
            return ""
        measured = self.team.by_first(lambda: self._measured(due))
        if self.health.broken(measured):
            return f"the embeddings became NaN or Inf by step {state.step}: try a lower learning_rate"
        since = state.step - state.seen
        row: dict[str, Any] = {"step": state.step}
        row |= {name: value / since for name, value in zip(self.names, state.window, strict=True)}
        row |= measured
        row["gradient_norm"] = self.norm
        row["learning_rate"] = self.optimizer.param_groups[0]["lr"]
        state.window, state.seen = [], state.step
        self.metrics.append(row)
        if self.record is not None and self.team.first:
            self.record.append(row)
            state.metrics_size = self.record.metrics_size
        for logger in self.loggers:
            logger.log(row | bar.speed)
        bar.show(row)
        if self.team.first and (alarm := self.health.alarm(row)):
            bar.say(f"warning: {alarm}")
        return ""

    def _measured(self, due: Sequence[Evaluation]) -> dict[str, float]:
        """The numbers of some evaluations, of the averaged weights where there are any."""
        found: dict[str, float] = {}
        averaged = contextlib.nullcontext() if self.average is None else self.average.apply()
        with averaged, evaluating(self.learner), torch.no_grad():
            for evaluation in due:
                numbers = evaluation(self.learner.answering, generator(self.seed, "eval"))
                twice = sorted(found.keys() & numbers)
                if twice:
                    raise ValueError(f"two evaluations measure {twice[0]!r}: {[e.name for e in due]}")
                found |= numbers
        return found

    def _restore(self) -> Progress:
        """The state to go on from: the checkpoint's, or that of a new run."""
        fresh = Progress()
        if self.record is None:
            return fresh
        record = self.record
        if self.team.by_first(record.checkpoint.exists):
            fresh = checkpoints.load(
                record.checkpoint,
                self.learner,
                self.optimizer,
                self.average,
                self.scaler,
                record=record.id,
                steps=self.recipe.steps,
            )
            self._tell(fresh)
        self.metrics = self.team.by_first(lambda: record.rewind(fresh.metrics_size))
        return fresh

    def _tell(self, state: Progress) -> None:
        """Log the step at which the run resumes and any mismatch."""
        told = f"going on from step {state.step}{state.remark(self.team.size)}"
        if self.team.first:
            print(told, file=sys.stderr)  # what is printed to standard output may be read by a program

    def _save(self) -> None:
        if self.record is not None and self.team.first:
            state, record = self.state, self.record
            state.ranks, state.record = self.team.size, record.id
            make_folder(record.checkpoint.parent)
            parts = (self.learner, self.optimizer, state, self.average, self.scaler)
            checkpoints.save(record.checkpoint, *parts)

    def _end(self, reason: str) -> Run:
        """Judge the run and write its result."""
        status = "diverged" if reason else "done"
        last = self.metrics[-1] if self.metrics else {}
        if not reason and (reason := self.health.collapse(last)):
            status = "collapsed"
        if self.average is not None:
            self.average.keep()
        for module in self.models.values():
            module.eval()
        if self.record is not None and self.team.first:
            for name, module in self._weights():
                self.record.save_weights(name, module)
            self.record.finish(
                {
                    "status": status,
                    "reason": reason,
                    "steps": self.state.step,
                    "metrics": last,
                    "seconds": self.state.seconds,
                    "cpu_seconds": self.state.cpu_seconds,
                    "ranks": self.team.size,
                    "resumed_at": self.state.resumed_at,
                    "source": summary(self.source),
                }
            )
            self.record.drop_checkpoint()
        self.team.by_first(lambda: None)  # nobody leaves before the record is whole
        facts = summary(self.source)
        return Run(self.models, status, reason, self.metrics, self.state.seconds, self.record, facts)

    def finished(self) -> Run:
        """The run of a record that is already complete."""
        record = cast(Record, self.record)
        for name, module in self._weights():
            record.load_weights(name, module)
        for module in self.models.values():
            module.eval()
        result = record.result or {}
        seconds = float(result["seconds"])
        facts = result.get("source") or {}
        return Run(self.models, result["status"], result["reason"], record.metrics, seconds, record, facts)

    def _weights(self) -> list[tuple[str, nn.Module]]:
        """What a record keeps weights of: the models and, if it is a module, the objective."""
        own = [("objective", self.given)] if isinstance(self.given, nn.Module) else []
        return [*self.models.items(), *own]
