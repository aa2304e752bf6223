"""A multilayer perceptron with GELU activations, the encoder of the published 2D experiments."""

import itertools
from dataclasses import dataclass, replace

from torch import Tensor, nn

from isojepa.arguments import checked
from isojepa.encoders.layers import linear
from isojepa.registry import Context, Spec, register
from isojepa.seeds import generator


class MLP(nn.Module):
    """`layers` linear maps with GELU between them.

    Args:
        in_dim: observed dimension.
        out_dim: embedding dimension.
        width: hidden dimension.
        layers: number of linear maps; 1 is a linear encoder.
        seed: draws the initial weights.

    Example:
        >>> import torch
        >>> MLP(in_dim=2, out_dim=2)(torch.zeros(5, 2)).shape
        torch.Size([5, 2])
    """

    @checked
    def __init__(self, in_dim: int, out_dim: int, width: int = 64, layers: int = 6, seed: int = 0) -> None:
        super().__init__()
        for name, value in {"in_dim": in_dim, "out_dim": out_dim, "width": width, "layers": layers}.items():
            if int(value) != value or value < 1:
                raise ValueError(f"{name} must be a positive integer, got {value}")
        source = generator(seed, "init")
        sizes = [in_dim, *[width] * (layers - 1), out_dim]
        parts: list[nn.Module] = []
        for n_in, n_out in itertools.pairwise(sizes):
            parts += [linear(n_in, n_out, source), nn.GELU()]
        self.body = nn.Sequential(*parts[:-1])
        self.in_dim, self.out_dim = in_dim, out_dim
        self.width, self.layers, self.seed = width, layers, seed  # what a record makes it again from

    def forward(self, x: Tensor) -> Tensor:
        """Embed observations (..., in_dim) as (..., out_dim)."""
        h: Tensor = self.body(x)
        return h


@register("encoder", "mlp", default=True)
@dataclass(frozen=True)
class MLPSpec(Spec):
    """A multilayer perceptron with GELU activations."""

    dim: int | None = None
    """Embedding dimension; the number of latents if none is given."""
    width: int = 64
    """Hidden dimension."""
    layers: int = 6
    """Number of linear maps; 1 is a linear encoder."""

    def resolve(self, context: Context) -> "MLPSpec":
        return replace(self, dim=self.embedding(context))

    def build(self, context: Context) -> MLP:
        return MLP(context.observed, self.embedding(context), self.width, self.layers, context.seed)

    def embedding(self, context: Context) -> int:
        return context.latents if self.dim is None else self.dim
