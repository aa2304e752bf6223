"""Checkpoints: everything a run needs to go on as if it had never stopped, in one safetensors file.

Models, objective, optimiser, averaged weights and running sums are tensors; the step, the length of the
metrics file, the time spent and whose checkpoint it is are text notes in the file's header. One file is
replaced by one rename, so there is always a whole checkpoint. Random streams need no state: each step's are
derived from seed and step. What does not fit the run is refused before anything is
changed.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from isojepa.training.averages import WeightAverage
from isojepa.training.tensors import OWNER, load_tensors, save_tensors


@dataclass
class Progress:
    """Where a run stands.

    Attributes:
        step: steps done.
        seconds: training time so far.
        cpu_seconds: processor time of it, which does not count what other processes took.
        metrics_size: bytes of metrics.jsonl that belong to these steps.
        window: running sums of the loss terms since the last row of metrics.
        seen: step of that row.
        ranks: how many shared the run.
        record: id of the record it belongs to.
        resumed_at: steps at which the run was resumed from a checkpoint.
        source: the checkpoint that it was read from.
    """

    step: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    metrics_size: int = 0
    window: list[float] = field(default_factory=list)
    seen: int = 0
    ranks: int = 1
    record: str = ""
    resumed_at: list[int] = field(default_factory=list)
    source: Path | None = None

    def add(self, terms: list[float]) -> None:
        """Add the terms of a step to the running sums.

        Raises:
            ValueError: there were others before.
        """
        before = self.window or [0.0] * len(terms)
        if len(before) != len(terms):
            raise ValueError(
                f"cannot go on from checkpoint {self.source}: it has sums of {len(before)} terms, and the "
                f"loss has {len(terms)}; delete that file to start the run again"
            )
        self.window = [total + term for total, term in zip(before, terms, strict=True)]

    def remark(self, ranks: int) -> str:
        """Note on resuming with a different number of ranks, or an empty string."""
        if self.ranks == ranks:
            return ""
        return f": begun on {self.ranks} rank{'s' if self.ranks > 1 else ''}, now on {ranks}"


@dataclass(frozen=True)
class Contents:
    """A checkpoint that was read and fits its run.

    Attributes:
        progress: where the run stands.
        groups: the tensors of "model", "optimizer" and "average" by their names.
        scale: state of the scaler of gradients.
    """

    progress: Progress
    groups: Mapping[str, Mapping[str, Tensor]]
    scale: Mapping[str, Any]


def save(
    path: Path,
    learner: nn.Module,
    optimizer: Optimizer,
    progress: Progress,
    average: WeightAverage | None = None,
    scaler: torch.amp.GradScaler | None = None,
) -> None:
    """Write a checkpoint atomically."""
    tensors: dict[str, Tensor] = {f"model/{name}": value for name, value in learner.state_dict().items()}
    for index, state in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer/{index}/{name}": value for name, value in state.items()}
    if average is not None:
        tensors |= {f"average/{name}": value for name, value in average.state_dict().items()}
    tensors["window"] = torch.tensor(progress.window, dtype=torch.float64)
    notes = {
        "step": str(progress.step),
        "seconds": repr(progress.seconds),
        "cpu_seconds": repr(progress.cpu_seconds),
        "metrics_size": str(progress.metrics_size),
        "seen": str(progress.seen),
        "ranks": str(progress.ranks),
        "scaler": json.dumps({} if scaler is None else scaler.state_dict()),
        "resumed_at": json.dumps(progress.resumed_at),
        OWNER: progress.record,
    }
    save_tensors(path, tensors, notes)


def load(
    path: Path,
    learner: nn.Module,
    optimizer: Optimizer,
    average: WeightAverage | None = None,
    scaler: torch.amp.GradScaler | None = None,
    *,
    record: str = "",
    steps: float = math.inf,
) -> Progress:
    """Restore a checkpoint in place.

    Args:
        path: the file.
        learner: gets its weights.
        optimizer: gets its state.
        average: gets its weights.
        scaler: gets its state.
        record: id of the record that the run belongs to.
        steps: of the whole run.

    Raises:
        ValueError: the file is damaged, or belongs to another run or model.
    """
    try:
        contents = read(path, record, steps)
        _check_weights(contents.groups["model"], learner)
        state = _states(contents.groups["optimizer"], optimizer)
        learner.load_state_dict(contents.groups["model"])
        fresh = optimizer.state_dict()
        optimizer.load_state_dict({"state": state, "param_groups": fresh["param_groups"]})
        if average is not None:
            average.load_state_dict(contents.groups["average"])
        if scaler is not None and contents.scale:
            scaler.load_state_dict(dict(contents.scale))
    except (ValueError, KeyError, RuntimeError) as error:
        told = " ".join(str(error).split())
        raise ValueError(
            f"cannot go on from checkpoint {path}: {told}; delete that file to start the run again"
        ) from error
    contents.progress.resumed_at.append(contents.progress.step)
    return contents.progress


def read(path: Path, record: str = "", steps: float = math.inf) -> Contents:
    """Read a checkpoint and see that it is one of a run.

    Args:
        path: the file.
        record: id of the record that the run belongs to.
        steps: of the whole run.

    Raises:
        ValueError: the file is damaged, or belongs to another run.
    """
    tensors, notes = load_tensors(path, record)
    groups: dict[str, dict[str, Tensor]] = {"model": {}, "optimizer": {}, "average": {}}
    for name, value in tensors.items():
        group, _, rest = name.partition("/")
        if group in groups:
            groups[group][rest] = value
    window = tensors.get("window", torch.empty(0))
    if window.ndim > 1 or not window.isfinite().all():
        raise ValueError("its running sums must be finite numbers")
    step = _whole(notes, "step", 1, steps)
    seconds = _seconds(notes, "seconds")
    progress = Progress(
        step=step,
        seconds=seconds,
        cpu_seconds=_seconds(notes, "cpu_seconds", seconds),
        metrics_size=_whole(notes, "metrics_size", 0, math.inf),
        window=window.tolist() if window.ndim else [],
        seen=_whole(notes, "seen", 0, step),
        ranks=_whole(notes, "ranks", 1, math.inf, "1"),
        record=notes.get(OWNER, ""),
        resumed_at=_steps(notes, step),
        source=path,
    )
    scale = json.loads(notes.get("scaler", "{}"))
    if not isinstance(scale, dict):
        raise ValueError(f"scaler must be an object, got {scale!r}")
    return Contents(progress, groups, scale)


def weights_so_far(path: Path, model: str, record: str = "") -> tuple[dict[str, Tensor], int]:
    """The weights of one model of a run that is not finished, and the step they are of.

    Averaged ones where the run keeps an average, as those of its end would be.

    Raises:
        ValueError: the file is damaged, or belongs to another run.
    """
    contents = read(path, record)
    averaged = {name.removeprefix("average/"): value for name, value in contents.groups["average"].items()}
    prefix = f"models.{model}."
    whole = {**contents.groups["model"], **averaged}
    own = {name.removeprefix(prefix): value for name, value in whole.items() if name.startswith(prefix)}
    return own, contents.progress.step


def _whole(notes: Mapping[str, str], name: str, low: int, high: float, default: str = "") -> int:
    """An integer among the notes."""
    text = notes.get(name, default)
    value = int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else -1
    if not low <= value <= high:
        most = "" if high == math.inf else f" and at most {high:.0f}"
        raise ValueError(f"{name} must be an integer of at least {low}{most}, got {text!r}")
    return value


def _steps(notes: Mapping[str, str], last: int) -> list[int]:
    """The steps at which the run was resumed before."""
    steps = json.loads(notes.get("resumed_at", "[]"))
    if not isinstance(steps, list) or not all(type(step) is int and 0 < step <= last for step in steps):
        raise ValueError(f"resumed_at must list steps of at least 1 and at most {last}, got {steps!r}")
    return steps


def _seconds(notes: Mapping[str, str], name: str, default: float = math.nan) -> float:
    try:
        value = float(notes[name]) if name in notes else default
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise ValueError(f"{name} must be a number that is not negative, got {notes.get(name)!r}")
    return value


def _states(tensors: Mapping[str, Tensor], optimizer: Optimizer) -> dict[int, dict[str, Tensor]]:
    """The optimiser's state of each parameter; one that never had a gradient has none."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    states: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        place, _, key = name.partition("/")
        if not (place.isdecimal() and int(place) < len(parameters)):
            raise ValueError(f"the optimiser has {len(parameters)} parameters, got the state of {place!r}")
        states.setdefault(int(place), {})[key] = tensor
    if not states:
        raise ValueError("it has no state of the optimiser")
    expected = max((state.keys() for state in states.values()), key=len)
    for index, state in states.items():
        if state.keys() != expected:
            raise ValueError(f"the optimiser's state of parameter {index} must have {sorted(expected)}")
        for key, value in state.items():
            shape = () if key == "step" else tuple(parameters[index].shape)
            if tuple(value.shape) != shape:
                raise ValueError(
                    f"the optimiser's {key} of parameter {index} must have shape {shape}, got "
                    f"{tuple(value.shape)}"
                )
            if key != "step":  # in the parameter's strides: fused optimizers pair elements by memory order
                state[key] = torch.empty_like(parameters[index], dtype=value.dtype).copy_(value)
    return states


def _check_weights(weights: Mapping[str, Tensor], learner: nn.Module) -> None:
    """See that the weights are those of the learner; loading them would copy some before it finds out."""
    wanted = learner.state_dict()
    odd = sorted(wanted.keys() ^ weights.keys())
    if odd:
        raise ValueError(
            f"it is of other models: {len(odd)} weights are on one side only, such as {odd[0]!r}"
        )
    for name, value in wanted.items():
        ours, theirs = (value.dtype, *value.shape), (weights[name].dtype, *weights[name].shape)
        if ours != theirs:
            raise ValueError(f"size mismatch for {name}: must be {ours}, got {theirs}")
