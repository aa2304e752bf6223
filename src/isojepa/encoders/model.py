"""Models: features, embedding and tokens; a backbone with a head; evaluation mode.

A `Model` returns features for its users, an embedding for the regularizer, and tokens if the backbone has
them. Any `nn.Module` from observations to vectors is a model: its output is both features and embedding. A
backbone whose embedding differs from its features, e.g. by a projection head, is a `Headed` model, or any
module with the three methods.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from isojepa.encoders.patches import EncodedPatches, patch_model
from isojepa.validation import validate_types

Encoder = Callable[[Tensor], Any]


@runtime_checkable
class Model(Protocol):
    """Interface for objectives, metrics and certificates."""

    def features(self, x: Tensor) -> Tensor:
        """Features for probes, alignment and users: (batch, ...) to (batch, dim)."""
        ...

    def embed(self, x: Tensor) -> Tensor:
        """Embedding for regularizers: (batch, ...) to (batch, dim)."""
        ...

    def tokens(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """One vector per patch or position, (batch, token, dim); only where the mask (batch, token) is True.

        Raises:
            ValueError: the backbone has none.
        """
        ...


class Plain:
    """A module or function whose output is both features and embedding."""

    @validate_types
    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder

    def features(self, x: Tensor) -> Any:
        """The output of the encoder."""
        return self.encoder(x)

    embed = features

    def tokens(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Raise: there are no tokens."""
        raise ValueError(
            f"{type(self.encoder).__name__} has no tokens: give it the methods features, embed and tokens"
        )


class Headed(nn.Module):
    """A backbone and a head that only training uses.

    Args:
        backbone: observations to features; a `Model` or any module.
        head: features to embeddings.

    Example:
        >>> model = Headed(nn.Linear(8, 16), nn.Linear(16, 4))
        >>> model.features(torch.zeros(2, 8)).shape, model(torch.zeros(2, 8)).shape
        (torch.Size([2, 16]), torch.Size([2, 4]))
    """

    @validate_types
    def __init__(self, backbone: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.backbone, self.head = backbone, head

    def features(self, x: Tensor) -> Tensor:
        """The features of the backbone."""
        return as_model(self.backbone).features(x)

    def embed(self, x: Tensor) -> Tensor:
        """The head applied to the features."""
        return self.project(self.features(x))

    def tokens(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """The backbone's tokens."""
        return as_model(self.backbone).tokens(x, mask)

    def grid(self, x: Tensor) -> tuple[int, int]:
        """Rows and columns of the backbone's patches."""
        return patch_model(as_model(self.backbone)).grid(x)

    def encode(
        self, x: Tensor, visible: Tensor | None = None, filler: Tensor | None = None
    ) -> EncodedPatches:
        """Features and tokens of the visible patches."""
        return patch_model(as_model(self.backbone)).encode(x, visible, filler)

    def project(self, features: Tensor) -> Tensor:
        """The head applied to features."""
        h: Tensor = self.head(features)
        return h

    def forward(self, x: Tensor) -> Tensor:
        """The embedding."""
        return self.embed(x)


def as_model(encoder: Encoder | Model) -> Model:
    """The encoder itself if it is a `Model`, else a `Plain` around it."""
    return encoder if isinstance(encoder, Model) else Plain(encoder)


def module_of(encoder: Any) -> nn.Module | None:
    """The module behind an encoder; None for a function."""
    inner = encoder.encoder if isinstance(encoder, Plain) else encoder
    return inner if isinstance(inner, nn.Module) else None


def device_of(encoder: Any) -> torch.device:
    """Device of the parameters of an encoder; the CPU if it has none."""
    module = module_of(encoder)
    parameters = iter(()) if module is None else module.parameters()
    return next((parameter.device for parameter in parameters), torch.device("cpu"))


@contextlib.contextmanager
def evaluating(encoder: Any) -> Iterator[None]:
    """Put a module in evaluation mode, and restore the mode of each part afterwards.

    Frozen parts stay frozen, unlike with `module.train()`. A plain function has no modes.
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
        chunk: rows per call.
        features: return features instead of the embedding.
    """
    model, device = as_model(encoder), device_of(encoder)
    function = model.features if features else model.embed
    with evaluating(encoder), torch.no_grad():
        return torch.cat([_rows(function(part.to(device)), part).cpu() for part in x.split(chunk)])


def _rows(output: Any, x: Tensor) -> Tensor:
    """Check that an output has one row per observation; convert arrays to tensors."""
    try:
        h = torch.as_tensor(output)
    except (TypeError, ValueError, RuntimeError):
        raise ValueError(
            f"an encoder must return a tensor or array (samples, dim), got {type(output).__name__}"
        ) from None
    if not h.ndim or len(h) != len(x):
        raise ValueError(
            f"an encoder must return a row for each of {len(x)} observations, got shape {tuple(h.shape)}"
        )
    return h
