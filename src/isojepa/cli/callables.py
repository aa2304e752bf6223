"""Encoders of the user's own: file.py:name, from observations to embeddings."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from isojepa.encoders.backbones import NoAttention
from isojepa.encoders.model import embed
from isojepa.importing import import_object

_ROWS = 65_536  # read from a file at once


def load_callable(source: str) -> Callable[[Any], Any]:
    """Import what file.py:name names.

    A class is called without arguments to make the encoder.

    Raises:
        ValueError: the file cannot be imported, has no such name, or the object cannot be called.
    """
    found = import_object(source)
    if isinstance(found, type):
        try:
            found = found()
        except Exception as error:  # whatever the user's class raises
            raise ValueError(f"{source}() cannot be made: {_told(error)}") from error
    if not callable(found):
        raise ValueError(f"{source} must be callable, got {type(found).__name__}")
    return (OwnBackbone if hasattr(found, "maps") else OwnEncoder)(source, found)


def embed_array(encoder: Callable[[Any], Any], x: Any) -> np.ndarray:
    """Embed observations (n, ...) of any array or file, in pieces.

    Raises:
        ValueError: x has no rows, or does not hold numbers.
    """
    if not len(x.shape) or not len(x):
        raise ValueError(f"x must have rows of observations to embed, got shape {tuple(x.shape)}")
    if not isinstance(x, torch.Tensor) and x.dtype.kind not in "fiub":
        raise ValueError(f"x must hold real numbers, got {x.dtype}")
    parts = (_tensor(x[i : i + _ROWS]) for i in range(0, len(x), _ROWS))
    h = torch.cat([embed(encoder, part) for part in parts])
    return (h.float() if h.dtype == torch.bfloat16 else h).numpy()


def _tensor(x: Any) -> torch.Tensor:
    """Doubles become float32, as models have it; integers such as pixels stay."""
    if not isinstance(x, torch.Tensor):
        x = torch.as_tensor(np.array(x, dtype=x.dtype.newbyteorder("=")))
    tensor: torch.Tensor = x
    return tensor.float() if tensor.dtype == torch.float64 else tensor


class OwnEncoder(nn.Module):
    """A module or function of the user's, whose errors are told in one line."""

    def __init__(self, name: str, inner: Callable[[Any], Any]) -> None:
        super().__init__()
        self._name, self.inner = name, inner

    def forward(self, x: torch.Tensor) -> Any:
        return self._called(self.inner, x)

    def _called(self, method: Callable[[Any], Any], x: torch.Tensor) -> Any:
        given = f"observations {tuple(x.shape)} of {x.dtype}"
        try:
            return method(x)
        except NoAttention:
            raise
        except Exception as error:  # whatever the user's code raises
            raise ValueError(f"{self._name} cannot embed {given}: {_told(error)}") from error


class OwnBackbone(OwnEncoder):
    """A module of the user's that also has features for each position, and perhaps attention."""

    def maps(self, x: torch.Tensor) -> Any:
        """What its method `maps` gives."""
        inner: Any = self.inner
        return self._called(inner.maps, x)

    def attention(self, x: torch.Tensor) -> Any:
        """What its method `attention` gives."""
        method = getattr(self.inner, "attention", None)
        if method is None:
            raise NoAttention(f"{self._name} has no method attention(x)")
        return self._called(method, x)


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
