"""Evaluation: for a while, in pieces, without gradients, and then exactly the modes that were there."""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from isojepa.encoders.model import Encoder, Model, as_model, device_of, module_of


@contextlib.contextmanager
def evaluating(encoder: Any) -> Iterator[None]:
    """Put a module in evaluation mode; afterwards every part of it is in the mode it had.

    Frozen parts stay frozen, which `module.train()` would not leave them. A plain function has no modes.
    """
    module = module_of(encoder)
    before = {} if module is None else {part: part.training for part in module.modules()}
    for part in before:
        part.training = False
    try:
        yield
    finally:
        for part, mode in before.items():
            part.training = mode


def embed(encoder: Encoder | Model, x: Tensor, chunk: int = 4096, features: bool = False) -> Tensor:
    """Embed observations (n, ...) on the encoder's device, in evaluation mode; the result is on the CPU.

    Args:
        encoder: a model, module or function.
        x: the observations.
        chunk: rows at once.
        features: whether features are asked for in place of the embedding.
    """
    model, device = as_model(encoder), device_of(encoder)
    answer = model.features if features else model.embed
    with evaluating(encoder), torch.no_grad():
        return torch.cat([_rows(answer(part.to(device)), part).cpu() for part in x.split(chunk)])


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
