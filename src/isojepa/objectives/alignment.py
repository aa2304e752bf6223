"""Alignment: squared distances between the views of a state.

    to_center       mean over view, batch and dim of (h_v - c)^2, c the mean of the first `global_views`
                    views (Balestriero & LeCun 2025, "LeJEPA", Algorithm 2)
    to_center_sum   the same summed over dim: mean over view and batch of |h_v - c|^2 (there, equation 6)
    pairwise        mean over batch and pairs of views of |h_v - h_w|^2, summed over dim
                    (Klindt, LeCun & Balestriero 2026, Theorem 1)

With two views, pairwise = 4 dim * to_center. Equation 5 of the LeJEPA paper, the mean over pairs of a global
view u and any view v of |h_u - h_v|^2, exceeds equation 6 by the mean over global views of |h_u - c|^2.

If only some views are global, a pair has at least one global view: two small crops of one image may not
overlap.
"""

from collections.abc import Callable

from torch import Tensor
from torch.nn import functional

from isojepa import ranks
from isojepa.objectives.objective import at_least_float32, check_floats
from isojepa.validation import short_repr


def to_center(views: Tensor, global_views: int | None = None, center: Tensor | None = None) -> Tensor:
    """Mean squared distance to the center of the global views.

    Args:
        views: (view, batch, dim).
        global_views: number of leading views that define the center; all by default.
        center: (batch, dim) another center, e.g. a teacher's, instead of the mean of the views.
    """
    views = _checked(views)
    _check_global(global_views, len(views))
    if center is not None:
        return _over_batch((views - center.to(views)).square().sum() / len(views), views)
    if len(views) == 2 and global_views in (None, 2):
        # both lie half their distance from the center; reducing an axis of two is slow
        return _over_batch(functional.mse_loss(views[0], views[1], reduction="sum"), views) / 4
    return _over_batch((views - views[:global_views].mean(0)).square().sum() / len(views), views)


def to_center_sum(views: Tensor, global_views: int | None = None, center: Tensor | None = None) -> Tensor:
    """As `to_center`, summed over dim instead of averaged."""
    return to_center(views, global_views, center) * views.shape[-1]


def pairwise(views: Tensor, global_views: int | None = None) -> Tensor:
    """Mean squared distance between two views, summed over dim.

    Args:
        views: (view, batch, dim).
        global_views: number of leading global views, one of which each pair has; all by default.
    """
    views = _checked(views)
    if len(views) < 2:
        raise ValueError(f"views must be at least 2 to be compared, got {len(views)}")
    _check_global(global_views, len(views))
    count = views.shape[0]
    if global_views not in (None, count):
        # sum over global u and w != u of |h_u - h_w|^2, a pair once, through the center of the global views
        squares = (views - views[:global_views].mean(0)).square()
        near, far = squares[:global_views].sum(), squares[global_views:].sum()
        total = count * near + global_views * far
        return _over_batch(total, views) * views.shape[2] / len(pairs(count, global_views))
    # sum over v < w of |h_v - h_w|^2 = V sum_v |h_v - mean|^2, which needs no pair to be formed
    spread = _over_batch((views - views.mean(0)).square().sum(), views)
    return 2 * views.shape[2] * spread / (count - 1)


def pairs(count: int, global_views: int | None = None) -> list[tuple[int, int]]:
    """Pairs of views, each once; the first of each is global.

    Example:
        >>> pairs(4, global_views=1)
        [(0, 1), (0, 2), (0, 3)]
    """
    _check_global(global_views, count)
    return [(v, w) for v in range(count)[:global_views] for w in range(v + 1, count)]


def _check_global(global_views: int | None, count: int) -> None:
    if global_views is not None and not (isinstance(global_views, int) and 1 <= global_views <= count):
        raise ValueError(
            f"global_views must be none or an integer from 1 to {count}, got {short_repr(global_views)}"
        )


def _checked(views: Tensor) -> Tensor:
    if check_floats("views", views).ndim != 3 or not len(views):
        raise ValueError(f"views must be (view, batch, dim), got shape {tuple(views.shape)}")
    return at_least_float32(views)


def _over_batch(total: Tensor, views: Tensor) -> Tensor:
    """A sum over this rank's samples and dims, as a mean over those of all ranks."""
    return ranks.total(total) / (ranks.count(views.shape[1], views.device) * views.shape[2])


CENTERED: dict[str, Callable[..., Tensor]] = {"centre": to_center, "centre-sum": to_center_sum}
ALIGNMENTS: dict[str, Callable[..., Tensor]] = {**CENTERED, "pairwise": pairwise}
