"""LeJEPA: alignment to the centre of the views plus a regularizer (Balestriero & LeCun 2025, Algorithm 2)."""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor, nn

from isojepa.arguments import checked
from isojepa.names import choose, shown
from isojepa.objectives.alignment import ALIGNMENTS, CENTRES
from isojepa.objectives.loss import Loss, Regularizer, check_views, check_weight, combine
from isojepa.objectives.sigreg import SIGReg
from isojepa.objectives.whitening import Whitening
from isojepa.registry import Context, Spec, register


class LeJEPA(nn.Module):
    """weight * regularizer + (1 - weight) * alignment.

    Args:
        weight: lambda, in [0, 1].
        regularizer: keeps the embeddings from collapsing; SIGReg by default.
        alignment: "centre", "centre-sum" or "pairwise" (see `isojepa.objectives.alignment`).
        global_views: how many of the first views make the centre; all by default.

    Example:
        >>> loss = LeJEPA(weight=1e-3)(torch.randn(2, 64, 8))
        >>> sorted(loss.terms)
        ['alignment', 'regularizer']
    """

    @checked
    def __init__(
        self,
        weight: float = 2e-3,
        regularizer: Regularizer | None = None,
        alignment: str = "centre",
        global_views: int | None = None,
    ) -> None:
        super().__init__()
        self.weight = check_weight(weight)
        self.regularizer = SIGReg() if regularizer is None else regularizer
        if not callable(self.regularizer):
            raise ValueError(f"regularizer must be callable, got {shown(regularizer)}")
        choose("alignment", alignment, ALIGNMENTS)
        if global_views is not None and (global_views < 1 or alignment not in CENTRES):
            raise ValueError(f"global_views must be positive, with alignment 'centre', got {global_views}")
        self.alignment = alignment
        self.global_views = global_views

    def forward(
        self, views: Tensor, generator: torch.Generator | None = None, *, global_views: int | None = None
    ) -> Loss:
        """Return the loss of views (view, batch, dim).

        Args:
            views: embeddings.
            generator: draws the regularizer's slices.
            global_views: how many of the first views of this batch make the centre, where the module was not
                told.
        """
        check_views(views, generator)
        global_views = global_views if self.global_views is None else self.global_views
        if global_views is not None and not 1 <= global_views <= len(views):
            raise ValueError(f"global_views must be at most the {len(views)} views, got {global_views}")
        if global_views not in (None, len(views)) and self.alignment not in CENTRES:
            raise ValueError(
                f"global_views must be all views, or alignment 'centre', got {global_views} of {len(views)} "
                f"with {self.alignment!r}"
            )
        if self.alignment in CENTRES:
            alignment = CENTRES[self.alignment](views, global_views)
        else:
            alignment = ALIGNMENTS[self.alignment](views)
        return combine(self.weight, alignment, self.regularizer(views, generator))

    def extra_repr(self) -> str:
        return f"weight={self.weight}, alignment={self.alignment!r}, global_views={self.global_views}"


@register("objective", "lejepa", default=True)
@dataclass(frozen=True)
class LeJEPASpec(Spec):
    """LeJEPA with SIGReg: alignment, and Gaussian projections."""

    costless: ClassVar = ("weight", "t_max")
    weight: float = 2e-3
    """Weight λ of the regularizer, in [0, 1]."""
    alignment: str = "centre"
    """Alignment: centre, centre-sum or pairwise."""
    slices: int | None = None
    """Random directions; if none are given, 8 per embedding dimension, 16 to 1024."""
    knots: int = 17
    """Quadrature points of the Epps-Pulley test."""
    t_max: float = 5.0
    """End of that quadrature."""
    pooled: bool = False
    """Test all views as one sample instead of one by one."""
    unbiased: bool = False
    """Remove the O(1/batch) bias of the Epps-Pulley statistic."""
    test: str = "epps-pulley"
    """Univariate test that is averaged over slices; `isojepa list tests`."""
    sampler: str = "gaussian"
    """How directions are drawn: gaussian, sobol or orthogonal."""
    resample: bool = True
    """Draw new directions at every step, or keep those of the seed."""

    def resolve(self, context: Context) -> "LeJEPASpec":
        if self.slices is not None or context.embedding is None:
            return self
        return replace(self, slices=SIGReg().slices_for(context.embedding))

    def build(self, context: Context) -> LeJEPA:
        regularizer = SIGReg(
            slices=self.slices,
            knots=self.knots,
            t_max=self.t_max,
            pooled=self.pooled,
            unbiased=self.unbiased,
            seed=0 if self.resample else context.seed,
            test=self.test,
            sampler=self.sampler,
            resample=self.resample,
        )
        return LeJEPA(self.weight, regularizer, self.alignment)

    def operations(self, batch: float, dim: int) -> float:
        return 2 * batch * SIGReg(self.slices).slices_for(dim) * (6 * dim + 150)


@register("objective", "whitening")
@dataclass(frozen=True)
class WhiteningSpec(Spec):
    """LeJEPA with a whitening penalty: alignment, mean and covariance."""

    costless: ClassVar = ("weight",)
    weight: float = 0.1  # unlike SIGReg's, its value does not grow with the batch
    """Weight λ of the regularizer, in [0, 1]."""
    alignment: str = "centre"
    """Alignment: centre, centre-sum or pairwise."""
    pooled: bool = False
    """Take all views as one sample instead of one by one."""

    def build(self, context: Context) -> LeJEPA:
        return LeJEPA(self.weight, Whitening(self.pooled), self.alignment)
