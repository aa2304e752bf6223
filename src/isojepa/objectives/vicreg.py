"""VICReg: variance, invariance and covariance (Bardes, Ponce & LeCun 2022, ICLR, equations 1 to 6).

    variance     mean over dims of max(0, 1 - sqrt(Var + eps)), averaged over views
    covariance   sum of squared off-diagonal entries of Cov / dim, averaged over views
    invariance   mean squared distance of views, divided by dim in this package's alignment

Published: 25 variance + 1 covariance + 25 invariance. Here the regularizer is variance + c * covariance and
`weight` balances it against invariance as everywhere in the package: weight 0.5 and c = 1/25 are the
published ratios.
"""

import torch
from torch import Tensor, nn

from isojepa.objectives.alignment import pairwise
from isojepa.objectives.loss import Loss, check_views, check_weight, combine
from isojepa.objectives.whitening import covariance_and_mean


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

    def __init__(self, weight: float = 0.5, covariance_weight: float = 1 / 25, eps: float = 1e-4) -> None:
        super().__init__()
        self.weight = check_weight(weight)
        if not covariance_weight >= 0:
            raise ValueError(f"covariance_weight must not be negative, got {covariance_weight}")
        self.covariance_weight = covariance_weight
        self.eps = eps

    def forward(self, views: Tensor, generator: torch.Generator | None = None, progress: float = 1.0) -> Loss:
        """Return the loss of views (view, batch, dim); nothing is drawn."""
        check_views(views)
        dim = views.shape[-1]
        matrix, _ = covariance_and_mean(views)
        diagonal = matrix.diagonal(dim1=-2, dim2=-1)
        variance = torch.relu(1 - torch.sqrt(diagonal + self.eps)).mean()
        off_diagonal = matrix.square().sum((-2, -1)) - diagonal.square().sum(-1)
        covariance = off_diagonal.mean() / dim
        invariance = pairwise(views) / dim
        regularizer = variance + self.covariance_weight * covariance
        return combine(self.weight, invariance, regularizer, variance=variance, covariance=covariance)
