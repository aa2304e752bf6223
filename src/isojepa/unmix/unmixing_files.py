"""Axes in one safetensors file: matrices by name, and a JSON note of what is known of each axis."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from isojepa.opening import parse_json
from isojepa.training.tensors import load_tensors, save_tensors
from isojepa.unmix.axes import CUES, Axis
from isojepa.unmix.warps import Warp
from isojepa.version import __version__

if TYPE_CHECKING:
    from isojepa.unmix.unmixing import Unmixing

_NOTE = "isojepa-unmixing"
_TENSORS = ("matrix", "inverse", "mean")


def save_unmixing(fitted: "Unmixing", path: Path) -> None:
    """Write fitted axes."""
    tensors = {name: torch.from_numpy(np.ascontiguousarray(getattr(fitted, f"{name}_"))) for name in _TENSORS}
    notes = {
        "version": __version__,
        "parameters": fitted.get_params(),
        "rows": fitted.rows_,
        "axes": [_plain(axis) for axis in fitted.axes_],
    }
    save_tensors(path, tensors, {_NOTE: json.dumps(notes, allow_nan=False)})


def load_unmixing(path: Path) -> "Unmixing":
    """Read axes, looking at all of the file first.

    Raises:
        ValueError: the file is missing, damaged, or holds no axes.
    """
    from isojepa.unmix.unmixing import Unmixing

    tensors, header = load_tensors(path)
    if _NOTE not in header or set(tensors) != set(_TENSORS):
        raise ValueError(f"{path} must hold axes that isojepa saved, got another safetensors file")
    matrix, inverse, mean = (tensors[name] for name in _TENSORS)
    shaped = matrix.ndim == 2 and inverse.shape == matrix.T.shape and mean.shape == matrix.shape[1:]
    if not shaped or not all(
        bool(one.is_floating_point() and one.isfinite().all()) for one in tensors.values()
    ):
        raise ValueError(f"{path} is damaged: its matrices do not fit each other, or are not finite")
    try:
        notes = parse_json(header[_NOTE].encode())
        fitted = Unmixing(**notes["parameters"])
        axes = tuple(_axis(one, number, len(matrix)) for number, one in enumerate(notes["axes"]))
        rows = int(notes["rows"])
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} has notes that cannot be read: {error}") from error
    if len(axes) != len(matrix):
        raise ValueError(f"{path} is damaged: it tells of {len(axes)} axes and has {len(matrix)}")
    fitted.matrix_, fitted.inverse_, fitted.mean_ = (
        tensors[name].double().numpy().copy() for name in _TENSORS
    )
    fitted.axes_, fitted.rows_, fitted.n_features_in_ = axes, rows, matrix.shape[1]
    return fitted


def _plain(axis: Axis) -> dict[str, Any]:
    found = axis.to_dict()
    del found["named"]
    return found | {"error": None if np.isinf(axis.error) else axis.error}


def _axis(told: dict[str, Any], number: int, count: int) -> Axis:
    """An axis from its notes.

    Raises:
        ValueError: a note is not what it should be.
    """
    block = tuple(told["block"])
    if not all(isinstance(one, int) and 0 <= one < count for one in (*block, told["partner"])):
        raise ValueError(f"axes must be told by numbers below {count}, got {block} and {told['partner']}")
    if told["number"] != number or told["cue"] not in CUES or number not in block:
        raise ValueError(f"axis {number} is told of as {told['number']!r}, cue {told['cue']!r}")
    numbers = {name: float(told[name]) for name in ("stability", "departure", "dependence")}
    return Axis(
        number=number,
        cue=told["cue"],
        block=block,
        error=float("inf") if told["error"] is None else float(told["error"]),
        correlation=None if told["correlation"] is None else float(told["correlation"]),
        partner=told["partner"],
        warp=None if told["warp"] is None else Warp.from_dict(told["warp"]),
        reason=str(told["reason"]),
        **numbers,
    )
