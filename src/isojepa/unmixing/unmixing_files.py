"""Axes in one safetensors file: matrices by name, and a JSON note of what is known of each axis."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from isojepa.io import MAX_TEXT_BYTES, parse_json, size_of
from isojepa.training.checkpoints import load_tensors, save_tensors
from isojepa.unmixing.axes import CUES, Axis, Cause
from isojepa.unmixing.warps import Warp
from isojepa.validation import check_count, check_number, choose
from isojepa.version import __version__

if TYPE_CHECKING:
    from isojepa.unmixing.unmixing import Unmixing

_NOTE = "isojepa-unmixing"
_TENSORS = ("matrix", "inverse", "mean")
_NEAR = 1e-6  # of the identity, for a matrix times its inverse


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
    from isojepa.unmixing.unmixing import Unmixing

    tensors, header = load_tensors(path)
    if _NOTE not in header or set(tensors) != set(_TENSORS):
        raise ValueError(f"{path} must hold axes that isojepa saved, got another safetensors file")
    matrix, inverse, mean = (tensors[name] for name in _TENSORS)
    shaped = matrix.ndim == 2 and inverse.shape == matrix.T.shape and mean.shape == matrix.shape[1:]
    if not shaped or not all(
        bool(one.numel() and one.is_floating_point() and one.isfinite().all()) for one in tensors.values()
    ):
        raise ValueError(f"{path} is damaged: its matrices do not fit each other, or are not finite")
    off = (matrix.double() @ inverse.double() - torch.eye(len(matrix), dtype=torch.float64)).abs().max()
    if not off < _NEAR:
        raise ValueError(f"{path} is damaged: its matrices are not inverse to each other")
    if len(header[_NOTE]) > MAX_TEXT_BYTES:
        raise ValueError(
            f"{path} must have notes of at most {size_of(MAX_TEXT_BYTES)}, got {size_of(len(header[_NOTE]))}"
        )
    try:
        notes = parse_json(header[_NOTE].encode())
        fitted = Unmixing(**notes["parameters"])
        axes = tuple(_axis(one, number, len(matrix)) for number, one in enumerate(notes["axes"]))
        rows = check_count("rows", notes["rows"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} has notes that cannot be read: {error}") from error
    if len(axes) != len(matrix):
        raise ValueError(f"{path} is damaged: it tells of {len(axes)} axes and has {len(matrix)}")
    if any(axes[other].block != axis.block for axis in axes for other in axis.block):
        raise ValueError(f"{path} is damaged: its axes tell of blocks that do not fit each other")
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
    if not isinstance(told["block"], list) or not isinstance(told["dependent"], bool):
        raise ValueError(f"axis {number} must have a block and whether it is dependent")
    block = tuple(check_count("block", one, 0, count - 1) for one in told["block"])
    cue, named = told["cue"], told["cue"] != "none"
    if told["number"] != number or cue not in CUES or number not in block or len(set(block)) < len(block):
        raise ValueError(f"axis {number} is told of as {told['number']!r}, cue {cue!r}, block {block}")
    if (told["error"] is None) is named or (named and len(block) > 1):
        raise ValueError(f"axis {number} must have an error and no block if it is named, and only then")
    positive = ("not be negative", lambda value: value >= 0)
    return Axis(
        number=number,
        cue=cue,
        block=block,
        error=check_number("error", told["error"], *positive) if named else float("inf"),
        stability=check_number("stability", told["stability"], *positive),
        departure=check_number("departure", told["departure"], "be a number"),
        correlation=_number_or_none("correlation", told["correlation"]),
        dependence=check_number("dependence", told["dependence"], *positive),
        partner=check_count("partner", told["partner"], 0, count - 1),
        dependent=told["dependent"],
        warp=None if told["warp"] is None else Warp.from_dict(told["warp"]),
        reason=str(told["reason"]),
        world_departure=_number_or_none("world_departure", told.get("world_departure")),
        cause=_cause(number, told.get("cause"), named),
    )


def _cause(number: int, told: Any, named: bool) -> Cause | None:
    """Why an axis has no name or no warp; None in files that were written before it was kept."""
    if told is None:
        return None
    cause = choose("cause", told, {one.value: one for one in Cause})
    if named is not (cause is Cause.BENT):
        raise ValueError(f"axis {number} is told of as {cause.value!r} and {'' if named else 'not '}named")
    return cause


def _number_or_none(name: str, value: Any) -> float | None:
    return None if value is None else check_number(name, value, "be a number")
