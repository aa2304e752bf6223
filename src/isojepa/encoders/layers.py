"""Initialisation that draws from a given generator, so that building a network reads no global state."""

import math

import torch
from torch import nn


def linear(n_in: int, n_out: int, generator: torch.Generator) -> nn.Linear:
    """A linear layer with torch's own initial law, uniform on +-1/sqrt(n_in), drawn from `generator`."""
    layer: nn.Linear = nn.utils.skip_init(nn.Linear, n_in, n_out)
    bound = 1 / math.sqrt(n_in)
    with torch.no_grad():
        layer.weight.uniform_(-bound, bound, generator=generator)
        layer.bias.uniform_(-bound, bound, generator=generator)
    return layer


def identity(dim: int) -> nn.Linear:
    """A linear layer that begins as the identity."""
    layer: nn.Linear = nn.utils.skip_init(nn.Linear, dim, dim)
    with torch.no_grad():
        layer.weight.copy_(torch.eye(dim))
        layer.bias.zero_()
    return layer
