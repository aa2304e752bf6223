"""VICReg: variance, invariance and covariance (Bardes, Ponce & LeCun 2022, ICLR, equations 1 to 6).

    variance     mean over dims of max(0, 1 - sqrt(Var + eps)), averaged over views
    covariance   sum of squared off-diagonal entries of Cov / dim, averaged over views
    invariance   mean squared distance of views, divided by dim in this package's alignment

The released code minimises 25 invariance + 25 variance + 1 covariance, its covariance summed over the two
views. Here the regularizer is variance + c * covariance and `weight` balances it against invariance as
everywhere in the package: weight 0.5 and c = 2/25 are the released ratios.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from isojepa.arguments import checked
from isojepa.objectives.alignment import pairwise
from isojepa.objectives.loss import Loss, check_views, check_weight, combine
from isojepa.objectives.whitening import covariance_and_mean
from isojepa.registry import Context, Spec, register


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

    @checked
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
        """Return the loss of views (view, batch, dim); nothing is drawn.

        Where only some views are global, invariance is of the pairs with a global view; variance and
        covariance are of every view.
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
    """Covariance against variance."""
    eps: float = 1e-4
    """Added to the variance under the root."""

    def build(self, context: Context) -> VICReg:
        return VICReg(self.weight, self.covariance_weight, self.eps)
