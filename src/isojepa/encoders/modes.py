"""Evaluation: for a while, in pieces, without gradients, and then exactly the modes that were there."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn


@contextlib.contextmanager
def evaluating(encoder: Callable[..., Any]) -> Iterator[None]:
    """Put a module in evaluation mode; afterwards every part of it is in the mode it had.

    Frozen parts stay frozen, which `module.train()` would not leave them. A plain function has no modes.
    """
    before = {part: part.training for part in encoder.modules()} if isinstance(encoder, nn.Module) else {}
    for part in before:
        part.training = False
    try:
        yield
    finally:
        for part, mode in before.items():
            part.training = mode


def embed(encoder: Callable[[Tensor], Tensor], x: Tensor, chunk: int = 4096) -> Tensor:
    """Embed observations (n, ...) on the encoder's device, in evaluation mode; the result is on the CPU."""
    parameters = encoder.parameters() if isinstance(encoder, nn.Module) else iter(())
    device = next((parameter.device for parameter in parameters), torch.device("cpu"))
    with evaluating(encoder), torch.no_grad():
        return torch.cat([_rows(encoder(part.to(device)), part).cpu() for part in x.split(chunk)])


def _rows(found: Any, x: Tensor) -> Tensor:
    """What an encoder returned, if it is a row for each observation; a NumPy array becomes a tensor."""
    try:
        h = torch.as_tensor(found)
    except (TypeError, ValueError, RuntimeError):
        raise ValueError(
            f"an encoder must return a tensor or array (samples, dim), got {type(found).__name__}"
        ) from None
    if not h.ndim or len(h) != len(x):
        raise ValueError(
            f"an encoder must return a row for each of {len(x)} observations, got shape {tuple(h.shape)}"
        )
    return h
