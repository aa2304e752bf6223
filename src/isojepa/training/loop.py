"""The only training loop: AdamW on batches of any source, evaluated as it runs, resumable at any step.

Batch and draws of step s come from streams of the seed that are named by s, so the state to save is that of
the weights and the optimizer alone. A run that was killed and started again ends with the same bits as one
that was not (on the same machine, with the same number of threads and ranks). Several ranks share every
batch; the loss is that of one process with the whole batch.

Beside the loop: `Learner` holds models and objective as one module; `Health` detects collapse and
non-finite embeddings in the metrics; `CheckpointPace` schedules checkpoints; `Bar` shows progress;
`Interrupts` delays Ctrl-C and SIGTERM to the end of a step, because an optimizer step cut in half leaves
weights that belong to no step.
"""

import contextlib
import math
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Unpack, cast

import torch
from torch import Tensor, nn

from isojepa.data.as_source import as_source, own_batch
from isojepa.data.batch import Batch
from isojepa.data.episodes import Episodes, Windows
from isojepa.data.source import Source, summary
from isojepa.encoders.layers import synchronised
from isojepa.encoders.model import Model, as_model, evaluating
from isojepa.encoders.world_model import WorldModel
from isojepa.io import make_folder
from isojepa.linear import collapsed
from isojepa.objectives.objective import Loss, as_objective
from isojepa.probes import Evaluation, default_evaluations
from isojepa.seeds import borrowed, generator
from isojepa.terminal import Console, PlainProgress
from isojepa.training import checkpoints
from isojepa.training.checkpoints import Progress
from isojepa.training.distributed import RankBatches, Status, Team, check_alike
from isojepa.training.loggers import Logger
from isojepa.training.rebuilding import describe
from isojepa.training.recipe import SCHEDULES, Recipe, Settings, WeightAverage, check_settings, decayed_groups
from isojepa.training.run import Run
from isojepa.training.run_directory import GAUGES, PARTS, RunDirectory
from isojepa.validation import validate_types

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """Context manager: `pending` is set by SIGINT and SIGTERM; the second signal raises KeyboardInterrupt.

    It has no effect outside the main thread.
    """

    def __init__(self) -> None:
        self.pending = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> "Interrupts":
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._hold) for number in _SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _hold(self, number: int, frame: FrameType | None) -> None:
        if self.pending:
            raise KeyboardInterrupt
        self.pending = True


_MAX_SAVING_FRACTION = 0.02  # of the training time


class CheckpointPace:
    """The time between two checkpoints.

    A large model takes seconds to save: the next checkpoint waits until saving takes at most 2 % of the
    training time.

    Args:
        seconds: minimum time between two checkpoints; 0 saves after each step, whatever it costs.

    Example:
        >>> CheckpointPace(3600).due(time.monotonic())
        False
    """

    def __init__(self, seconds: float) -> None:
        self.seconds, self.cost, self.spent = seconds, 0.0, 0.0
        self.started = self.saved = time.monotonic()

    def due(self, now: float) -> bool:
        """Whether it is time to save."""
        if not self.seconds:
            return True
        affordable = self.spent + self.cost <= _MAX_SAVING_FRACTION * (now - self.started)
        return affordable and now - self.saved >= self.seconds

    @contextlib.contextmanager
    def measured(self) -> Iterator[None]:
        """Context manager: measure the time of saving."""
        began = time.monotonic()
        yield
        self.saved = time.monotonic()
        self.cost = self.saved - began
        self.spent += self.cost


MIN_STEPS = 100  # before, an embedding is untrained rather than collapsed
_MAX_DEAD = 0.5  # fraction of directions with almost no variance from which an embedding counts as collapsed
_MIN_RANKME = 2.0  # below, nearly all variance of an embedding lies on one line


class Health:
    """Reads a run's evaluations for signs of collapse.

    Args:
        models: names of the models; metrics of the first have no prefix, see `Spread`.
        spreads: whether the objective demands variance in every direction, see
            `Objective.prevents_collapse`. If so, an embedding has collapsed once half of its directions are
            dead; if not, once it has no variance at
            all or its RankMe, if measured, is below 2: features behind a LayerNorm always have a direction
            without variance.

    No alarm is raised before step 100.

    Example:
        >>> health = Health(("encoder",))
        >>> health.alarm({"step": 200, "dead_fraction": 0.5, "mean_variance": 0.5})[:40]
        'the embedding collapsed: 50 % of its dir'
        >>> health.alarm({"step": 400, "dead_fraction": 0.5, "mean_variance": 0.5})
        ''
    """

    def __init__(self, models: Sequence[str], spreads: bool = True) -> None:
        self.models, self.spreads = tuple(models), spreads
        self._alarmed = False

    def broken(self, numbers: Mapping[str, float]) -> bool:
        """Whether an embedding has NaN or Inf."""
        return any(math.isnan(numbers.get(self._named(name, "mean_variance"), 0.0)) for name in self.models)

    def collapse(self, row: Mapping[str, Any]) -> str:
        """The reason why a row of metrics shows a collapse, or an empty string."""
        if row.get("step", 0) < MIN_STEPS:
            return ""
        for name in self.models:
            dead = row.get(self._named(name, "dead_fraction"))
            whose = "the embedding" if len(self.models) == 1 else f"the embedding of {name!r}"
            if dead is None:
                continue
            mean = row[self._named(name, "mean_variance")]
            if self.spreads and dead >= _MAX_DEAD:
                return (
                    f"{whose} collapsed: {100 * dead:.0f} % of its directions have no variance at step "
                    f"{row['step']}; raise the regularizer's weight"
                )
            rank = row.get(self._named(name, "rankme"), math.inf)
            if not self.spreads and (collapsed(mean, mean) or rank < _MIN_RANKME):
                symptom = f"RankMe is {rank:.2g}" if rank < _MIN_RANKME else f"mean variance is {mean:.2g}"
                return f"{whose} collapsed: its {symptom} at step {row['step']}; try a lower learning_rate"
        return ""

    def alarm(self, row: Mapping[str, Any]) -> str:
        """Like `collapse`, once per collapse: an embedding may recover and collapse again."""
        reason = self.collapse(row)
        before, self._alarmed = self._alarmed, bool(reason)
        return "" if before else reason

    def _named(self, model: str, number: str) -> str:
        """Key of a number in the metrics: those of the first model have no prefix."""
        return number if model == self.models[0] else f"{model}.{number}"


_SPEED_SECONDS = 1.0  # between two measurements of the speed


class Bar:
    """A rich progress bar on a terminal, else a line every few seconds.

    Args:
        steps: length of the run.
        done: steps already done.
        show: whether to draw the bar; None draws it on a terminal and prints lines elsewhere.
    """

    def __init__(self, steps: int, done: int, show: bool | None) -> None:
        # slow to import
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        visible = sys.stderr.isatty() if show is None else show
        self._progress = Progress(
            TextColumn("training", markup=False),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[speed]}", markup=False),
            TextColumn("{task.fields[terms]}", markup=False),
            console=Console(stderr=True),
            disable=not visible,
        )
        self._plain = PlainProgress("training: step", done) if show is None and not visible else None
        self._steps, self._terms = steps, ""
        self._task = self._progress.add_task("training", total=steps, completed=done, terms="", speed="")
        self._states, self._since = 0, time.monotonic()
        self._speed = math.nan

    def __enter__(self) -> "Bar":
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    @property
    def speed(self) -> dict[str, float]:
        """States per second under its logged name; empty before the first second."""
        return {} if math.isnan(self._speed) else {"states_per_second": self._speed}

    def move(self, step: int, states: int) -> None:
        """Advance to a number of steps; `states` is the batch size of the last one."""
        self._states += states
        passed = time.monotonic() - self._since
        if passed >= _SPEED_SECONDS:
            self._speed = self._states / passed
            self._states, self._since = 0, time.monotonic()
            self._progress.update(self._task, speed=f"{self._speed:,.0f}/s")
        self._progress.update(self._task, completed=step)
        if self._plain is not None:
            self._plain.update(step, self._steps, self._terms)

    def show(self, row: Mapping[str, float]) -> None:
        """Show the latest metrics."""
        terms = {name: value for name, value in row.items() if name not in ("step", *GAUGES)}
        self._terms = "  ".join(f"{k} {v:.4g}" for k, v in terms.items())
        self._progress.update(self._task, terms=self._terms)

    def print(self, text: str) -> None:
        """Print a line above the bar."""
        self._progress.console.print(text, markup=False, highlight=False)


class Call:
    """Argument of the learner; opaque to wrappers that would inspect or move tensors."""

    __slots__ = ("batch", "generator")

    def __init__(self, batch: Batch, generator: torch.Generator) -> None:
        self.batch, self.generator = batch, generator


class Learner(nn.Module):
    """Models and objective.

    Args:
        models: by name.
        objective: an `Objective`, or a loss of views.
    """

    def __init__(self, models: Mapping[str, nn.Module], objective: Callable[..., Any]) -> None:
        super().__init__()
        self.models = nn.ModuleDict(dict(models))
        self.objective = as_objective(objective)
        self.answering: dict[str, Model] = {name: as_model(module) for name, module in models.items()}
        self.objective.start(self.answering)

    def forward(self, call: Call) -> dict[str, Tensor]:
        """The loss of a batch and its terms, by name."""
        loss = self.objective(self.answering, call.batch, call.generator)
        if not isinstance(loss, Loss):
            raise ValueError(
                f"objective must return a Loss, got {type(loss).__name__}; a regularizer alone is none: "
                "use LeJEPA(regularizer=...)"
            )
        return {"loss": loss.total, **loss.terms}

    def compile_models(self) -> None:
        """Compile the called modules in place; names and weights stay."""
        for part in self._called():
            part.compile()

    def uncompile_models(self) -> None:
        """Undo `compile_models`: a compiled module cannot be copied or sent to another process."""
        for part in self._called():
            part._compiled_call_impl = None

    def _called(self) -> list[nn.Module]:
        """Modules that are called: the innermost parts of models that implement `Model`."""
        return [part for module in self.models.values() for part in _called_parts(module)]


def _called_parts(module: nn.Module) -> list[nn.Module]:
    if not isinstance(module, Model):
        return [module]
    return [part for child in module.children() for part in _called_parts(child)]


def named_models(model: nn.Module | Mapping[str, nn.Module]) -> dict[str, nn.Module]:
    """Models by name; one alone is the "encoder".

    Raises:
        ValueError: no model, no module, or a name that cannot be a file name of the run directory.
    """
    models = {"encoder": model} if isinstance(model, nn.Module) else model
    if not isinstance(models, Mapping) or not models:
        raise ValueError(f"model must be a module, or modules by name, got {type(model).__name__}")
    for name, module in models.items():
        if not name.isidentifier() or name in PARTS:
            raise ValueError(f"a model's name must be a word other than {', '.join(PARTS)}, got {name!r}")
        if name in dir(nn.ModuleDict):  # torch rejects these as names of submodules
            raise ValueError(f"a model's name must not be that of a method of torch modules, got {name!r}")
        if not isinstance(module, nn.Module):
            raise ValueError(f"model {name!r} must be a torch module, got {type(module).__name__}")
    return dict(models)


def check_models(models: Mapping[str, nn.Module], objective: Callable[..., Any], batch: Batch) -> None:
    """Call the models on a few observations, so that a mismatch is raised before the first step.

    Args:
        models: by name.
        objective: decides which views each model sees.
        batch: a few samples.

    Raises:
        ValueError: a model does not accept the views, or does not return vectors.
    """
    inputs = as_objective(objective).views_for_model(
        {name: as_model(one) for name, one in models.items()}, batch
    )
    for name, part in inputs.items():
        module = models[name]
        device = next((p.device for p in module.parameters()), torch.device("cpu"))
        for view in part.views:
            try:
                with evaluating(module), torch.no_grad():
                    h = as_model(module).embed(view.to(device))
            except RuntimeError as error:
                raise ValueError(
                    f"encoder does not take the world's observations of shape {tuple(view.shape)}: {error}"
                ) from error
            if not isinstance(h, Tensor):
                raise ValueError(f"encoder must return a tensor (batch, dim), got {type(h).__name__}")
            if h.ndim != 2 or len(h) != len(view):
                raise ValueError(
                    f"encoder must map (batch, ...) to (batch, dim), got {tuple(h.shape)} "
                    f"for batch {len(view)}"
                )


_PROBE_STATES = 8  # on which models are called before the first step, and which ranks compare


@validate_types
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

    Models start from their current weights. With a run directory, the same call resumes where it was stopped,
    and returns at once when the run is finished.

    Args:
        model: maps observations to embeddings, see `isojepa.encoders.Model`; or several by name. Trained in
            place.
        source: source of batches, e.g. a `World`; `Episodes`; or pairs, `(x, x_next)` or a DataLoader of them
            (see `isojepa.data.as_source`), whose batch size is the default.
        objective: an `Objective`, or a loss of views such as `LeJEPA`.
        recipe: steps, batch, learning rate, devices, ...
        evaluations: metrics measured during training; by default recovery if the source knows its latents,
            else the spread of the embedding, on fresh samples of the source. A finite set has none: pass
            evaluations of another set, e.g. `Recovery(held_out)`.
        seed: draws the data, the slices and the held-out set.
        record: run directory; None keeps everything in memory.
        config: config to store there; by default a description of the arguments.
        progress: draw a progress bar; by default when standard error is a terminal.
        loggers: receive every row of metrics.
        settings: single settings of the recipe, e.g. `steps=500`.

    Returns:
        The run. If it diverged or collapsed, `status` and `reason` say so and a RunWarning is issued.

    Raises:
        ValueError: the model does not fit the source, or the run directory belongs to another run.
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
    sample = source.sample(_PROBE_STATES, generator(0, "probe"))
    check_models(models, objective, sample)
    if record is not None and config is None:
        config = describe(models, source, objective, recipe, seed, evaluations)
    if evaluations is None:
        evaluations = default_evaluations(source, recipe.eval_samples)
    team = Team(recipe)
    with team.together(), contextlib.ExitStack() as held:
        check_alike(team, source, sample)
        training = _Training(models, source, objective, recipe, seed, evaluations, loggers, team)
        done = False
        if record is not None:
            resolved = config or {}
            folder = team.on_rank_zero(lambda: held.enter_context(RunDirectory.held(record, resolved)))
            done = team.on_rank_zero(lambda: folder.result) is not None
            team.on_rank_zero(folder.clean)
            training.record = folder
        run = training.finished() if done else training.run(progress)
    return run.warned() if team.first else run


def _windows(source: Any, objective: Callable[..., Any], models: Mapping[str, nn.Module]) -> Any:
    """Episodes as windows of the length that the objective needs; other sources unchanged."""
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
        self.models, self.original_objective, self.source = models, objective, source
        self.recipe, self.seed, self.evaluations, self.team = recipe, seed, evaluations, team
        self.loggers = loggers if team.first else ()
        self.record: RunDirectory | None = None
        if recipe.sync_norms and team.size > 1:
            self.models = {name: synchronised(module) for name, module in models.items()}
        self.learner = Learner(self.models, objective)
        self.learner.objective.plan(recipe.steps)
        self.half = None if recipe.precision == "float32" else getattr(torch, recipe.precision)
        self.health = Health(tuple(models), self.learner.objective.prevents_collapse)
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
        shares = RankBatches(self.source, recipe, self.seed, self.team.rank, self.team.size, pin, defer)
        self.batches = shares.from_step(self.state.step)
        self.learner.train()
        if recipe.compile:
            self.learner.compile_models()

    def run(self, progress: bool | None) -> Run:
        self._prepare()
        state, recipe = self.state, self.recipe
        started, cpu_started = time.monotonic() - state.seconds, time.process_time() - state.cpu_seconds
        pace = CheckpointPace(recipe.checkpoint_seconds)
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
        """One optimizer step; returns the reason to abort, or "", and whether a stop was requested."""
        state, recipe = self.state, self.recipe
        factor = SCHEDULES[recipe.schedule](state.step, recipe.steps, recipe.warmup)
        for group in self.optimizer.param_groups:
            group["lr"] = recipe.learning_rate * factor * group["rate"]
        parts = [part.to(self.team.device) for part in next(self.batches)]
        self.optimizer.zero_grad()
        totals: list[float] = []
        code = Status.OK
        for index, part in enumerate(parts):
            last = index == len(parts) - 1
            with self.team.no_sync(self.call, not last):
                terms = self._forward(part, index)
                values = [term.item() for term in terms.values()]
                code = Status.STOP if interrupts.pending else Status.OK
                code = self.team.all_reduce_status(code if math.isfinite(values[0]) else Status.NONFINITE)
                if code == Status.NONFINITE:
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
        return "", code == Status.STOP

    def _forward(self, batch: Batch, part: int) -> dict[str, Tensor]:
        """Terms of the loss; randomness comes from streams named by the step."""
        stream = (self.state.step, *((part,) if part else ()))
        rank_stream = ("rank", self.team.rank) if self.team.rank else ()  # dropout differs from rank to rank
        device = self.team.device
        with borrowed(self.seed, "encoder", *stream, *rank_stream, device=device):
            call = Call(batch, generator(self.seed, "slices", *stream))
            terms: dict[str, Tensor]
            if self.half is None:
                terms = self.call(call)
            else:
                with torch.autocast(device.type, self.half):
                    terms = self.call(call)
            return terms

    def _move(self) -> None:
        """Clip the gradients and take an optimizer step."""
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
        """Whether to write a row of metrics after `step` steps, with or without evaluations."""
        pace = step % self.recipe.eval_every == 0 or step == self.recipe.steps
        return bool(self._due(step)) or (pace and not self.evaluations)

    def _evaluate(self, bar: Bar) -> str:
        """Run the evaluations that are due, log the row, and start a new window of loss terms.

        Returns the reason to abort, or an empty string.
        """
        state = self.state
        due = self._due(state.step)
        if not self._row_due(state.step):
            return ""
        measured = self.team.on_rank_zero(lambda: self._measured(due))
        if self.health.broken(measured):
            return f"the embeddings became NaN or Inf by step {state.step}: try a lower learning_rate"
        since = state.step - state.logged_step
        row: dict[str, Any] = {"step": state.step}
        row |= {name: value / since for name, value in zip(self.names, state.window, strict=True)}
        row |= measured
        row["gradient_norm"] = self.norm
        row["learning_rate"] = self.optimizer.param_groups[0]["lr"]
        state.window, state.logged_step = [], state.step
        self.metrics.append(row)
        if self.record is not None and self.team.first:
            self.record.append(row)
            state.metrics_size = self.record.metrics_size
        for logger in self.loggers:
            logger.log(row | bar.speed)
        bar.show(row)
        if self.team.first and (alarm := self.health.alarm(row)):
            bar.print(f"warning: {alarm}")
        return ""

    def _measured(self, due: Sequence[Evaluation]) -> dict[str, float]:
        """Results of evaluations, with averaged weights if the recipe asks for them."""
        scores: dict[str, float] = {}
        averaged = contextlib.nullcontext() if self.average is None else self.average.apply()
        with averaged, evaluating(self.learner), torch.no_grad():
            for evaluation in due:
                numbers = evaluation(self.learner.answering, generator(self.seed, "eval"))
                twice = sorted(scores.keys() & numbers)
                if twice:
                    raise ValueError(f"two evaluations measure {twice[0]!r}: {[e.name for e in due]}")
                scores |= numbers
        return scores

    def _restore(self) -> Progress:
        """The state to start from: the checkpoint's, or that of a new run."""
        fresh = Progress()
        if self.record is None:
            return fresh
        record = self.record
        if self.team.on_rank_zero(record.checkpoint.exists):
            fresh = checkpoints.load_checkpoint(
                record.checkpoint,
                self.learner,
                self.optimizer,
                self.average,
                self.scaler,
                record=record.id,
                steps=self.recipe.steps,
            )
            self._log_resume(fresh)
        self.metrics = self.team.on_rank_zero(lambda: record.rewind(fresh.metrics_size))
        return fresh

    def _log_resume(self, state: Progress) -> None:
        """Log the step at which the run resumes and any mismatch."""
        message = f"resuming from step {state.step}{state.remark(self.team.size)}"
        if self.team.first:
            print(message, file=sys.stderr)  # standard output may be parsed by a program

    def _save(self) -> None:
        if self.record is not None and self.team.first:
            state, record = self.state, self.record
            state.ranks, state.record = self.team.size, record.id
            make_folder(record.checkpoint.parent)
            parts = (self.learner, self.optimizer, state, self.average, self.scaler)
            checkpoints.save_checkpoint(record.checkpoint, *parts)

    def _end(self, reason: str) -> Run:
        """Determine the status of the run and write its result."""
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
        self.team.on_rank_zero(lambda: None)  # ranks wait until the run directory is complete
        facts = summary(self.source)
        return Run(self.models, status, reason, self.metrics, self.state.seconds, self.record, facts)

    def finished(self) -> Run:
        """The run of a run directory that is already complete."""
        record = cast(RunDirectory, self.record)
        for name, module in self._weights():
            record.load_weights(name, module)
        for module in self.models.values():
            module.eval()
        result = record.result or {}
        seconds = float(result["seconds"])
        facts = result.get("source") or {}
        return Run(self.models, result["status"], result["reason"], record.metrics, seconds, record, facts)

    def _weights(self) -> list[tuple[str, nn.Module]]:
        """Modules whose weights are saved: the models and, if it is a module, the objective."""
        objective = (
            [("objective", self.original_objective)] if isinstance(self.original_objective, nn.Module) else []
        )
        return [*self.models.items(), *objective]
