"""Checkpoints: everything a run needs to go on as if it had never stopped, in one safetensors file.

Models, objective, optimiser, averaged weights and running sums are tensors; the step, the length of the
metrics file and the time spent are text notes in the file's header. One file is replaced by one rename, so
there is always a whole checkpoint. Random streams need no state: each step's are derived from seed and
step.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from isojepa.training.averages import WeightAverage
from isojepa.training.records import load_tensors, save_tensors


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
    """

    step: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    metrics_size: int = 0
    window: list[float] = field(default_factory=list)
    seen: int = 0
    ranks: int = 1


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
    }
    save_tensors(path, tensors, notes)


def load(
    path: Path,
    learner: nn.Module,
    optimizer: Optimizer,
    average: WeightAverage | None = None,
    scaler: torch.amp.GradScaler | None = None,
) -> Progress:
    """Restore a checkpoint in place.

    Raises:
        ValueError: the file is truncated, or belongs to another model.
    """
    try:
        tensors, notes = load_tensors(path)
        groups: dict[str, dict[str, Tensor]] = {"model": {}, "optimizer": {}, "average": {}}
        for name, value in tensors.items():
            group, _, rest = name.partition("/")
            if group in groups:
                groups[group][rest] = value
        weights = groups["model"]
        if "seen" not in notes:
            weights = _of_format_1(weights)
        learner.load_state_dict(weights)
        state: dict[int, dict[str, Any]] = {}
        for name, value in groups["optimizer"].items():
            index, _, key = name.partition("/")
            state.setdefault(int(index), {})[key] = value
        fresh = optimizer.state_dict()
        optimizer.load_state_dict({"state": state, "param_groups": fresh["param_groups"]})
        if average is not None:
            average.load_state_dict(groups["average"])
        scale = json.loads(notes.get("scaler", "{}"))
        if scaler is not None and scale:
            scaler.load_state_dict(scale)
        step, window = int(notes["step"]), tensors["window"]
        return Progress(
            step=step,
            seconds=float(notes["seconds"]),
            cpu_seconds=float(notes.get("cpu_seconds", notes["seconds"])),
            metrics_size=int(notes["metrics_size"]),
            window=window.tolist() if window.ndim else [],
            seen=int(notes.get("seen", "-1")),
            ranks=int(notes.get("ranks", "1")),
        )
    except (ValueError, KeyError, RuntimeError) as error:
        raise ValueError(
            f"cannot go on from checkpoint {path}: {error}; delete that file to start the run again"
        ) from error


def _of_format_1(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights of a run that was begun when there was one encoder, and objectives were losses of views."""
    names = {"encoder": "models.encoder", "objective": "objective.loss"}
    return {
        ".".join((names.get(part, part), rest)): value
        for name, value in weights.items()
        for part, _, rest in (name.partition("."),)
    }
