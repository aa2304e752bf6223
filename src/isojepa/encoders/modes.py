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
        return torch.cat([torch.as_tensor(encoder(part.to(device))).cpu() for part in x.split(chunk)])
