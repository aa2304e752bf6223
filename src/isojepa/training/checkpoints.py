"""Checkpoints: everything a run needs to go on as if it had never stopped, in one safetensors file.

Model, optimiser and running sums are tensors; the step, the length of the metrics file
and the time spent are text notes in the file's header. One file is replaced by one rename, so there is
always a whole checkpoint. Random streams need no state: each step's are derived from seed and step.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from isojepa.training.records import load_tensors, save_tensors


@dataclass
class Progress:
    """Where a run stands.

    Attributes:
        step: steps done.
        seconds: training time so far.
        cpu_seconds: processor time of it, which does not count what other processes took.
        metrics_size: bytes of metrics.jsonl that belong to these steps.
        window: running sums of the loss terms since the last evaluation.
    """

    step: int
    seconds: float
    cpu_seconds: float
    metrics_size: int
    window: Tensor


def save(path: Path, model: nn.Module, optimizer: Optimizer, progress: Progress) -> None:
    """Write a checkpoint atomically."""
    tensors: dict[str, Tensor] = {f"model/{name}": value for name, value in model.state_dict().items()}
    for index, state in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer/{index}/{name}": value for name, value in state.items()}
    tensors["window"] = progress.window
    notes = {
        "step": str(progress.step),
        "seconds": repr(progress.seconds),
        "cpu_seconds": repr(progress.cpu_seconds),
        "metrics_size": str(progress.metrics_size),
    }
    save_tensors(path, tensors, notes)


def load(path: Path, model: nn.Module, optimizer: Optimizer) -> Progress:
    """Restore a checkpoint in place.

    Raises:
        ValueError: the file is truncated, or belongs to another model.
    """
    try:
        tensors, notes = load_tensors(path)
        groups: dict[str, dict[str, Tensor]] = {"model": {}, "optimizer": {}}
        for name, value in tensors.items():
            group, _, rest = name.partition("/")
            if group in groups:
                groups[group][rest] = value
        model.load_state_dict(groups["model"])
        state: dict[int, dict[str, Any]] = {}
        for name, value in groups["optimizer"].items():
            index, _, key = name.partition("/")
            state.setdefault(int(index), {})[key] = value
        fresh = optimizer.state_dict()
        optimizer.load_state_dict({"state": state, "param_groups": fresh["param_groups"]})
        return Progress(
            step=int(notes["step"]),
            seconds=float(notes["seconds"]),
            cpu_seconds=float(notes.get("cpu_seconds", notes["seconds"])),
            metrics_size=int(notes["metrics_size"]),
            window=tensors["window"],
        )
    except (ValueError, KeyError, RuntimeError) as error:
        raise ValueError(
            f"cannot go on from checkpoint {path}: {error}; delete that file to start the run again"
        ) from error
