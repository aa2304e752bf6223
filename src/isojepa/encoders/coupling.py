"""Coupling encoders: invertible networks, volume preserving or with a free linear map or scales.

The inverse of an additive coupling, learnable: the matched encoder of the published scaling experiment.

One layer maps halves a, b to b, a - tanh(W b + c). A mixing `AdditiveCoupling` with matrices W_1..W_L is
undone exactly by L such layers with weights W_L..W_1 and biases 0, so whatever this encoder fails to
recover is the objective's or the optimiser's fault and not for want of expressivity.

It starts close to the identity (weights a hundredth of the usual size): from larger random weights, training
in a few dimensions often ends in a local minimum.

Couplings preserve volume, so this encoder cannot collapse whatever the objective. `FreeCoupling` ends with a
linear map, and can.

The inverse of an affine coupling, learnable, followed by a linear map.

One layer maps halves a, b to b, (a - t(b)) exp(-tanh s(b)), with s and t networks of one hidden layer each.
It undoes a layer of the mixing `AffineCoupling`, of which it knows the form and no weight. A perceptron must
make such products of sums, which takes it long where there are many latents.

s and t begin at nearly 0, so that the whole begins as nearly the identity.
"""

from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor, nn

from isojepa.arguments import check_count, checked
from isojepa.encoders.layers import identity, linear
from isojepa.registry import Context, Spec, register
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


class Coupling(nn.Module):
    """Learnable inverse of `AdditiveCoupling`.

    Args:
        dim: observed and embedding dimension, even.
        layers: number of coupling layers; the mixing's for an exact inverse.
        seed: draws the initial weights.
    """

    @checked
    def __init__(self, dim: int, layers: int = 4, seed: int = 0) -> None:
        super().__init__()
        half = check_even(dim)
        if int(layers) != layers or layers < 1:
            raise ValueError(f"layers must be a positive integer, got {layers}")
        source = generator(seed, "init")
        self.shifts = nn.ModuleList(linear(half, half, source) for _ in range(layers))
        with torch.no_grad():
            for parameter in self.shifts.parameters():
                parameter.mul_(0.01)
        self.in_dim = self.out_dim = self.dim = int(dim)
        self.layers, self.seed = layers, seed  # what a record makes it again from

    def forward(self, x: Tensor) -> Tensor:
        """Embed observations (..., dim) as (..., dim)."""
        if x.shape[-1] != self.in_dim:
            raise ValueError(f"observations must have {self.in_dim} coordinates, got shape {tuple(x.shape)}")
        a, b = x.chunk(2, -1)
        for shift in self.shifts:
            a, b = b, a - torch.tanh(shift(b))
        return torch.cat((a, b), -1)


class FreeCoupling(Coupling):
    """A `Coupling` followed by a linear map that starts as the identity: only a regularizer holds its scale.

    Args:
        dim: observed and embedding dimension, even.
        layers: number of coupling layers.
        seed: draws the initial weights.
    """

    @checked
    def __init__(self, dim: int, layers: int = 4, seed: int = 0) -> None:
        super().__init__(dim, layers, seed)
        self.head = identity(dim)

    def forward(self, x: Tensor) -> Tensor:
        """Embed observations (..., dim) as (..., dim)."""
        h: Tensor = self.head(super().forward(x))
        return h


@register("encoder", "coupling")
@dataclass(frozen=True)
class CouplingSpec(Spec):
    """The learnable inverse of an additive coupling; it preserves volume and cannot collapse."""

    dim: int | None = None
    """Embedding dimension, which is the observed one."""
    layers: int = 4
    """Number of coupling layers; the mixing's for an exact inverse."""

    def resolve(self, context: Context) -> Self:
        return replace(self, dim=self.embedding(context))

    def build(self, context: Context) -> nn.Module:
        return Coupling(self.embedding(context), self.layers, context.seed)

    def embedding(self, context: Context) -> int:
        """The observed dimension.

        Raises:
            ValueError: another one was asked for.
        """
        if self.dim not in (None, context.observed):
            raise ValueError(
                f"encoder {self.name!r} keeps the observed dimension {context.observed}, got dim {self.dim}"
            )
        return context.observed


@register("encoder", "free-coupling")
@dataclass(frozen=True)
class FreeCouplingSpec(CouplingSpec):
    """A coupling followed by a linear map: only a regularizer holds its scale."""

    hidden: int = 0
    """Width of networks that shift and scale, which undo affine couplings too; 0: one layer that shifts."""

    def build(self, context: Context) -> nn.Module:
        dim = self.embedding(context)
        if self.hidden:
            return ScaledCoupling(dim, self.layers, self.hidden, context.seed)
        return FreeCoupling(dim, self.layers, context.seed)
