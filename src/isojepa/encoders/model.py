"""Models: features, embedding and tokens; a backbone with a head; evaluation mode.

What a model answers: features for its users, embeddings for the regularizer, tokens where it has any.

Any `nn.Module` from observations to vectors is a model: its output is both features and embedding. A backbone
whose embedding is another space than its features, e.g. behind a projection head, is a `Headed` model, or any
module with the three methods.

Evaluation: for a while, in pieces, without gradients, and then exactly the modes that were there.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from isojepa.arguments import checked
from isojepa.encoders.patches import Encoded, patch_model

Encoder = Callable[[Tensor], Any]


@runtime_checkable
class Model(Protocol):
    """What objectives, evaluations and certificates call."""

    def features(self, x: Tensor) -> Tensor:
        """What probes, alignment and users read: (batch, ...) to (batch, dim)."""
        ...

    def embed(self, x: Tensor) -> Tensor:
        """What regularizers see: (batch, ...) to (batch, dim)."""
        ...

    def tokens(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """One vector for each place, (batch, token, dim); those where the mask (batch, token) is True.

        Raises:
            ValueError: the backbone has none.
        """
        ...


class Plain:
    """A module or function whose output is features and embedding at once."""

    @checked
    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder

    def features(self, x: Tensor) -> Any:
        """The encoder's output."""
        return self.encoder(x)

    embed = features

    def tokens(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """None: say so."""
        raise ValueError(
            f"{type(self.encoder).__name__} has no tokens: give it the methods features, embed and tokens"
        )


class Headed(nn.Module):
    """A backbone and the head that only training sees.

    Args:
        backbone: observations to features; a `Model` or any module.
        head: features to embeddings.

    Example:
        >>> model = Headed(nn.Linear(8, 16), nn.Linear(16, 4))
        >>> model.features(torch.zeros(2, 8)).shape, model(torch.zeros(2, 8)).shape
        (torch.Size([2, 16]), torch.Size([2, 4]))
    """

    @checked
    def __init__(self, backbone: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.backbone, self.head = backbone, head

    def features(self, x: Tensor) -> Tensor:
        """What the backbone gives."""
        return as_model(self.backbone).features(x)

    def embed(self, x: Tensor) -> Tensor:
        """What the head makes of it."""
        return self.project(self.features(x))

    def tokens(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """The backbone's tokens."""
        return as_model(self.backbone).tokens(x, mask)

    def grid(self, x: Tensor) -> tuple[int, int]:
        """Rows and columns of the backbone's patches."""
        return patch_model(as_model(self.backbone)).grid(x)

    def encode(self, x: Tensor, visible: Tensor | None = None, filler: Tensor | None = None) -> Encoded:
        """What the backbone makes of some patches."""
        return patch_model(as_model(self.backbone)).encode(x, visible, filler)

    def project(self, features: Tensor) -> Tensor:
        """What the head makes of features."""
        h: Tensor = self.head(features)
        return h

    def forward(self, x: Tensor) -> Tensor:
        """The embedding."""
        return self.embed(x)


def as_model(encoder: Encoder | Model) -> Model:
    """The encoder itself if it answers as a model, else what calls it."""
    return encoder if isinstance(encoder, Model) else Plain(encoder)


def module_of(encoder: Any) -> nn.Module | None:
    """The module behind an encoder; None for a function."""
    inner = encoder.encoder if isinstance(encoder, Plain) else encoder
    return inner if isinstance(inner, nn.Module) else None


def device_of(encoder: Any) -> torch.device:
    """Where an encoder's parameters are; the CPU for a function or a module without any."""
    module = module_of(encoder)
    parameters = iter(()) if module is None else module.parameters()
    return next((parameter.device for parameter in parameters), torch.device("cpu"))


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
