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

from isojepa import ranks
from isojepa.names import shown
from isojepa.objectives.loss import at_least_float32, check_floats


def to_centre(views: Tensor, global_views: int | None = None) -> Tensor:
    """Mean squared distance to the centre of the global views; views: (view, batch, dim)."""
    views = _checked(views)
    if global_views is not None and not (isinstance(global_views, int) and 1 <= global_views <= len(views)):
        raise ValueError(
            f"global_views must be none or an integer from 1 to {len(views)}, got {shown(global_views)}"
        )
    if len(views) == 2 and global_views in (None, 2):
        # both lie half their distance from the centre; reducing an axis of two is slow
        return _over_batch(functional.mse_loss(views[0], views[1], reduction="sum"), views) / 4
    return _over_batch((views - views[:global_views].mean(0)).square().sum() / len(views), views)


def pairwise(views: Tensor) -> Tensor:
    """Mean squared distance between two views, summed over dim; views: (view, batch, dim)."""
    views = _checked(views)
    if len(views) < 2:
        raise ValueError(f"views must be at least 2 to be compared, got {len(views)}")
    count = views.shape[0]
    # sum over v < w of |h_v - h_w|^2 = V sum_v |h_v - mean|^2, which needs no pair to be formed
    spread = _over_batch((views - views.mean(0)).square().sum(), views)
    return 2 * views.shape[2] * spread / (count - 1)


def _checked(views: Tensor) -> Tensor:
    if check_floats("views", views).ndim != 3 or not len(views):
        raise ValueError(f"views must be (view, batch, dim), got shape {tuple(views.shape)}")
    return at_least_float32(views)


def _over_batch(total: Tensor, views: Tensor) -> Tensor:
    """A sum over this rank's samples and dims, as a mean over those of all ranks."""
    return ranks.total(total) / (ranks.count(views.shape[1], views.device) * views.shape[2])


ALIGNMENTS: dict[str, Callable[[Tensor], Tensor]] = {"centre": to_centre, "pairwise": pairwise}
