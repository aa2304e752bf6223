"""Monitor a model in any training loop: live numbers, collapse alarms, a log line and a plot.

    watch = ij.watch(model, every=100)
    ...
    watch.step()                       # once per optimizer step
    ...
    watch.close()

    Trainer(callbacks=[ij.training.lightning_callback(at="encoder", every=100)])       # Lightning
    Trainer(..., callbacks=[ij.training.transformers_callback(every=100)])             # Hugging Face

A forward hook reads the output of the module, or of a named submodule, in training mode. Shortly before a
measurement it copies the rows needed to the CPU, at most `rows`; in between it does nothing. A measurement
prints a line, passes its row to the loggers and raises an alarm if the numbers show a collapse. In a
distributed job the first rank watches its own rows and no rank waits.

**Output.** A tensor, or one in a tuple, a dict or a dataclass; pass a function of the output for any other
embedding, such as the class token.

    (batch, dim)                      unchanged
    (batch, token, dim)               mean over tokens
    (batch, channel, height, width)   mean over positions, as backbones pool their maps

**Numbers.** With the variances v_1 >= ... >= v_d of rows h (n, d) along their principal directions,

    effective_rank      e^H with the entropy H of p_k = sqrt(v_k) / sum_j sqrt(v_j): RankMe (Garrido,
                        Balestriero, Najman & LeCun 2023) of centered rows; from 1 to min(n - 1, d)
    smallest_variance   v_d, or NaN where n < 2 d, which cannot show it
    mean_variance       the mean of v
    mean_length         |mean of h|
    gaussianity         the sliced Epps-Pulley statistic that SIGReg minimizes, on fixed directions and at
                        most 512 rows: about 1.06 for N(0, I), growing with their number for anything else
    gaussianity_p       its p-value, by simulation alignment           mean squared distance of views from
    their center, over batch and dimensions disagreement        that distance as a fraction of the variance
    of all rows: 0 if views agree, 1 if they have
                        nothing in common
    nonfinite           fraction of rows with NaN or Inf, which the others exclude

Rows are treated as independent. Several views of one state among them are not, and make p too small.

**Alarms.** Each is raised once.

    broken       outputs are NaN or Inf
    collapse     all inputs have one embedding: almost no variance, alone or beside the length of the mean
    direction    a direction that had variance has almost none, by the criterion of `isojepa.linear.collapsed`
    dimensions   the effective rank has fallen below a fraction of the highest measured

The last two compare with earlier measurements and must hold twice in a row: networks often start anisotropic,
and the embeddings of other objectives need not be isotropic at all.
"""

import dataclasses
import math
import sys
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.optim import Optimizer

from isojepa import ranks
from isojepa.io import write_whole
from isojepa.launch_env import rank_info
from isojepa.linear import collapsed
from isojepa.objectives.alignment import to_center
from isojepa.objectives.gaussianity import Sliced
from isojepa.terminal import aligned, escape_control
from isojepa.training.loggers import Logger
from isojepa.validation import check_count, check_number, short_repr, unknown, validate_types

NAMES = (
    "effective_rank",
    "gaussianity",
    "gaussianity_p",
    "alignment",
    "disagreement",
    "smallest_variance",
    "mean_variance",
    "mean_length",
    "nonfinite",
)
_MAX_TEST_ROWS = 512  # of the Gaussianity test
_MIN_TEST_ROWS = 16


def measure(
    h: Tensor, views: Tensor | None = None, *, standardize: bool = False, slices: int = 64, draws: int = 199
) -> dict[str, float]:
    """The numbers of rows and, where there are any, of views.

    Args:
        h: (rows, dim).
        views: (view, batch, dim), at least two.
        standardize: test for a normal distribution of any mean and covariance in place of N(0, I).
        slices: directions of the test.
        draws: simulations behind its p-value, made once for each size.

    Example:
        >>> row = measure(torch.randn(512, 8, generator=torch.Generator().manual_seed(0)))
        >>> 7.5 < row["effective_rank"] < 8, row["gaussianity_p"] > 0.01
        (True, True)
    """
    row = dict.fromkeys(NAMES, math.nan)
    good = torch.isfinite(h).all(1)
    row["nonfinite"] = 1 - float(good.double().mean()) if len(h) else 0.0
    h = h[good]
    with ranks.alone(), torch.no_grad():  # one rank measures its own rows; the others do not wait for it
        if len(h) >= 2:
            row |= _spread(h.double())
            row["gaussianity"], row["gaussianity_p"] = _gaussianity(
                h, Sliced(None, slices, standardize=standardize), draws
            )
        if views is not None and len(views) >= 2:
            row |= _agreement(views.double())
    return row


def variances(h: Tensor) -> np.ndarray:
    """Variances of rows (n, dim) along their principal directions, descending: min(n, dim) in float64."""
    centered = h - h.mean(0)
    square = (
        centered.T @ centered if len(h) > h.shape[1] else centered @ centered.T
    )  # the smaller has them all
    values = torch.linalg.eigvalsh(square / max(1, len(h) - 1)).flip(0).clamp(min=0)
    descending: np.ndarray = values.numpy()
    return descending


def effective_rank(variances: np.ndarray) -> float:
    """e^H of the square roots of variances as shares; 0 if there are none.

    Example:
        >>> round(effective_rank(np.array([1.0, 1.0, 0.0])), 6)
        2.0
    """
    # half the digits of the largest eigenvalue are lost in roots: less is rounding
    scales = np.sqrt(np.where(variances > 1e-14 * variances.max(initial=0.0), variances, 0.0))
    fractions = scales[scales > 0] / max(scales.sum(), np.finfo(float).tiny)
    return float(np.exp(-(fractions * np.log(fractions)).sum())) if len(fractions) else 0.0


def _spread(h: Tensor) -> dict[str, float]:
    n, dim = h.shape
    values = variances(h)
    return {
        "effective_rank": effective_rank(values),
        "smallest_variance": float(values[-1]) if n >= 2 * dim else math.nan,
        "mean_variance": float(values.sum()) / dim,
        "mean_length": float(h.mean(0).norm()),
    }


def _gaussianity(h: Tensor, test: Sliced, draws: int) -> tuple[float, float]:
    """Statistic and p-value, of so many rows that few sizes have to be simulated: a power of two."""
    if len(h) < _MIN_TEST_ROWS:
        return math.nan, math.nan
    n = min(_MAX_TEST_ROWS, 1 << (len(h).bit_length() - 1))
    sample = h[-n:].float()
    try:
        value = test.statistic(sample)
        p = test.null(n, h.shape[1], draws).pvalue(value, test.two_sided)
    except ValueError:  # a covariance that cannot be whitened
        return math.nan, math.nan
    return float(value), float(p)


def _agreement(views: Tensor) -> dict[str, float]:
    views = views[:, torch.isfinite(views).all(-1).all(0)]
    count, n, dim = views.shape
    if n < 2:
        return {}
    apart = float(to_center(views))
    total = float((views - views.mean((0, 1))).square().sum()) / (count * n * dim)
    # independent views lie (V - 1) / V of the variance from their center
    share = apart * count / (count - 1) / total if total > 0 else math.nan
    return {"alignment": apart, "disagreement": share}


_MIN_VARYING_FRACTION = 1e-5  # variance relative to the mean square of the embeddings
_MEASUREMENTS = 2  # in a row at which an alarm must hold


class WatchWarning(UserWarning):
    """An output could not be measured."""


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
        self._raised: set[str] = set()
        self._seen: dict[str, int] = {}
        self._highest, self._at = 0.0, 0
        self._whole = False

    def judge(self, step: int, row: Mapping[str, float], dim: int) -> list[Alarm]:
        """The alarms that a row raises for the first time.

        Args:
            step: step of the measurement.
            row: result of `measure`.
            dim: dimension of the embeddings.
        """
        problems = self._problems(row, dim)
        self._remember(step, row)
        new = []
        for kind, message in problems.items():
            self._seen[kind] = self._seen.get(kind, 0) + 1
            due = self._seen[kind] >= (1 if kind in ("broken", "collapse") else _MEASUREMENTS)
            if due and kind not in self._raised:
                self._raised.add(kind)
                new.append(Alarm(step, kind, f"step {step}: {message}"))
        for kind in self._seen.keys() - problems.keys():
            self._seen[kind] = 0
        return new

    def _problems(self, row: Mapping[str, float], dim: int) -> dict[str, str]:
        """Problems of a row by kind; the most severe hides the others."""
        if row["nonfinite"] > 0:
            return {
                "broken": f"{100 * row['nonfinite']:.3g} % of the embeddings are NaN or Inf: lower the "
                "learning rate, clip gradients, or train in float32 or bfloat16 instead of float16"
            }
        mean = row["mean_variance"]
        square = mean + row["mean_length"] ** 2 / dim
        if mean < 1e-6 or mean < _MIN_VARYING_FRACTION * square:
            return {
                "collapse": f"all inputs get nearly the same embedding, of variance {mean:.2g} around a mean "
                f"of length {row['mean_length']:.2g}: give the term that spreads embeddings (SIGReg, "
                "variance, negatives) more weight, or the model a stop-gradient if its method needs one, and "
                "lower the learning rate"
            }
        problems = {}
        smallest = row.get("smallest_variance", math.nan)
        if self._whole and not math.isnan(smallest) and collapsed(smallest, mean):
            problems["direction"] = (
                f"a direction has lost its variance ({smallest:.2g} beside a mean of {mean:.2g}): raise the "
                "regularizer's weight, or embed in fewer dimensions"
            )
        rank = row["effective_rank"]
        if rank < self.drop * self._highest:
            problems["dimensions"] = (
                f"the effective rank fell to {rank:.3g} from {self._highest:.3g} at step {self._at}: "
                "dimensions collapse; raise the regularizer's weight, lower the learning rate, or look "
                "whether the views still share what should be kept"
            )
        return problems

    def _remember(self, step: int, row: Mapping[str, float]) -> None:
        if row["nonfinite"] > 0:
            return
        if row["effective_rank"] > self._highest:
            self._highest, self._at = row["effective_rank"], step
        smallest, mean = row.get("smallest_variance", math.nan), row["mean_variance"]
        self._whole = self._whole or (not math.isnan(smallest) and not collapsed(smallest, mean))


OutputSelector = str | int | Callable[[Any], Tensor] | None


def embeddings_in(output: Any, choice: OutputSelector = None) -> Tensor:
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
    embeddings = choice(output) if callable(choice) else _part(output, choice)
    if (
        not isinstance(embeddings, Tensor)
        or not embeddings.is_floating_point()
        or embeddings.ndim not in (2, 3, 4)
    ):
        raise ValueError(
            "the watched output must be a floating point tensor (batch, dim), (batch, token, dim) or (batch, "
            f"channel, height, width), got {_type_of(embeddings)}: name the submodule by at=..., "
            "or pass output=a function that extracts it"
        )
    embeddings = embeddings.detach()
    if embeddings.ndim == 3:
        return embeddings.float().mean(1)
    return embeddings.float().mean((2, 3)) if embeddings.ndim == 4 else embeddings


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
    shapes = ", ".join(f"{name!r} {tuple(part.shape)}" for name, part in fitting.items())
    raise ValueError(f"output must say which of the {len(fitting)} tensors to watch ({shapes}), got none")


def _parts(output: Any) -> dict[str | int, Any]:
    """The parts of an output by name or number."""
    if isinstance(output, Mapping):
        return dict(output)
    if isinstance(output, tuple | list):
        return dict(zip(getattr(output, "_fields", range(len(output))), output, strict=True))
    if dataclasses.is_dataclass(output) and not isinstance(output, type):
        return {item.name: getattr(output, item.name) for item in dataclasses.fields(output)}
    return {}


def _type_of(found: Any) -> str:
    if isinstance(found, Tensor):
        return f"{found.dtype} of shape {tuple(found.shape)}"
    return f"a {type(found).__name__}" if len(short_repr(found)) > 60 else short_repr(found)


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


class RecentRows:
    """A ring of recent embeddings.

    Args:
        most: rows that it holds.

    Example:
        >>> rows = RecentRows(3)
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


_SILENT = 2  # measurements without any rows before a warning


class Watch:
    """Live numbers of the embeddings of a model, and an alarm when it collapses.

    Args:
        model: the module whose outputs are watched; without one, hand embeddings in by calling the watch.
        every: steps between two measurements; the first step has one too.
        at: name of the submodule to watch, as in `model.get_submodule`.
        output: which part of what it returns, by name or number, or a function that takes it out; see
            `isojepa.training.watch`.
        views: how many views of each state a step has, called one after the other or stacked in one batch,
            view by view: then alignment is measured. With gradients accumulated over several calls, hand
            views in instead.
        optimizer: counts the steps, in place of calls of `step`.
        start: steps done before, of a resumed run.
        rows: embeddings that are kept, the most recent.
        standardize: test for a normal distribution of any mean and covariance in place of N(0, I).
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

    @validate_types
    def __init__(
        self,
        model: nn.Module | None = None,
        every: int = 100,
        *,
        at: str = "",
        output: OutputSelector = None,
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
        self._rows = RecentRows(self.rows)
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
        """Remove the hooks, close the loggers and drop the rows; the history stays."""
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
        remaining = (
            self._due - self.steps
        )  # steps with this one; the rows of earlier ones would be pushed out
        return remaining <= 1 or (remaining - 1) * self._per_step < self.rows

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
            print(escape_control(line_of(self.name, row, h.shape[1])), file=sys.stderr)
        for logger in self.loggers:
            named = {key if key == "step" else f"{self.name}/{key}": value for key, value in row.items()}
            if callable(logger):
                logger(named)
            else:
                logger.log(named)
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
        # not a decorator: it would load the compiler on import
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
        description = f"{h.dtype} of shape {tuple(h.shape)}" if isinstance(h, Tensor) else type(h).__name__
        raise ValueError(
            f"embeddings must be floating point (batch, dim) or (view, batch, dim), got {description}"
        )
    if h.ndim == 2:
        return h, None
    return h[0], h if len(h) > 1 else None


def _first() -> bool:
    """Whether this is the first rank of its job, or the only process."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank() == 0
    return rank_info().first


watch = Watch  # a verb where it is used: ij.watch(model)


_LIGHTNING = ("lightning.pytorch", "pytorch_lightning")


def lightning_callback(**settings: Any) -> Any:
    """A callback of Lightning's; `callback.watch` is its watch while and after it trains.

    Rows go to the trainer's own loggers too. A LightningModule is rarely called itself: name a part by `at`.

    Args:
        settings: of `Watch`, but for model, optimizer and start.

    Raises:
        ImportError: neither lightning nor pytorch_lightning is installed.
    """
    base: Any = _lightning().Callback

    class WatchCallback(base):  # type: ignore[misc]
        """Watches the embeddings of the model that is trained."""

        def __init__(self) -> None:
            super().__init__()
            self.watch: Watch | None = None

        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            def log(row: dict[str, float]) -> None:
                for logger in trainer.loggers:
                    named = {name: value for name, value in row.items() if name != "step"}
                    logger.log_metrics(named, step=int(row["step"]))

            arguments = {**settings, "loggers": (*settings.get("loggers", ()), log)}
            self.watch = Watch(pl_module, start=trainer.global_step, **arguments)

        def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
            # batches whose gradients are accumulated make one step
            if self.watch is not None and trainer.global_step > self.watch.steps:
                self.watch.step(trainer.global_step)

        def on_train_end(self, *_: Any) -> None:
            self._close()

        def on_exception(self, *_: Any) -> None:
            self._close()

        def _close(self) -> None:
            if self.watch is not None:
                self.watch.close()

    return WatchCallback()


def transformers_callback(**settings: Any) -> Any:
    """A callback of Hugging Face's Trainer; `callback.watch` is its watch while and after it trains.

    Rows go into the trainer's `state.log_history` too, and so into trainer_state.json. For TensorBoard or W&B
    hand in `loggers`: Trainer's own reporters have no door for callbacks.

    Args:
        settings: of `Watch`, but for model, optimizer and start.

    Raises:
        ImportError: transformers is not installed.
    """
    try:
        base: Any = import_module("transformers").TrainerCallback
    except ImportError as error:
        raise ImportError("watching a Trainer needs: pip install transformers accelerate") from error

    class WatchCallback(base):  # type: ignore[misc]
        """Watches the embeddings of the model that is trained."""

        def __init__(self) -> None:
            self.watch: Watch | None = None

        def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
            self.watch = Watch(model, start=state.global_step, **settings)

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if self.watch is None:
                return
            row = self.watch.step(state.global_step)
            if row is not None:
                state.log_history.append(
                    {
                        key if key == "step" else f"{self.watch.name}/{key}": value
                        for key, value in row.items()
                    }
                )

        def on_train_end(self, *_: Any, **__: Any) -> None:
            if self.watch is not None:
                self.watch.close()

    return WatchCallback()


def _lightning() -> Any:
    """The Lightning package of the program: it has two names with different classes."""
    for name in (*(one for one in _LIGHTNING if one in sys.modules), *_LIGHTNING):
        try:
            return import_module(name)
        except ImportError:
            continue
    raise ImportError("watching a Lightning loop needs: pip install lightning")
