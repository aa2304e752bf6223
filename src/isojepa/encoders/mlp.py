"""A multilayer perceptron; with GELU activations the encoder of the published 2D experiments."""

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import torch
from torch import Tensor, nn

from isojepa.arguments import checked
from isojepa.encoders.layers import linear
from isojepa.names import choose
from isojepa.registry import Context, Spec, register
from isojepa.seeds import generator

_FAR = 6.0  # beyond it sinh goes on straight: an exponential of an exponential would overflow


class Sinh(nn.Module):
    """sinh on [-6, 6] and its tangents beyond: it undoes what is compressed as by a logarithm.

    Example:
        >>> Sinh()(torch.tensor([0.0, 1.0, 7.0])).round()
        tensor([  0.,   1., 403.])
    """

    def forward(self, x: Tensor) -> Tensor:
        near = x.clamp(-_FAR, _FAR)
        return torch.sinh(near) + math.cosh(_FAR) * (x - near)


ACTIVATIONS: Mapping[str, type[nn.Module]] = MappingProxyType(
    {"gelu": nn.GELU, "relu": nn.ReLU, "silu": nn.SiLU, "sinh": Sinh, "tanh": nn.Tanh}
)


class MLP(nn.Module):
    """`layers` linear maps with an activation between them.

    Args:
        in_dim: observed dimension.
        out_dim: embedding dimension.
        width: hidden dimension.
        layers: number of linear maps; 1 is a linear encoder.
        seed: draws the initial weights.
        activation: gelu, relu, silu, sinh or tanh. See `Sinh`.

    Example:
        >>> MLP(in_dim=2, out_dim=2)(torch.zeros(5, 2)).shape
        torch.Size([5, 2])
    """

    @checked
    def __init__(
        self,
        in_dim: int,
        out_dim: int,
        width: int = 64,
        layers: int = 6,
        seed: int = 0,
        activation: str = "gelu",
    ) -> None:
        super().__init__()
        for name, value in {"in_dim": in_dim, "out_dim": out_dim, "width": width, "layers": layers}.items():
            if int(value) != value or value < 1:
                raise ValueError(f"{name} must be a positive integer, got {value}")
        between = choose("activation", activation, ACTIVATIONS)
        source = generator(seed, "init")
        sizes = [in_dim, *[width] * (layers - 1), out_dim]
        parts: list[nn.Module] = []
        for n_in, n_out in itertools.pairwise(sizes):
            parts += [linear(n_in, n_out, source), between()]
        self.body = nn.Sequential(*parts[:-1])
        self.in_dim, self.out_dim = in_dim, out_dim
        # what a record makes it again from
        self.width, self.layers, self.seed, self.activation = width, layers, seed, activation

    def forward(self, x: Tensor) -> Tensor:
        """Embed observations (..., in_dim) as (..., out_dim)."""
        h: Tensor = self.body(x)
        return h


@register("encoder", "mlp", default=True)
@dataclass(frozen=True)
class MLPSpec(Spec):
    """A multilayer perceptron."""

    dim: int | None = None
    """Embedding dimension; the number of latents if none is given."""
    width: int = 64
    """Hidden dimension."""
    layers: int = 6
    """Number of linear maps; 1 is a linear encoder."""
    activation: str = "gelu"
    """What stands between them: gelu, relu, silu, sinh or tanh."""

    def resolve(self, context: Context) -> "MLPSpec":
        return replace(self, dim=self.embedding(context))

    def build(self, context: Context) -> MLP:
        dim = self.embedding(context)
        return MLP(context.observed, dim, self.width, self.layers, context.seed, self.activation)

    def embedding(self, context: Context) -> int:
        return context.latents if self.dim is None else self.dim
