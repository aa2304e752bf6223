"""Checkpoints: everything that a run needs to resume exactly, in one safetensors file.

Models, objective, optimizer, averaged weights and running sums are tensors; the step, the size of the
metrics file, the elapsed time and the id of the run directory are text notes in the header. A checkpoint is
replaced by one rename, so a complete one always exists. Random streams need no state: those of a step are
derived from seed and step. A checkpoint that does not fit the run raises an error before anything is
changed.
"""

import errno
import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save_file
from torch import Tensor, nn
from torch.optim import Optimizer

from isojepa.io import Missing, read_bytes, write_whole
from isojepa.training.recipe import WeightAverage

OWNER = "record"  # header note: the id of the run directory that the file belongs to


def save_tensors(path: Path, tensors: Mapping[str, Tensor], notes: Mapping[str, str] | None = None) -> None:
    """Write named tensors and text notes to one safetensors file, atomically.

    Raises:
        ValueError: safetensors does not support the type of a tensor.
        OSError: the file could not be written; the old one is unchanged.
    """
    whole: dict[str, Tensor] = {}
    memory: set[int] = set()
    for name, tensor in tensors.items():
        copied = tensor.detach().cpu().contiguous()
        if copied.untyped_storage().data_ptr() in memory:  # safetensors rejects tensors that share memory
            copied = copied.clone()
        memory.add(copied.untyped_storage().data_ptr())
        whole[name] = copied

    def write(temporary: Path) -> None:
        mode = os.stat(temporary).st_mode
        try:
            save_file(whole, temporary, metadata=dict(notes or {}))
        except SafetensorError as error:
            raise OSError(errno.EIO, str(error)) from error
        except KeyError as error:
            raise ValueError(f"{path} cannot hold {error}, a type that safetensors lacks") from error
        os.chmod(temporary, mode)  # the library makes files that others cannot read

    write_whole(path, write)


def load_tensors(path: Path, owner: str = "") -> tuple[dict[str, Tensor], dict[str, str]]:
    """Read named tensors and text notes from a safetensors file.

    Args:
        path: the file; the library holds its header against its size before it makes tensors.
        owner: id of the run directory that the file must belong to; a file without an id is accepted.

    Raises:
        ValueError: the file is missing, truncated, not a safetensors file, or of another run.
    """
    try:
        content = read_bytes(
            path, None
        )  # safe_open opens the file twice, and a run may replace it in between
        tensors = load(content)
        notes = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")]).get("__metadata__", {})
    except Missing:
        raise
    except (SafetensorError, OSError, ValueError) as error:
        raise ValueError(f"{path} is truncated or not a safetensors file ({error})") from error
    if owner and notes.get(OWNER, owner) != owner:
        raise ValueError(f"{path} belongs to record {notes[OWNER]}, of another config, not to record {owner}")
    return tensors, notes


@dataclass
class Progress:
    """Position of a run: steps, times, running sums.

    Attributes:
        step: steps done.
        seconds: training time so far.
        cpu_seconds: processor time of this process so far.
        metrics_size: bytes of metrics.jsonl that belong to these steps.
        window: running sums of the loss terms since the last row of metrics.
        logged_step: step of the last row of metrics.
        ranks: number of ranks.
        record: id of the run directory.
        resumed_at: steps at which the run was resumed from a checkpoint.
        source: path of the checkpoint it was read from.
    """

    step: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    metrics_size: int = 0
    window: list[float] = field(default_factory=list)
    logged_step: int = 0
    ranks: int = 1
    record: str = ""
    resumed_at: list[int] = field(default_factory=list)
    source: Path | None = None

    def add(self, terms: list[float]) -> None:
        """Add the terms of a step to the running sums.

        Raises:
            ValueError: their number has changed.
        """
        before = self.window or [0.0] * len(terms)
        if len(before) != len(terms):
            raise ValueError(
                f"cannot resume from checkpoint {self.source}: it has sums of {len(before)} terms, but the "
                f"loss has {len(terms)}; delete that file to start the run again"
            )
        self.window = [total + term for total, term in zip(before, terms, strict=True)]

    def remark(self, ranks: int) -> str:
        """Note on resuming with a different number of ranks, or an empty string."""
        if self.ranks == ranks:
            return ""
        return f": begun on {self.ranks} rank{'s' if self.ranks > 1 else ''}, now on {ranks}"


@dataclass(frozen=True)
class CheckpointContents:
    """A checkpoint that was read and checked.

    Attributes:
        progress: position of the run.
        groups: the tensors of "model", "optimizer" and "average" by their names.
        scale: state of the gradient scaler.
    """

    progress: Progress
    groups: Mapping[str, Mapping[str, Tensor]]
    scale: Mapping[str, Any]


def save_checkpoint(
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
        "seen": str(progress.logged_step),
        "ranks": str(progress.ranks),
        "scaler": json.dumps({} if scaler is None else scaler.state_dict()),
        "resumed_at": json.dumps(progress.resumed_at),
        OWNER: progress.record,
    }
    save_tensors(path, tensors, notes)


def load_checkpoint(
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
        learner, optimizer, average, scaler: receive their state.
        record: id of the run directory.
        steps: length of the whole run.

    Raises:
        ValueError: the file is damaged, or belongs to another run or model.
    """
    try:
        contents = read_checkpoint(path, record, steps)
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
        message = " ".join(str(error).split())
        raise ValueError(
            f"cannot resume from checkpoint {path}: {message}; delete that file to start the run again"
        ) from error
    contents.progress.resumed_at.append(contents.progress.step)
    return contents.progress


def read_checkpoint(path: Path, record: str = "", steps: float = math.inf) -> CheckpointContents:
    """Read a checkpoint and check that it belongs to the run.

    Args:
        path: the file.
        record: id of the run directory.
        steps: length of the whole run.

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
        logged_step=_whole(notes, "seen", 0, step),
        ranks=_whole(notes, "ranks", 1, math.inf, "1"),
        record=notes.get(OWNER, ""),
        resumed_at=_steps(notes, step),
        source=path,
    )
    scale = json.loads(notes.get("scaler", "{}"))
    if not isinstance(scale, dict):
        raise ValueError(f"scaler must be an object, got {scale!r}")
    return CheckpointContents(progress, groups, scale)


def weights_so_far(path: Path, model: str, record: str = "") -> tuple[dict[str, Tensor], int]:
    """Weights of one model of an unfinished run, and their step; averaged if the run averages weights.

    Raises:
        ValueError: the file is damaged, or belongs to another run.
    """
    contents = read_checkpoint(path, record)
    averaged = {name.removeprefix("average/"): value for name, value in contents.groups["average"].items()}
    prefix = f"models.{model}."
    whole = {**contents.groups["model"], **averaged}
    weights = {name.removeprefix(prefix): value for name, value in whole.items() if name.startswith(prefix)}
    return weights, contents.progress.step


def _whole(notes: Mapping[str, str], name: str, low: int, high: float, default: str = "") -> int:
    """Read an integer from the notes."""
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
        raise ValueError(f"{name} must be a nonnegative number, got {notes.get(name)!r}")
    return value


def _states(tensors: Mapping[str, Tensor], optimizer: Optimizer) -> dict[int, dict[str, Tensor]]:
    """The optimizer's state by parameter; parameters that never had a gradient have no entry."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    states: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        place, _, key = name.partition("/")
        if not (place.isdecimal() and int(place) < len(parameters)):
            raise ValueError(f"the optimizer has {len(parameters)} parameters, got the state of {place!r}")
        states.setdefault(int(place), {})[key] = tensor
    if not states:
        raise ValueError("it has no optimizer state")
    expected = max((state.keys() for state in states.values()), key=len)
    for index, state in states.items():
        if state.keys() != expected:
            raise ValueError(f"the optimizer's state of parameter {index} must have {sorted(expected)}")
        for key, value in state.items():
            shape = () if key == "step" else tuple(parameters[index].shape)
            if tuple(value.shape) != shape:
                raise ValueError(
                    f"the optimizer's {key} of parameter {index} must have shape {shape}, got "
                    f"{tuple(value.shape)}"
                )
            if key != "step":  # in the parameter's strides: fused optimizers pair elements by memory order
                state[key] = torch.empty_like(parameters[index], dtype=value.dtype).copy_(value)
    return states


def _check_weights(weights: Mapping[str, Tensor], learner: nn.Module) -> None:
    """Check names and shapes before loading, which would copy some weights before it fails."""
    expected = learner.state_dict()
    odd = sorted(expected.keys() ^ weights.keys())
    if odd:
        raise ValueError(
            f"it holds other models: {len(odd)} weights are on one side only, such as {odd[0]!r}"
        )
    for name, value in expected.items():
        ours, theirs = (value.dtype, *value.shape), (weights[name].dtype, *weights[name].shape)
        if ours != theirs:
            raise ValueError(f"size mismatch for {name}: must be {ours}, got {theirs}")
