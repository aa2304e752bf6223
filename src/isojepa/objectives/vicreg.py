"""Objectives on second moments: VICReg, Barlow Twins, whitening.

VICReg: variance, invariance and covariance (Bardes, Ponce & LeCun 2022, ICLR, equations 1 to 6).

    variance     mean over dims of max(0, 1 - sqrt(Var + eps)), averaged over views
    covariance   sum of squared off-diagonal entries of Cov / dim, averaged over views
    invariance   mean squared distance of views, divided by dim in this package's alignment

The released code minimizes 25 invariance + 25 variance + 1 covariance, the covariance summed over the two
views. Here the regularizer is variance + c * covariance and `weight` balances it against invariance as
everywhere in the package: weight 0.5 and c = 2/25 are the released ratios.

Whitening: the second-moment part of Gaussianity.

    |mean|^2 / dim + |Cov - I|_F^2 / dim,   Cov with divisor n - 1

which Theorem 3 of Klindt, LeCun & Balestriero (2026) proves sufficient in a Gaussian world.

Barlow Twins: cross-correlation of two views near the identity (Zbontar et al. 2021, ICML, equation 1). For
embeddings of two views, each dimension standardized over the batch, and their correlation C (dim, dim),

    alignment    mean_i (1 - C_ii)^2
    regularizer  (1/dim) sum_{i != j} C_ij^2

The published loss is dim * (alignment + c * regularizer) with c = 0.0051; weight = c / (1 + c) gives that
ratio. Each dimension has dim - 1 off-diagonal entries: the published c is for thousands of dimensions; a
small embedding may need a larger one.

More than two views are compared in pairs, and the terms are averaged over pairs; if only some views are
global, over the pairs with a global view.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from isojepa import ranks
from isojepa.objectives.alignment import pairs, pairwise
from isojepa.objectives.objective import (
    Loss,
    at_least_float32,
    check_alone,
    check_samples,
    check_views,
    check_weight,
    combine,
)
from isojepa.registry import Context, Spec, register
from isojepa.validation import validate_types


class Whitening(nn.Module):
    """Squared distance of mean and covariance from those of N(0, I), per dimension.

    Args:
        pooled: take all views as one sample; otherwise each view on its own.

    Example:
        >>> bool(Whitening()(torch.zeros(16, 4)) == 1)
        True
    """

    @validate_types
    def __init__(self, pooled: bool = False) -> None:
        super().__init__()
        self.pooled = pooled

    def forward(self, embeddings: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Return the scalar penalty of embeddings (..., batch, dim); no randomness."""
        check_alone(embeddings, generator)
        check_samples(embeddings)
        if self.pooled:
            embeddings = embeddings.reshape(-1, embeddings.shape[-1])
        covariance, mean = covariance_and_mean(embeddings)
        dim = embeddings.shape[-1]
        identity = torch.eye(dim, dtype=covariance.dtype, device=covariance.device)
        distance = (covariance - identity).square().sum((-2, -1)) + mean.square().sum(-1)
        return distance.mean() / dim

    def extra_repr(self) -> str:
        return f"pooled={self.pooled}"


def covariance_and_mean(embeddings: Tensor) -> tuple[Tensor, Tensor]:
    """Covariance (..., dim, dim) with divisor n - 1, and mean (..., dim), of (..., batch, dim)."""
    embeddings = at_least_float32(embeddings)
    n = ranks.count(embeddings.shape[-2], embeddings.device)
    mean = ranks.mean(embeddings, n)
    centered = embeddings - mean.unsqueeze(-2)
    return ranks.total(centered.mT @ centered) / (n - 1), mean


class VICReg(nn.Module):
    """weight * (variance + covariance_weight * covariance) + (1 - weight) * invariance.

    Args:
        weight: lambda, in [0, 1].
        covariance_weight: c, the covariance term against the variance term.
        eps: added to the variance under the root.

    Example:
        >>> sorted(VICReg()(torch.randn(2, 64, 8)).terms)
        ['alignment', 'covariance', 'regularizer', 'variance']
    """

    @validate_types
    def __init__(self, weight: float = 0.5, covariance_weight: float = 2 / 25, eps: float = 1e-4) -> None:
        super().__init__()
        self.weight = check_weight(weight)
        if not covariance_weight >= 0:
            raise ValueError(f"covariance_weight must not be negative, got {covariance_weight}")
        if not eps > 0:
            raise ValueError(f"eps must be positive, got {eps}")
        self.covariance_weight = covariance_weight
        self.eps = eps

    def forward(
        self, views: Tensor, generator: torch.Generator | None = None, *, global_views: int | None = None
    ) -> Loss:
        """Return the loss of views (view, batch, dim); no randomness.

        If only some views are global, invariance uses the pairs with a global view; variance and
        covariance use every view.
        """
        check_views(views, generator)
        dim = views.shape[-1]
        matrix, _ = covariance_and_mean(views)
        diagonal = matrix.diagonal(dim1=-2, dim2=-1)
        variance = torch.relu(1 - torch.sqrt(diagonal + self.eps)).mean()
        off_diagonal = matrix - torch.diag_embed(diagonal)
        covariance = off_diagonal.square().sum((-2, -1)).mean() / dim
        invariance = pairwise(views, global_views) / dim
        regularizer = variance + self.covariance_weight * covariance
        return combine(self.weight, invariance, regularizer, variance=variance, covariance=covariance)

    def extra_repr(self) -> str:
        return f"weight={self.weight}, covariance_weight={self.covariance_weight}, eps={self.eps}"


@register("objective", "vicreg")
@dataclass(frozen=True)
class VICRegSpec(Spec):
    """Variance, invariance and covariance."""

    costless: ClassVar = ("weight", "covariance_weight", "eps")
    weight: float = 0.5
    """Weight λ of the regularizer, in [0, 1]."""
    covariance_weight: float = 2 / 25
    """Weight of covariance relative to variance."""
    eps: float = 1e-4
    """Constant added to the variance under the square root."""

    def build(self, context: Context) -> VICReg:
        return VICReg(self.weight, self.covariance_weight, self.eps)


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

    @validate_types
    def __init__(self, weight: float = PUBLISHED, eps: float = 1e-5) -> None:
        super().__init__()
        if not eps > 0:
            raise ValueError(f"eps must be positive, got {eps}")
        self.weight, self.eps = check_weight(weight), eps

    def forward(
        self, views: Tensor, generator: torch.Generator | None = None, *, global_views: int | None = None
    ) -> Loss:
        """Return the loss of views (view, batch, dim); no randomness."""
        h = at_least_float32(check_views(views, generator))
        n, dim = ranks.count(h.shape[1], h.device), h.shape[2]
        centered = h - ranks.mean(h, n).unsqueeze(1)
        variance = ranks.mean(centered.square(), n)
        u = centered * torch.rsqrt(variance + self.eps).unsqueeze(1)
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
    """Weight λ of the off-diagonal term, in [0, 1]."""
    eps: float = 1e-5
    """Constant added to the variance under the square root."""

    def build(self, context: Context) -> BarlowTwins:
        return BarlowTwins(self.weight, self.eps)
