"""LeJEPA: alignment to the centre of the views plus a regularizer (Balestriero & LeCun 2025, Algorithm 2)."""

import torch
from torch import Tensor, nn

from isojepa.names import choose
from isojepa.objectives.alignment import ALIGNMENTS, to_centre
from isojepa.objectives.loss import Loss, Regularizer, check_views, check_weight, combine
from isojepa.objectives.sigreg import SIGReg


class LeJEPA(nn.Module):
    """weight * regularizer + (1 - weight) * alignment.

    The weight may grow while training goes on, geometrically from `weight_start` to `weight`: a small one
    finds the shape sooner, a large one then removes the shrinkage that alignment causes.

    Args:
        weight: lambda, in [0, 1].
        weight_start: lambda at the first step; None for a constant one.
        regularizer: keeps the embeddings from collapsing; SIGReg by default.
        alignment: "centre" or "pairwise" (see `isojepa.objectives.alignment`).
        global_views: how many of the first views make the centre; all by default.

    Example:
        >>> loss = LeJEPA(weight=1e-3)(torch.randn(2, 64, 8))
        >>> sorted(loss.terms)
        ['alignment', 'regularizer']
    """

    def __init__(
        self,
        weight: float = 4e-3,
        weight_start: float | None = None,
        regularizer: Regularizer | None = None,
        alignment: str = "centre",
        global_views: int | None = None,
    ) -> None:
        super().__init__()
        self.weight = check_weight(weight)
        self.weight_start = None if weight_start is None else check_weight(weight_start)
        if self.weight_start is not None and not (self.weight_start > 0 and self.weight > 0):
            raise ValueError(f"weight and weight_start must be positive to move between, got {weight_start}")
        self.regularizer = SIGReg() if regularizer is None else regularizer
        choose("alignment", alignment, ALIGNMENTS)
        if global_views is not None and (global_views < 1 or alignment != "centre"):
            raise ValueError(f"global_views must be positive, with alignment 'centre', got {global_views}")
        self.alignment = alignment
        self.global_views = global_views

    def weight_at(self, progress: float) -> float:
        """Lambda when a share `progress` of the training is done."""
        if self.weight_start is None:
            return self.weight
        return float(self.weight_start * (self.weight / self.weight_start) ** progress)

    def forward(self, views: Tensor, generator: torch.Generator | None = None, progress: float = 1.0) -> Loss:
        """Return the loss of views (view, batch, dim); the generator draws the regularizer's slices."""
        check_views(views)
        if self.alignment == "centre":
            alignment = to_centre(views, self.global_views)
        else:
            alignment = ALIGNMENTS[self.alignment](views)
        return combine(self.weight_at(progress), alignment, self.regularizer(views, generator))
