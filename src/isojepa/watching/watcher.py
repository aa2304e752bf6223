"""Watch a model in a training loop of another library: hooks, alarms, a line and a plot.

Watching a model that somebody else's loop trains.

    watch = ij.watch(model, every=100)
    ...
    watch.step()                       # once per step of the optimiser
    ...
    watch.close()

A hook looks at what the module, or a named submodule, returns in training mode. Shortly before a measurement
it copies rows to the CPU, as many as are needed and at most `rows`; in between it does nothing. A measurement
takes the numbers of `isojepa.watching.numbers`, tells them in a line, hands them to loggers and gives an
alarm where these show a collapse. In a distributed job the first rank watches its own rows and
nobody waits.

When numbers of embeddings say that a model collapses, and what to do about it.

    broken       outputs are NaN or Inf
    collapse     all inputs get one embedding: next to no variance, alone or beside the length of the mean
    direction    a direction that had variance has next to none, as `isojepa.linear.collapsed` tells and `fit`
    dimensions   the effective rank has fallen below a share of the highest that was seen

The last two compare with what was seen before and must hold at two measurements in a row: networks often
begin anisotropic, and those of others need not be isotropic at all. Each alarm is given once.

The embeddings in what a module returns: a tensor, or one of a tuple, a dict or a dataclass.

    (batch, dim)                      as it is
    (batch, token, dim)               the mean over tokens
    (batch, channel, height, width)   the mean over positions, as backbones pool their maps

Whoever wants another one, such as the token of the class, hands in a function of the output.

What was watched, for people: a line, a table, a picture.

The most recent rows of a stream of batches: at most so many, detached, on the CPU.
"""

import dataclasses
import math
import sys
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.optim import Optimizer

from isojepa import ranks
from isojepa.arguments import check_count, check_number, checked
from isojepa.files import write_whole
from isojepa.linear import collapsed
from isojepa.names import shown, unknown
from isojepa.places import place
from isojepa.terminal import aligned, visible
from isojepa.training.loggers import Logger
from isojepa.watching.numbers import measure

_NEXT_TO_NONE = 1e-5  # of the mean square of the embeddings, the share that varies
_TWICE = 2


class WatchWarning(UserWarning):
    """Something could not be watched."""


class CollapseWarning(WatchWarning):
    """A watched model collapses."""


@dataclass(frozen=True)
class Alarm:
    """What was seen, when, and what to do.

    Attributes:
        step: of the measurement.
        kind: broken, collapse, direction or dimensions.
        message: a sentence with the numbers and the advice.
    """

    step: int
    kind: str
    message: str


class Alarms:
    """Judges one row of numbers after another.

    Args:
        drop: share of the highest effective rank below which dimensions count as lost.

    Example:
        >>> rule = Alarms()
        >>> row = {"nonfinite": 0, "mean_variance": 1e-9, "mean_length": 1, "effective_rank": 1}
        >>> rule.judge(100, row, dim=8)[0].kind
        'collapse'
    """

    def __init__(self, drop: float = 0.5) -> None:
        self.drop = drop
        self._given: set[str] = set()
        self._seen: dict[str, int] = {}
        self._highest, self._at = 0.0, 0
        self._whole = False

    def judge(self, step: int, row: Mapping[str, float], dim: int) -> list[Alarm]:
        """The alarms that a row gives for the first time.

        Args:
            step: when it was measured.
            row: what `measure` gives.
            dim: of the embeddings.
        """
        found = self._found(row, dim)
        self._remember(step, row)
        new = []
        for kind, message in found.items():
            self._seen[kind] = self._seen.get(kind, 0) + 1
            due = self._seen[kind] >= (1 if kind in ("broken", "collapse") else _TWICE)
            if due and kind not in self._given:
                self._given.add(kind)
                new.append(Alarm(step, kind, f"step {step}: {message}"))
        for kind in self._seen.keys() - found.keys():
            self._seen[kind] = 0
        return new

    def _found(self, row: Mapping[str, float], dim: int) -> dict[str, str]:
        """What is wrong in a row, by kind; the graver hides the others."""
        if row["nonfinite"] > 0:
            return {
                "broken": f"{100 * row['nonfinite']:.3g} % of the embeddings are NaN or Inf: lower the "
                "learning rate, clip gradients, or train in float32 or bfloat16 instead of float16"
            }
        mean = row["mean_variance"]
        square = mean + row["mean_length"] ** 2 / dim
        if mean < 1e-6 or mean < _NEXT_TO_NONE * square:
            return {
                "collapse": f"all inputs get nearly the same embedding, of variance {mean:.2g} around a mean "
                f"of length {row['mean_length']:.2g}: give the term that spreads embeddings (SIGReg, "
                "variance, negatives) more weight, or the model a stop-gradient if its method needs one, and "
                "lower the learning rate"
            }
        found = {}
        smallest = row.get("smallest_variance", math.nan)
        if self._whole and not math.isnan(smallest) and collapsed(smallest, mean):
            found["direction"] = (
                f"a direction has lost its variance ({smallest:.2g} beside a mean of {mean:.2g}): raise the "
                "regularizer's weight, or embed in fewer dimensions"
            )
        rank = row["effective_rank"]
        if rank < self.drop * self._highest:
            found["dimensions"] = (
                f"the effective rank fell to {rank:.3g} from {self._highest:.3g} at step {self._at}: "
                "dimensions collapse; raise the regularizer's weight, lower the learning rate, or look "
                "whether the views still share what should be kept"
            )
        return found

    def _remember(self, step: int, row: Mapping[str, float]) -> None:
        if row["nonfinite"] > 0:
            return
        if row["effective_rank"] > self._highest:
            self._highest, self._at = row["effective_rank"], step
        smallest, mean = row.get("smallest_variance", math.nan), row["mean_variance"]
        self._whole = self._whole or (not math.isnan(smallest) and not collapsed(smallest, mean))


Choice = str | int | Callable[[Any], Tensor] | None


def embeddings_in(output: Any, choice: Choice = None) -> Tensor:
    """The embeddings (batch, dim) in what a module returned; without their graph.

    Args:
        output: what it returned.
        choice: the name or number of the part that is meant, or a function that takes it out. Without one
            there must be a single part that could be.

    Raises:
        ValueError: there is none, or there are several, or it has another shape.

    Example:
        >>> import torch
        >>> embeddings_in({"loss": torch.tensor(0.0), "features": torch.ones(2, 3, 4, 4)}).shape
        torch.Size([2, 3])
    """
    found = choice(output) if callable(choice) else _part(output, choice)
    if not isinstance(found, Tensor) or not found.is_floating_point() or found.ndim not in (2, 3, 4):
        raise ValueError(
            "the watched output must be a floating point tensor (batch, dim), (batch, token, dim) or (batch, "
            f"channel, height, width), got {_told(found)}: name the submodule whose output it is by at=..., "
            "or hand in output=a function that takes it out"
        )
    found = found.detach()
    if found.ndim == 3:
        return found.float().mean(1)
    return found.float().mean((2, 3)) if found.ndim == 4 else found


def _part(output: Any, choice: str | int | None) -> Any:
    if isinstance(output, Tensor):
        if choice is not None:
            raise ValueError(f"output must be none for a module that returns one tensor, got {choice!r}")
        return output
    parts = _parts(output)
    if choice is not None:
        if isinstance(choice, int) and -len(parts) <= choice < len(parts):
            return list(parts.values())[choice]
        if choice not in parts:
            names = ", ".join(map(repr, parts))
            raise ValueError(f"output must be one of {names or 'its parts'}, got {choice!r}")
        return parts[choice]
    fitting = {
        name: part
        for name, part in parts.items()
        if isinstance(part, Tensor) and part.is_floating_point() and part.ndim >= 2
    }
    if len(fitting) == 1:
        return next(iter(fitting.values()))
    if not fitting:
        return output
    told = ", ".join(f"{name!r} {tuple(part.shape)}" for name, part in fitting.items())
    raise ValueError(f"output must say which of the {len(fitting)} tensors to watch ({told}), got none")


def _parts(output: Any) -> dict[str | int, Any]:
    """The parts of an output by name or number."""
    if isinstance(output, Mapping):
        return dict(output)
    if isinstance(output, tuple | list):
        return dict(zip(getattr(output, "_fields", range(len(output))), output, strict=True))
    if dataclasses.is_dataclass(output) and not isinstance(output, type):
        return {item.name: getattr(output, item.name) for item in dataclasses.fields(output)}
    return {}


def _told(found: Any) -> str:
    if isinstance(found, Tensor):
        return f"{found.dtype} of shape {tuple(found.shape)}"
    return f"a {type(found).__name__}" if len(shown(found)) > 60 else shown(found)


_COLUMNS = {
    "step": "step",
    "effective_rank": "effective rank",
    "gaussianity": "gaussianity",
    "gaussianity_p": "p",
    "disagreement": "disagreement",
    "alignment": "alignment",
    "mean_variance": "mean variance",
}


def line_of(name: str, row: Mapping[str, float], dim: int) -> str:
    """One measurement in a line.

    Example:
        >>> row = {"step": 100, "effective_rank": 7.9, "gaussianity": 1.25, "gaussianity_p": 0.2}
        >>> line_of("watch", row, 8)
        'watch: step 100, effective rank 7.9 of 8, gaussianity 1.25 (p 0.2)'
    """
    parts = [f"step {row['step']:.0f}"]
    if _known(row, "effective_rank"):
        parts.append(f"effective rank {row['effective_rank']:.3g} of {dim}")
    if _known(row, "gaussianity"):
        parts.append(f"gaussianity {row['gaussianity']:.3g} (p {row['gaussianity_p']:.2g})")
    if _known(row, "disagreement"):
        parts.append(f"alignment {row['alignment']:.3g} (views disagree by {row['disagreement']:.2g})")
    if row.get("nonfinite", 0.0) > 0:
        parts.append(f"{100 * row['nonfinite']:.3g} % of the rows NaN or Inf")
    return f"{name}: {', '.join(parts)}"


def table_of(rows: Sequence[Mapping[str, float]]) -> str:
    """All measurements as lines of columns; those that were never known are left out."""
    keys = [key for key in _COLUMNS if key == "step" or any(_known(row, key) for row in rows)]
    cells = [[_COLUMNS[key] for key in keys]]
    for row in rows:
        cells.append([f"{row[key]:.0f}" if key == "step" else _number(row[key]) for key in keys])
    return "\n".join(aligned(cells))


def draw(rows: Sequence[Mapping[str, float]], path: str | Path, title: str) -> Path:
    """Write a picture of the numbers over the steps; what was never known is left out.

    Args:
        rows: measurements.
        path: a PNG, PDF or SVG file.
        title: above it.
    """
    from matplotlib.figure import Figure  # without pyplot: no global state, no screen

    keys = [key for key in _COLUMNS if key != "step" and any(_known(row, key) for row in rows)]
    figure = Figure(figsize=(4 * max(1, min(3, len(keys))), 2.6 * max(1, math.ceil(len(keys) / 3))))
    for index, key in enumerate(keys, 1):
        axes: Any = figure.add_subplot(math.ceil(len(keys) / 3), min(3, len(keys)), index)
        axes.plot([row["step"] for row in rows], [row[key] for row in rows], marker=".")
        axes.set_title(_COLUMNS[key], fontsize=9)
        axes.set_xlabel("step", fontsize=8)
    figure.suptitle(title)
    figure.tight_layout()
    kind = Path(path).suffix.removeprefix(".") or "png"
    write_whole(Path(path), lambda half: figure.savefig(half, format=kind))
    return Path(path)


def _known(row: Mapping[str, float], key: str) -> bool:
    return not math.isnan(row.get(key, math.nan))


def _number(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.4g}"


class Rows:
    """A ring of recent embeddings.

    Args:
        most: rows that it holds.

    Example:
        >>> rows = Rows(3)
        >>> rows.add(torch.tensor([[1.0], [2.0]]))
        >>> rows.add(torch.tensor([[3.0], [4.0]]))
        >>> rows.whole().flatten().tolist()
        [2.0, 3.0, 4.0]
    """

    def __init__(self, most: int) -> None:
        self.most, self.held = most, 0
        self._parts: deque[Tensor] = deque()

    def add(self, h: Tensor) -> None:
        """Add the rows of a batch (n, dim), evenly spaced ones if there are too many.

        Rows of another dimension than before replace all.
        """
        part = apart(thinned(h, self.most))
        if self._parts and self._parts[0].shape[1] != part.shape[1]:
            self.clear()
        self._parts.append(part)
        self.held += len(part)
        while self.held - len(self._parts[0]) >= self.most:
            self.held -= len(self._parts.popleft())

    def whole(self) -> Tensor:
        """The rows, oldest first: (rows, dim); (0, 0) if there are none."""
        return torch.cat(list(self._parts))[-self.most :] if self._parts else torch.empty(0, 0)

    def clear(self) -> None:
        """Forget them."""
        self._parts.clear()
        self.held = 0


def thinned(h: Tensor, most: int, axis: int = 0) -> Tensor:
    """Evenly spaced rows: a batch may be sorted, so that its first or last ones are no sample of it."""
    n = h.shape[axis]
    if n <= most:
        return h
    return h.index_select(axis, torch.arange(most, device=h.device) * n // most)


def apart(h: Tensor) -> Tensor:
    """A copy on the CPU, at least float32: neither graph nor later changes in place reach it."""
    kind = torch.float64 if h.dtype == torch.float64 else torch.float32
    return h.detach().to("cpu", kind, copy=True)


_SILENT = 2  # times that a measurement was due and nothing had been seen, before that is told


class Watch:
    """Live numbers of the embeddings of a model, and an alarm when it collapses.

    Args:
        model: the module whose outputs are watched; without one, hand embeddings in by calling the watch.
        every: steps between two measurements; the first step has one too.
        at: name of the submodule to watch, as in `model.get_submodule`.
        output: which part of what it returns, by name or number, or a function that takes it out; see
            `isojepa.watching.watcher`.
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
