"""A hub in one safetensors file: the maps of each encoder by its number, and a JSON note with their names."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from isojepa.io import parse_json
from isojepa.training.checkpoints import load_tensors, save_tensors
from isojepa.version import __version__

if TYPE_CHECKING:
    from isojepa.alignment.hub import Hub

_NOTE = "isojepa-hub"
_TENSORS = ("mean", "offset", "to", "back", "loading", "variance")


def save_hub(hub: "Hub", path: Path) -> None:
    """Write a fitted hub; nothing is lost."""
    tensors = {
        f"{number}.{name}": torch.as_tensor(getattr(spoke, name), dtype=torch.float64)
        for number, spoke in enumerate(hub.spokes.values())
        for name in _TENSORS
    }
    notes = {
        "version": __version__,
        "kind": hub.kind,
        "shrinkage": hub.shrinkage,
        "losses": hub.losses,
        "converged": hub.converged,
        "encoders": [{"name": name, "pairs": spoke.pairs} for name, spoke in hub.spokes.items()],
    }
    save_tensors(path, tensors, {_NOTE: json.dumps(notes, allow_nan=False)})


def load_hub(path: Path) -> "Hub":
    """Read a hub, looking at all of it first.

    Raises:
        ValueError: the file is missing, damaged, or no hub.
    """
    from isojepa.alignment.hub import Hub, Spoke

    tensors, header = load_tensors(path)
    if _NOTE not in header:
        raise ValueError(f"{path} must be a hub that isojepa saved, got another safetensors file")
    try:
        notes = parse_json(header[_NOTE].encode())
        hub = Hub(notes["kind"], shrinkage=notes["shrinkage"])
        hub.losses, hub.converged = [float(loss) for loss in notes["losses"]], bool(notes["converged"])
        encoders = [(str(one["name"]), int(one["pairs"])) for one in notes["encoders"]]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} has notes that cannot be read: {error}") from error
    wanted = {f"{number}.{name}" for number in range(len(encoders)) for name in _TENSORS}
    if set(tensors) != wanted or len({name for name, _ in encoders}) != len(encoders) or not encoders:
        raise ValueError(f"{path} is damaged: its tensors are not those of its encoders")
    hub_width = tensors["0.offset"].numel()
    for number, (name, pairs) in enumerate(encoders):
        own = {part: tensors[f"{number}.{part}"] for part in _TENSORS}
        width = own["mean"].numel()
        shapes = {"mean": (width,), "to": (width, hub_width), "back": (hub_width, width)}
        for part, tensor in own.items():
            fits = tuple(tensor.shape) == shapes.get(part, (hub_width,)) and tensor.is_floating_point()
            if not fits or not bool(tensor.isfinite().all()):
                raise ValueError(
                    f"{path} is damaged: {part} of encoder {number} does not fit, or is not finite"
                )
        arrays = {part: tensor.double().numpy().copy() for part, tensor in own.items()}
        hub.spokes[name] = Spoke(**arrays, pairs=pairs)
    return hub
