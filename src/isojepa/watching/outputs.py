"""The embeddings in what a module returns: a tensor, or one of a tuple, a dict or a dataclass.

    (batch, dim)                      as it is
    (batch, token, dim)               the mean over tokens
    (batch, channel, height, width)   the mean over positions, as backbones pool their maps

Whoever wants another one, such as the token of the class, hands in a function of the output.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

from isojepa.names import shown

Choice = str | int | Callable[[Any], Tensor] | None


def embeddings_in(output: Any, choice: Choice = None) -> Tensor:
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
    found = choice(output) if callable(choice) else _part(output, choice)
    if not isinstance(found, Tensor) or not found.is_floating_point() or found.ndim not in (2, 3, 4):
        raise ValueError(
            "the watched output must be a floating point tensor (batch, dim), (batch, token, dim) or (batch, "
            f"channel, height, width), got {_told(found)}: name the submodule whose output it is by at=..., "
            "or hand in output=a function that takes it out"
        )
    found = found.detach()
    if found.ndim == 3:
        return found.float().mean(1)
    return found.float().mean((2, 3)) if found.ndim == 4 else found


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
    told = ", ".join(f"{name!r} {tuple(part.shape)}" for name, part in fitting.items())
    raise ValueError(f"output must say which of the {len(fitting)} tensors to watch ({told}), got none")


def _parts(output: Any) -> dict[str | int, Any]:
    """The parts of an output by name or number."""
    if isinstance(output, Mapping):
        return dict(output)
    if isinstance(output, tuple | list):
        return dict(zip(getattr(output, "_fields", range(len(output))), output, strict=True))
    if dataclasses.is_dataclass(output) and not isinstance(output, type):
        return {item.name: getattr(output, item.name) for item in dataclasses.fields(output)}
    return {}


def _told(found: Any) -> str:
    if isinstance(found, Tensor):
        return f"{found.dtype} of shape {tuple(found.shape)}"
    return f"a {type(found).__name__}" if len(shown(found)) > 60 else shown(found)
