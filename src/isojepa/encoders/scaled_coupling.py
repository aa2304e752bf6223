"""The inverse of an affine coupling, learnable, followed by a linear map.

One layer maps halves a, b to b, (a - t(b)) exp(-tanh s(b)), with s and t networks of one hidden layer each.
It undoes a layer of the mixing `AffineCoupling`, of which it knows the form and no weight. A perceptron must
make such products of sums, which takes it long where there are many latents.

s and t begin at nearly 0, so that the whole begins as nearly the identity.
"""

import torch
from torch import Tensor, nn

from isojepa.arguments import check_count, checked
from isojepa.encoders.layers import identity, linear
from isojepa.seeds import generator
from isojepa.worlds.mixings import check_even

_SMALL = 0.1  # of the usual size of the last weights of s and t, with which they begin


class ScaledCoupling(nn.Module):
    """Learnable inverse of `AffineCoupling`, and a linear map that begins as the identity.

    Args:
        dim: observed and embedding dimension, even.
        layers: number of coupling layers; the mixing's for an exact inverse.
        hidden: width of the networks s and t; at least the mixing's for an exact inverse.
        seed: draws the initial weights.

    Example:
        >>> ScaledCoupling(4, layers=2, hidden=8)(torch.zeros(5, 4)).shape
        torch.Size([5, 4])
    """

    @checked
    def __init__(self, dim: int, layers: int = 4, hidden: int = 32, seed: int = 0) -> None:
        super().__init__()
        half = check_even(dim)
        layers, hidden = check_count("layers", layers), check_count("hidden", hidden)
        source = generator(seed, "init")
        self.shifts = nn.ModuleList(_network(half, hidden, source) for _ in range(layers))
        self.scales = nn.ModuleList(_network(half, hidden, source) for _ in range(layers))
        self.head = identity(dim)
        self.in_dim = self.out_dim = self.dim = int(dim)
        self.layers, self.hidden, self.seed = layers, hidden, seed  # what a record makes it again from

    def forward(self, x: Tensor) -> Tensor:
        """Embed observations (..., dim) as (..., dim)."""
        if x.shape[-1] != self.in_dim:
            raise ValueError(f"observations must have {self.in_dim} coordinates, got shape {tuple(x.shape)}")
        a, b = x.chunk(2, -1)
        for shift, scale in zip(self.shifts, self.scales, strict=True):
            a, b = b, (a - shift(b)) * torch.exp(-torch.tanh(scale(b)))
        h: Tensor = self.head(torch.cat((a, b), -1))
        return h


def _network(half: int, hidden: int, source: torch.Generator) -> nn.Sequential:
    last = linear(hidden, half, source)
    network = nn.Sequential(linear(half, hidden, source), nn.Tanh(), last)
    with torch.no_grad():
        for parameter in last.parameters():
            parameter.mul_(_SMALL)
    return network
