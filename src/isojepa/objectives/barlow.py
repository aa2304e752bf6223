r"""Barlow Twins: cross-correlation of two views near the identity (Zbontar et al. 2021, ICML, equation 1).

For embeddings of two views, each dimension standardised over the batch, and their correlation C (dim, dim),

    alignment    mean_i (1 - C_ii)^2
    regularizer  (1/dim) sum_{i != j} C_ij^2

The published loss is dim * (alignment + c * regularizer) with c = 0.0051; here weight = c / (1 + c) gives
that ratio. Each dimension has dim - 1 entries off the diagonal: the published c is for thousands of
dimensions, and a small embedding may want a larger one.

More than two views are compared in pairs, and the terms are averaged over pairs; where only some views are
global, over the pairs with a global view.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from isojepa import ranks
from isojepa.arguments import checked
from isojepa.objectives.alignment import pairs
from isojepa.objectives.loss import Loss, at_least_float32, check_views, check_weight, combine
from isojepa.registry import Context, Spec, register

PUBLISHED = 0.0051 / 1.0051


class BarlowTwins(nn.Module):
    """weight * off-diagonal correlation + (1 - weight) * distance of the diagonal from 1.

    Args:
        weight: lambda, in [0, 1]; the published ratio by default.
        eps: added to the variance under the root.

    Example:
        >>> sorted(BarlowTwins()(torch.randn(2, 32, 8)).terms)
        ['alignment', 'regularizer']
    """

    @checked
    def __init__(self, weight: float = PUBLISHED, eps: float = 1e-5) -> None:
        super().__init__()
        if not eps > 0:
            raise ValueError(f"eps must be positive, got {eps}")
        self.weight, self.eps = check_weight(weight), eps

    def forward(
        self, views: Tensor, generator: torch.Generator | None = None, *, global_views: int | None = None
    ) -> Loss:
        """Return the loss of views (view, batch, dim); nothing is drawn."""
        h = at_least_float32(check_views(views, generator))
        n, dim = ranks.count(h.shape[1], h.device), h.shape[2]
        centred = h - ranks.mean(h, n).unsqueeze(1)
        variance = ranks.mean(centred.square(), n)
        u = centred * torch.rsqrt(variance + self.eps).unsqueeze(1)
        first, second = map(list, zip(*pairs(len(u), global_views), strict=True))
        correlation = ranks.total(u[first].mT @ u[second]) / n
        diagonal = correlation.diagonal(dim1=-2, dim2=-1)
        alignment = (1 - diagonal).square().mean()
        regularizer = (correlation.square().sum() - diagonal.square().sum()) / (len(first) * dim)
        return combine(self.weight, alignment, regularizer)

    def extra_repr(self) -> str:
        return f"weight={self.weight}, eps={self.eps}"


@register("objective", "barlow-twins")
@dataclass(frozen=True)
class BarlowTwinsSpec(Spec):
    """Barlow Twins: the cross-correlation of two views near the identity."""

    costless: ClassVar = ("weight", "eps")
    weight: float = PUBLISHED
    """Lambda, the share of the off-diagonal term, in [0, 1]."""
    eps: float = 1e-5
    """Added to the variance under the root."""

    def build(self, context: Context) -> BarlowTwins:
        return BarlowTwins(self.weight, self.eps)
