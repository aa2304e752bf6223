"""Watching a model that somebody else's loop trains.

    watch = ij.watch(model, every=100)
    ...
    watch.step()                       # once per step of the optimiser
    ...
    watch.close()

A hook looks at what the module, or a named submodule, returns in training mode. Shortly before a measurement
it copies rows to the CPU, as many as are needed and at most `rows`; in between it does nothing. A measurement
takes the numbers of `isojepa.watching.numbers`, tells them in a line, hands them to loggers and gives an
alarm where `isojepa.watching.alarms` finds one. In a distributed job the first rank watches its own rows and
nobody waits.
"""

import sys
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.optim import Optimizer

from isojepa import ranks
from isojepa.arguments import check_count, check_number, checked
from isojepa.names import unknown
from isojepa.places import place
from isojepa.terminal import visible
from isojepa.training.loggers import Logger
from isojepa.watching.alarms import Alarm, Alarms, CollapseWarning, WatchWarning
from isojepa.watching.numbers import measure
from isojepa.watching.outputs import Choice, embeddings_in
from isojepa.watching.rows import Rows, apart, thinned
from isojepa.watching.telling import draw, line_of, table_of

_SILENT = 2  # times that a measurement was due and nothing had been seen, before that is told


class Watch:
    """Live numbers of the embeddings of a model, and an alarm when it collapses.

    Args:
        model: the module whose outputs are watched; without one, hand embeddings in by calling the watch.
        every: steps between two measurements; the first step has one too.
        at: name of the submodule to watch, as in `model.get_submodule`.
        output: which part of what it returns, by name or number, or a function that takes it out; see
            `isojepa.watching.outputs`.
        views: how many views of each state a step has, called one after the other or stacked in one batch,
            view by view: then alignment is measured. With gradients accumulated over several calls, hand
            views in instead.
        optimizer: counts the steps, in place of calls of `step`.
        start: steps that were done before, of a run that goes on.
        rows: embeddings that are kept, the most recent.
        standardize: test for a normal law of any mean and covariance in place of N(0, I).
        drop: share of the highest effective rank below which an alarm is given.
        evaluating: look at outputs in evaluation mode too.
        name: begins the lines, and the names that loggers see: "watch/effective_rank".
        loggers: receive every row, e.g. `isojepa.training.TensorBoard(folder)`, or functions of it such as
            `wandb.log`.
        show: print a line for every measurement to standard error.

    Attributes:
        history: one row of numbers per measurement.
        alarms: what was wrong, once each.

    Raises:
        ValueError: no such submodule, or an argument is out of range; at the first output, that it holds no
            embeddings. Later outputs that hold none are left out, with a warning.

    Example:
        >>> model = nn.Linear(4, 3)
        >>> with Watch(model, every=2, show=False) as watch:
        ...     for _ in range(4):
        ...         _ = model(torch.randn(32, 4))
        ...         _ = watch.step()
        >>> [row["step"] for row in watch.history]
        [1, 2, 4]
    """

    @checked
    def __init__(
        self,
        model: nn.Module | None = None,
        every: int = 100,
        *,
        at: str = "",
        output: Choice = None,
        views: int | None = None,
        optimizer: Optimizer | None = None,
        start: int = 0,
        rows: int = 1024,
        standardize: bool = False,
        drop: float = 0.5,
        evaluating: bool = False,
        name: str = "watch",
        loggers: Sequence[Logger | Callable[[dict[str, float]], Any]] = (),
        show: bool = True,
    ) -> None:
        self.every, self.rows = check_count("every", every), check_count("rows", rows, 16, 1 << 20)
        self.views = None if views is None else check_count("views", views, 2, 1024)
        self.drop = check_number("drop", drop, "lie in [0, 1)", lambda value: 0 <= value < 1)
        if at and model is None:
            raise ValueError(f"at must be empty without a model, got {at!r}")
        self.output, self.standardize, self.evaluating = output, standardize, evaluating
        self.name, self.loggers, self.show = name, tuple(loggers), show
        self.history: list[dict[str, float]] = []
        self.alarms: list[Alarm] = []
        self.steps = check_count("start", start, 0)
        self._rules = Alarms(self.drop)
        self._rows = Rows(self.rows)
        self._now: list[Tensor] = []  # outputs of this step, for its views
        self._per_step = self._counted = self._silent = 0
        self._due, self._open = self.steps + 1, True
        self._told: set[str] = set()
        self._counts_calls = model is None and optimizer is None
        self._handles: list[Any] = []
        if model is not None:
            module = _submodule(model, at)
            self._handles.append(module.register_forward_hook(_Hook(self, module)))
        if optimizer is not None:
            self._handles.append(optimizer.register_step_post_hook(lambda *_: self._stepped()))

    def step(self, step: int | None = None) -> dict[str, float] | None:
        """Say that a step of training is done.

        Args:
            step: its number, from 1, where the loop counts on its own; by default one more than the last.

        Returns:
            The numbers, if it was time for a measurement.
        """
        if not self._open:
            return None
        self.steps = self.steps + 1 if step is None else max(self.steps, check_count("step", step, 0))
        views = self._views()
        row = None
        if self.steps >= self._due:
            self._due = (self.steps // self.every + 1) * self.every
            row = self._measured(views) if _first() else None
        self._per_step = self._counted or self._per_step
        self._counted, self._now = 0, []
        return row

    def __call__(self, h: Tensor | Sequence[Tensor]) -> dict[str, float] | None:
        """Look at embeddings (batch, dim), or at views (view, batch, dim) or a sequence of them.

        Without a model and an optimizer, a call is a step.

        Raises:
            ValueError: it is something else.
        """
        if self._wanted():
            self._take(*_split(h))
        return self.step() if self._counts_calls else None

    def table(self) -> str:
        """The history as text."""
        return table_of(self.history)

    def plot(self, path: str | Path) -> Path:
        """Write a picture of the history; returns where."""
        return draw(self.history, path, self.name)

    def close(self) -> None:
        """Take the hooks off the model, close the loggers and forget the rows; the history stays."""
        if not self._open:
            return
        self._open = False
        for handle in self._handles:
            handle.remove()
        self._rows.clear()
        self._now = []
        for logger in self.loggers:
            if not callable(logger):
                logger.close()

    def __enter__(self) -> "Watch":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _stepped(self) -> None:
        self.step()

    def _wanted(self) -> bool:
        """Whether rows of this step are needed for the next measurement."""
        if not self._open or ranks.transformed() or not _first():
            return False
        left = self._due - self.steps  # steps with this one; the rows of earlier ones would be pushed out
        return left <= 1 or (left - 1) * self._per_step < self.rows

    def look(self, output: Any) -> None:
        """Take the embeddings out of what the watched module returned; what its hook calls."""
        if not self._wanted():
            return
        try:
            h = embeddings_in(output, self.output)
        except Exception as error:
            if not self._rows.held and not self._now:
                raise  # the first output: nothing is lost yet
            self._warn(f"an output was left out: {error}")
            return
        self._take(h, None)

    def _take(self, h: Tensor, views: Tensor | None) -> None:
        """Keep rows (batch, dim), of the first view where the views are known, and the views themselves."""
        if views is not None:
            self._now = [apart(thinned(views, self.rows, 1))]
        elif self.views is not None:
            self._now.append(apart(h))  # which rows are views of one state shows when the step is whole
            return
        self._keep(h)

    def _keep(self, h: Tensor) -> None:
        self._rows.add(h)
        self._counted += len(h)

    def _views(self) -> Tensor | None:
        """The views of this step (view, batch, dim), if they are all there; rows of the first are kept."""
        if not self._now or self._now[0].ndim == 3:
            return self._now[0] if self._now else None
        count, n = self.views or 1, sum(map(len, self._now))
        if n % count or len({h.shape[1] for h in self._now}) > 1:
            shapes = ", ".join(str(tuple(h.shape)) for h in self._now)
            self._warn(
                f"outputs {shapes} of a step are not {count} views of equal size: they are not compared"
            )
            self._keep(self._now[0])
            return None
        views = torch.cat(self._now).unflatten(0, (count, n // count))
        self._keep(views[0])
        return thinned(views, self.rows, 1)

    def _measured(self, views: Tensor | None) -> dict[str, float] | None:
        h = self._rows.whole()
        if not len(h):
            self._nothing()
            return None
        numbers = measure(h, views, standardize=self.standardize)
        row: dict[str, float] = {"step": self.steps, **numbers}
        self.history.append(row)
        if self.show:
            print(visible(line_of(self.name, row, h.shape[1])), file=sys.stderr)
        for logger in self.loggers:
            told = {key if key == "step" else f"{self.name}/{key}": value for key, value in row.items()}
            if callable(logger):
                logger(told)
            else:
                logger.log(told)
        for alarm in self._rules.judge(self.steps, numbers, h.shape[1]):
            self.alarms.append(alarm)
            self._warn(alarm.message, CollapseWarning)
        return row

    def _nothing(self) -> None:
        self._silent += 1
        if self._silent == _SILENT:
            self._warn(
                f"no output was seen in {self.steps} steps: is the watched module called, in training mode? "
                "Name the one that is by at=..., or set evaluating=True"
            )

    def _warn(self, message: str, kind: type[Warning] = WatchWarning) -> None:
        if message not in self._told:
            self._told.add(message)
            warnings.warn(f"{self.name}: {message}", kind, stacklevel=4)


class _Hook:
    """A forward hook that looks at one module only, and stays behind when the module is copied or pickled."""

    def __init__(self, watch: Watch, module: nn.Module) -> None:
        self.watch, self.module = weakref.ref(watch), weakref.ref(module)
        # not as a decorator: it loads the compiler, which whoever only imports this does not need
        self._outside: Callable[[nn.Module, Any], None] = torch.compiler.disable(self._see)

    def __call__(self, module: nn.Module, given: Any, output: Any) -> None:
        self._outside(module, output)

    def _see(self, module: nn.Module, output: Any) -> None:
        watch = self.watch()
        # a copy of the model, such as a teacher that follows it, has a hook of the same watch
        if watch is not None and self.module() is module and (module.training or watch.evaluating):
            watch.look(output)

    def __reduce__(self) -> tuple[Callable[[], Any], tuple[()]]:
        return _no_hook, ()


class _NoHook:
    def __call__(self, module: nn.Module, given: Any, output: Any) -> None:
        """Do nothing."""


def _no_hook() -> _NoHook:
    return _NoHook()


def _submodule(model: nn.Module, at: str) -> nn.Module:
    """A module by its name; those that DistributedDataParallel and torch.compile wrap around it need none."""
    parts: Mapping[str, nn.Module] = dict(model.named_modules())
    for prefix in ("", "module.", "_orig_mod.", "_orig_mod.module.", "module._orig_mod."):
        if f"{prefix}{at}" in parts:
            return parts[f"{prefix}{at}"]
    raise ValueError(unknown("at", at, [name for name in parts if name]))


def _split(h: Any) -> tuple[Tensor, Tensor | None]:
    """Rows (batch, dim), and the views that they are the first of, if there are several."""
    if isinstance(h, tuple | list) and h and all(isinstance(part, Tensor) for part in h):
        if len({part.shape for part in h}) > 1:
            raise ValueError(f"views must have one shape, got {[tuple(part.shape) for part in h]}")
        h = torch.stack([part.detach() for part in h])
    if not isinstance(h, Tensor) or not h.is_floating_point() or h.ndim not in (2, 3) or not h.numel():
        told = f"{h.dtype} of shape {tuple(h.shape)}" if isinstance(h, Tensor) else type(h).__name__
        raise ValueError(f"embeddings must be floating point (batch, dim) or (view, batch, dim), got {told}")
    if h.ndim == 2:
        return h, None
    return h[0], h if len(h) > 1 else None


def _first() -> bool:
    """Whether this is the first rank of its job, or the only process."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank() == 0
    return place().first


watch = Watch  # a verb where it is used: ij.watch(model)
