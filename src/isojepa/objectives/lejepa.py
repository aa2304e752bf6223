"""LeJEPA: alignment to the centre of the views plus a regularizer (Balestriero & LeCun 2025, Algorithm 2)."""

import torch
from torch import Tensor, nn

from isojepa.names import choose
from isojepa.objectives.alignment import ALIGNMENTS, to_centre
from isojepa.objectives.loss import Loss, Regularizer, check_views, check_weight, combine
from isojepa.objectives.sigreg import SIGReg


class LeJEPA(nn.Module):
    """weight * regularizer + (1 - weight) * alignment.

    Args:
        weight: lambda, in [0, 1].
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
        weight: float = 2e-3,
        regularizer: Regularizer | None = None,
        alignment: str = "centre",
        global_views: int | None = None,
    ) -> None:
        super().__init__()
        self.weight = check_weight(weight)
        self.regularizer = SIGReg() if regularizer is None else regularizer
        choose("alignment", alignment, ALIGNMENTS)
        if global_views is not None and (global_views < 1 or alignment != "centre"):
            raise ValueError(f"global_views must be positive, with alignment 'centre', got {global_views}")
        self.alignment = alignment
        self.global_views = global_views

    def forward(self, views: Tensor, generator: torch.Generator | None = None) -> Loss:
        """Return the loss of views (view, batch, dim); the generator draws the regularizer's slices."""
        check_views(views)
        if self.global_views is not None and self.global_views > len(views):
            raise ValueError(f"global_views must be at most the {len(views)} views, got {self.global_views}")
        if self.alignment == "centre":
            alignment = to_centre(views, self.global_views)
        else:
            alignment = ALIGNMENTS[self.alignment](views)
        return combine(self.weight, alignment, self.regularizer(views, generator))

    def extra_repr(self) -> str:
        return f"weight={self.weight}, alignment={self.alignment!r}, global_views={self.global_views}"
