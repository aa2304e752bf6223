"""A model in one safetensors file: its weights, how it is made again, and what it must be fed.

The tensors are the module's `state_dict`, under its own names, so that anybody's safetensors reader has them.
The header's note "isojepa" is JSON: "model" says how the module is made again, its class and arguments
(`isojepa.training.rebuilding`), or is null where nobody knows; the rest is what the writer adds.
"""

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from torch import nn

from isojepa.files import plain
from isojepa.opening import parse_json
from isojepa.training.rebuilding import Bounded, rebuild, recipe_of
from isojepa.training.tensors import load_tensors, save_tensors

_NOTE = "isojepa"


def save_model(path: Path, module: nn.Module, notes: Mapping[str, Any]) -> bool:
    """Write a module, and notes about it, to one file.

    Returns:
        Whether the module can be made again from the file alone.
    """
    made = recipe_of(module)
    told = json.dumps(plain({**notes, "model": made}), allow_nan=False)
    save_tensors(path, module.state_dict(), {"format": "pt", _NOTE: told})
    return made is not None


def load_model(
    path: Path, module: nn.Module | None = None, trust: Collection[str] = ()
) -> tuple[nn.Module, dict[str, Any]]:
    """The module of a file, in evaluation mode, and the notes about it.

    Args:
        path: what `save_model` wrote.
        module: to put the weights into; by default one is made as the file says.
        trust: Python modules that may be imported to make it; see `isojepa.training.rebuilding`.

    Raises:
        ValueError: the file is damaged or something else, or nobody knows how to make the module.
    """
    tensors, header = load_tensors(path)
    if _NOTE not in header:
        raise ValueError(f"{path} must be a model that isojepa exported, got a file without its notes")
    try:
        notes = parse_json(header[_NOTE].encode())
        if not isinstance(notes, dict):
            raise ValueError("they are no object")
    except ValueError as error:
        raise ValueError(f"{path} has notes that cannot be read: {error}") from error
    if module is None:
        if notes.get("model") is None:
            raise ValueError(
                f"{path} does not say how its module is made: hand one in, load(file, model=MyModel(...))"
            )
        with Bounded(path):
            module = rebuild(notes["model"], trust)
    try:
        module.load_state_dict(tensors)
    except RuntimeError as error:
        raise ValueError(f"{path} does not fit the module: {error}") from error
    return module.eval(), notes
