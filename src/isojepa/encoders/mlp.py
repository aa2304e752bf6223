"""Perceptrons: MLPs (with GELU the encoder of the published 2D experiments) and residual MLPs."""

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Self

import torch
from torch import Tensor, nn

from isojepa.encoders.layers import linear
from isojepa.registry import Context, Spec, register
from isojepa.seeds import generator
from isojepa.validation import check_count, choose, validate_types

_MAX_SINH = 6.0  # beyond it the function is linear: an exponential of an exponential would overflow


class Sinh(nn.Module):
    """sinh on [-6, 6] and its tangents beyond: the inverse of a logarithmic compression.

    Example:
        >>> Sinh()(torch.tensor([0.0, 1.0, 7.0])).round()
        tensor([  0.,   1., 403.])
    """

    def forward(self, x: Tensor) -> Tensor:
        near = x.clamp(-_MAX_SINH, _MAX_SINH)
        return torch.sinh(near) + math.cosh(_MAX_SINH) * (x - near)


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
        seed: initializes the weights.
        activation: gelu, relu, silu, sinh or tanh. See `Sinh`.

    Example:
        >>> MLP(in_dim=2, out_dim=2)(torch.zeros(5, 2)).shape
        torch.Size([5, 2])
    """

    @validate_types
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
        nonlinearity = choose("activation", activation, ACTIVATIONS)
        source = generator(seed, "init")
        sizes = itertools.chain([in_dim], itertools.repeat(width, layers - 1), [out_dim])
        parts: list[nn.Module] = []
        for n_in, n_out in itertools.pairwise(sizes):
            parts += [linear(n_in, n_out, source), nonlinearity()]
        self.body = nn.Sequential(*parts[:-1])
        self.in_dim, self.out_dim = in_dim, out_dim
        # from which a run directory rebuilds it
        self.width, self.layers, self.seed, self.activation = width, layers, seed, activation

    def forward(self, x: Tensor) -> Tensor:
        """Embed observations (..., in_dim) as (..., out_dim)."""
        h: Tensor = self.body(x)
        return h


class ResidualMLP(nn.Module):
    """A residual MLP: h + W2 gelu(W1 norm(h)), `blocks` times between two linear maps.

    Blocks are initialized to the identity (W2 = 0), so depth does not shrink the signal.

    Args:
        in_dim: observed dimension.
        out_dim: embedding dimension.
        width: of the residual stream and of the hidden layer of each block.
        blocks: number of blocks.
        seed: initializes the weights.

    Example:
        >>> ResidualMLP(in_dim=2, out_dim=3)(torch.zeros(5, 2)).shape
        torch.Size([5, 3])
    """

    @validate_types
    def __init__(self, in_dim: int, out_dim: int, width: int = 128, blocks: int = 4, seed: int = 0) -> None:
        super().__init__()
        for name, value in {"in_dim": in_dim, "out_dim": out_dim, "width": width, "blocks": blocks}.items():
            check_count(name, value)
        source = generator(seed, "init")
        self.first = linear(in_dim, width, source)
        self.blocks = nn.ModuleList()
        for _ in range(blocks):
            inner, outer = linear(width, width, source), linear(width, width, source)
            nn.init.zeros_(outer.weight)
            nn.init.zeros_(outer.bias)
            self.blocks.append(nn.Sequential(nn.LayerNorm(width), inner, nn.GELU(), outer))
        self.last = linear(width, out_dim, source)
        self.in_dim, self.out_dim, self.width, self.seed = in_dim, out_dim, width, seed

    def forward(self, x: Tensor) -> Tensor:
        """Embed observations (..., in_dim) as (..., out_dim)."""
        h = self.first(x)
        for block in self.blocks:
            h = h + block(h)
        embedding: Tensor = self.last(h)
        return embedding


@dataclass(frozen=True)
class _VectorSpec(Spec):
    """Base of the specs of perceptrons."""

    dim: int | None = None
    """Embedding dimension; by default the number of latents."""

    def resolve(self, context: Context) -> Self:
        return replace(self, dim=self.embedding(context))

    def embedding(self, context: Context) -> int:
        return context.latents if self.dim is None else self.dim


@register("encoder", "mlp", default=True)
@dataclass(frozen=True)
class MLPSpec(_VectorSpec):
    """A multilayer perceptron."""

    width: int = 64
    """Hidden dimension."""
    layers: int = 6
    """Number of linear maps; 1 is a linear encoder."""
    activation: str = "gelu"
    """Activation: gelu, relu, silu, sinh or tanh."""

    def build(self, context: Context) -> MLP:
        dim = self.embedding(context)
        return MLP(context.observed, dim, self.width, self.layers, context.seed, self.activation)


@register("encoder", "residual-mlp")
@dataclass(frozen=True)
class ResidualMLPSpec(_VectorSpec):
    """A residual multilayer perceptron."""

    width: int = 128
    """Width of the residual stream and of each block."""
    blocks: int = 4
    """Number of blocks."""

    def build(self, context: Context) -> ResidualMLP:
        return ResidualMLP(context.observed, self.embedding(context), self.width, self.blocks, context.seed)
