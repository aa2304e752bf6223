"""Alignment: how far the views of one thing lie apart.

    to_centre   mean over view, batch and dim of (h_v - c)^2,  c the mean of the first `global_views` views
                (Balestriero & LeCun 2025, "LeJEPA", Algorithm 2)
    pairwise    mean over batch and pairs of views of |h_v - h_w|^2, summed over dim
                (Klindt, LeCun & Balestriero 2026, Theorem 1)

With two views, pairwise = 4 dim * to_centre.
"""

from collections.abc import Callable

from torch import Tensor
from torch.nn import functional


def to_centre(views: Tensor, global_views: int | None = None) -> Tensor:
    """Mean squared distance to the centre of the global views; views: (view, batch, dim)."""
    if len(views) == 2 and global_views in (None, 2):
        # both lie half their distance from the centre; reducing an axis of two is slow
        return functional.mse_loss(views[0], views[1]) / 4
    return (views - views[:global_views].mean(0)).square().mean()


def pairwise(views: Tensor) -> Tensor:
    """Mean squared distance between two views, summed over dim; views: (view, batch, dim)."""
    count = views.shape[0]
    # sum over v < w of |h_v - h_w|^2 = V sum_v |h_v - mean|^2, which needs no pair to be formed
    spread = (views - views.mean(0)).square().sum((0, 2)).mean()
    return 2 * spread / (count - 1)


ALIGNMENTS: dict[str, Callable[[Tensor], Tensor]] = {"centre": to_centre, "pairwise": pairwise}
