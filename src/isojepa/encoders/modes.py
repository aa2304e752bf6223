"""Evaluation mode for a while, and then exactly the modes that were there."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from torch import nn


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
