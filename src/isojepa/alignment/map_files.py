"""A map in one safetensors file: W, means and scales by name, and a JSON note that says what it is."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from isojepa.io import parse_json
from isojepa.training.checkpoints import load_tensors, save_tensors
from isojepa.version import __version__

if TYPE_CHECKING:
    from isojepa.alignment.maps import AlignmentMap

_NOTE = "isojepa-map"
_TENSORS = ("matrix", "mean_in", "scale_in", "mean_out", "scale_out")
_FOUND = ("ridge", "chosen_by", "rank", "pairs")


def save_map(fitted: "AlignmentMap", path: Path, single: bool) -> None:
    """Write a fitted map; `single` in float32."""
    kind = torch.float32 if single else torch.float64
    tensors = {
        name: torch.as_tensor(getattr(fitted, f"{name}_"), dtype=torch.float64).to(kind) for name in _TENSORS
    }
    notes = {
        "version": __version__,
        "parameters": fitted.get_params(),
        **{name: getattr(fitted, f"{name}_") for name in _FOUND},
    }
    save_tensors(path, tensors, {_NOTE: json.dumps(notes, allow_nan=False)})


def load_map(path: Path) -> "AlignmentMap":
    """Read a map, looking at all of it first.

    Raises:
        ValueError: the file is missing, damaged, or no map.
    """
    from isojepa.alignment.maps import AlignmentMap

    tensors, header = load_tensors(path)
    if _NOTE not in header or set(tensors) != set(_TENSORS):
        raise ValueError(f"{path} must be a map that isojepa saved, got another safetensors file")
    matrix = tensors["matrix"]
    shapes = {"mean_in": 1, "scale_in": 1, "mean_out": 0, "scale_out": 0}
    for name, tensor in tensors.items():
        wide = matrix.ndim == 2 and (name == "matrix" or tensor.shape == (matrix.shape[shapes[name]],))
        if not wide or not tensor.is_floating_point() or not bool(tensor.isfinite().all()):
            raise ValueError(f"{path} is damaged: its {name} does not fit its matrix, or is not finite")
    if not bool((tensors["scale_in"] > 0).all() and (tensors["scale_out"] > 0).all()):
        raise ValueError(f"{path} is damaged: its scales must be positive")
    try:
        notes = parse_json(header[_NOTE].encode())
        fitted = AlignmentMap(**notes["parameters"])
        for name in _FOUND:
            setattr(fitted, f"{name}_", notes[name])
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} has notes that cannot be read: {error}") from error
    for name, tensor in tensors.items():
        setattr(fitted, f"{name}_", tensor.double().numpy().copy())
    fitted.n_features_in_ = fitted.matrix_.shape[1]
    return fitted
