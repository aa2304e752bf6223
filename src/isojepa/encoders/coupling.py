"""Coupling encoders: invertible networks, volume preserving or with a free linear map or scales.

`Coupling` is the learnable inverse of an additive coupling, the matched encoder of the published scaling
experiment. One layer maps halves a, b to b, a - tanh(W b + c). L such layers with weights W_L..W_1 and biases
0 invert a mixing `AdditiveCoupling` with matrices W_1..W_L exactly, so a failure to recover is due to
objective or optimizer, not expressivity. Weights start at a hundredth of the usual scale, close to the
identity: larger initial weights in a few dimensions often end in a local minimum. Couplings preserve volume,
so this encoder cannot collapse whatever the objective. `FreeCoupling` ends with a linear map, and can.

`ScaledCoupling` is the learnable inverse of an affine coupling, followed by a linear map. One layer maps
halves a, b to b, (a - t(b)) exp(-tanh s(b)), with s and t networks of one hidden layer each. It can invert a
layer of the mixing `AffineCoupling`, of which it has the form but no weight. s and t start near 0, so the
encoder starts near the identity.
"""

from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor, nn

from isojepa.data.world import check_even
from isojepa.encoders.layers import identity, linear
from isojepa.registry import Context, Spec, register
from isojepa.seeds import generator
from isojepa.validation import check_count, validate_types

_INITIAL_SCALE = 0.1  # of the last weights of s and t, relative to the usual scale


class ScaledCoupling(nn.Module):
    """Learnable inverse of `AffineCoupling`, and a linear map initialized to the identity.

    Args:
        dim: observed and embedding dimension, even.
        layers: number of coupling layers; that of the mixing for an exact inverse.
        hidden: width of the networks s and t; at least that of the mixing for an exact inverse.
        seed: initializes the weights.

    Example:
        >>> ScaledCoupling(4, layers=2, hidden=8)(torch.zeros(5, 4)).shape
        torch.Size([5, 4])
    """

    @validate_types
    def __init__(self, dim: int, layers: int = 4, hidden: int = 32, seed: int = 0) -> None:
        super().__init__()
        half = check_even(dim)
        layers, hidden = check_count("layers", layers), check_count("hidden", hidden)
        source = generator(seed, "init")
        self.shifts = nn.ModuleList(_network(half, hidden, source) for _ in range(layers))
        self.scales = nn.ModuleList(_network(half, hidden, source) for _ in range(layers))
        self.head = identity(dim)
        self.in_dim = self.out_dim = self.dim = int(dim)
        self.layers, self.hidden, self.seed = layers, hidden, seed  # from which a run directory rebuilds it

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
            parameter.mul_(_INITIAL_SCALE)
    return network


class Coupling(nn.Module):
    """Learnable inverse of `AdditiveCoupling`.

    Args:
        dim: observed and embedding dimension, even.
        layers: number of coupling layers; that of the mixing for an exact inverse.
        seed: initializes the weights.
    """

    @validate_types
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
        self.layers, self.seed = layers, seed  # from which a run directory rebuilds it

    def forward(self, x: Tensor) -> Tensor:
        """Embed observations (..., dim) as (..., dim)."""
        if x.shape[-1] != self.in_dim:
            raise ValueError(f"observations must have {self.in_dim} coordinates, got shape {tuple(x.shape)}")
        a, b = x.chunk(2, -1)
        for shift in self.shifts:
            a, b = b, a - torch.tanh(shift(b))
        return torch.cat((a, b), -1)


class FreeCoupling(Coupling):
    """A `Coupling` followed by a linear map initialized to the identity: only a regularizer fixes its scale.

    Args:
        dim: observed and embedding dimension, even.
        layers: number of coupling layers.
        seed: initializes the weights.
    """

    @validate_types
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
    """Embedding dimension, equal to the observed one."""
    layers: int = 4
    """Number of coupling layers; that of the mixing for an exact inverse."""

    def resolve(self, context: Context) -> Self:
        return replace(self, dim=self.embedding(context))

    def build(self, context: Context) -> nn.Module:
        return Coupling(self.embedding(context), self.layers, context.seed)

    def embedding(self, context: Context) -> int:
        """The observed dimension.

        Raises:
            ValueError: `dim` differs.
        """
        if self.dim not in (None, context.observed):
            raise ValueError(
                f"encoder {self.name!r} keeps the observed dimension {context.observed}, got dim {self.dim}"
            )
        return context.observed


@register("encoder", "free-coupling")
@dataclass(frozen=True)
class FreeCouplingSpec(CouplingSpec):
    """A coupling followed by a linear map: only a regularizer fixes its scale."""

    hidden: int = 0
    """Hidden width of shift and scale networks, which invert affine couplings too; 0: additive layers."""

    def build(self, context: Context) -> nn.Module:
        dim = self.embedding(context)
        if self.hidden:
            return ScaledCoupling(dim, self.layers, self.hidden, context.seed)
        return FreeCoupling(dim, self.layers, context.seed)
