"""Samples and sums over all pairs of them, from which multivariate tests are computed."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

_LEAST = 64  # samples in a piece, below which calls cost more than arithmetic


@dataclass(frozen=True)
class Side:
    """One of the two samples of each pair: (..., n, dim), and their squared lengths."""

    x: Tensor
    norms: Tensor


class Pairs:
    """Samples (..., n, dim) and sums over pairs of them.

    Attributes:
        x: the samples.
    """

    def __init__(self, x: Tensor) -> None:
        self.x = x

    @property
    def dim(self) -> int:
        """Of the samples."""
        return int(self.x.shape[-1])

    @cached_property
    def norms(self) -> Tensor:
        """|y_j|^2, (..., n)."""
        return (self.x**2).sum(-1)

    def total(self, part: Callable[[Side, Side], Tensor]) -> Tensor:
        """Sum over all ordered pairs (j, k) of what is the same for (k, j): (...).

        Half of the pairs suffice: the samples are cut in two, the pairs across are counted twice, and each
        half is cut in its turn.

        Args:
            part: the sum over the pairs of samples (..., n, dim) with others (..., m, dim): (...).
        """
        whole = Side(self.x.unsqueeze(-3), self.norms.unsqueeze(-2))  # (..., pieces, n, dim)
        across: Tensor | float = 0.0
        while whole.x.shape[-2] % 2 == 0 and whole.x.shape[-2] > _LEAST:
            x, norms = whole.x.unflatten(-2, (2, -1)), whole.norms.unflatten(-1, (2, -1))
            left, right = (Side(x.select(-3, side), norms.select(-2, side)) for side in (0, 1))
            across = across + 2 * part(left, right).sum(-1)
            whole = Side(x.flatten(-4, -3), norms.flatten(-3, -2))
        return across + part(whole, whole).sum(-1)

    def tilted(self, gamma: float) -> Tensor:
        """Sum over pairs of e^{(|y_j|^2 - |y_k|^2) / (4 gamma)} cos(y_j.y_k / (2 gamma)): (...)."""
        # both factors of a pair may leave the range of numbers where their ratio does not: from the mean
        centre = self.norms.mean(-1)

        def part(left: Side, right: Side) -> Tensor:
            cosines = (left.x / (2 * gamma) @ right.x.mT).cos()
            middle = centre.reshape(*centre.shape, *[1] * (left.norms.ndim - centre.ndim))
            rise, other = (((side.norms - middle) / (4 * gamma)).exp() for side in (left, right))
            falling = (cosines @ (1 / other).unsqueeze(-1)).squeeze(-1) * rise
            rising = (cosines @ other.unsqueeze(-1)).squeeze(-1) / rise  # the pair the other way around
            return (falling + rising).sum(-1) / 2

        return self.total(part)


def exponential(
    left: Side, right: Side, inner: float, outer: float, constant: float = 0.0, top: float = math.inf
) -> Tensor:
    """e^{inner y_j.y_k + outer (|y_j|^2 + |y_k|^2) + constant} for all pairs, (..., n, m).

    The exponent is one product of matrices, of the samples with two columns more: fewer walks through memory
    than the sum of its parts.

    Args:
        left, right: the samples.
        inner: positive.
        outer, constant: any.
        top: what the exponent cannot exceed but for rounding.
    """
    first, second = (
        torch.cat((side.x * math.sqrt(inner), (outer * side.norms + constant / 2).unsqueeze(-1)), -1)
        for side in (left, right)
    )
    one, other = torch.ones_like(first[..., :1]), torch.ones_like(second[..., :1])
    columns = torch.cat((second[..., :-1], other, second[..., -1:]), -1)
    exponent = torch.cat((first, one), -1) @ columns.mT
    return (exponent if math.isinf(top) else exponent.clamp_max(top)).exp()
