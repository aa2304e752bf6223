r"""Where the correlation rho of a pair's latents comes from, and what the bound would be for every rho.

Theorem 3 turns rho into a promise: D = t (rho - r) / (rho (1 - rho)) for an embedding of trace t whose views
correlate by r. It grows with rho. With the embedding's own r in the place of rho it is 0 whatever the
embedding, so a rho that is too small promises too much, and a certificate keeps where rho comes from:

    world    the world that made the pairs says it
    design   the pairs were made so: noise that was added, augmentations of known strength
    states   it was measured on true states of the world
    rate     a time step and a known rate: rho = exp(-rate)
    given    it was given and nobody said whence
    data     it was estimated from the embeddings (`maximal_correlation`), which no finite search bounds from
             above
"""

import math
import numbers
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import scipy

from isojepa.certificates.bound import bounds_at
from isojepa.certificates.embeddings import check_rho
from isojepa.certificates.views import Views
from isojepa.validation import choose

RhoOrigin = Literal["world", "design", "states", "rate", "given", "data"]
OUTSIDE = ("world", "design", "states", "rate")
STATED: dict[str, RhoOrigin] = {"design": "design", "states": "states", "rate": "rate"}  # by who gives rho
WORDS: dict[str, str] = {
    "world": "the world's own",
    "design": "from how the pairs were made",
    "states": "measured on true states",
    "rate": "from a time step and a known rate",
    "given": "given without its origin",
    "data": "estimated from the embeddings themselves",
}
assert set(WORDS) == set(get_args(RhoOrigin))
_POINTS = 25
_LAST = 1 - 1e-6  # largest rho that is looked at


@dataclass(frozen=True)
class BoundCurve:
    """Theorem 3's bound for every rho that the pairs leave possible.

    Attributes:
        rho: from the correlation of the views to where the whole variance may be wrong.
        estimate, high: share of each dimension's variance that may be wrong, and the upper end of it.
        promise: the share that a certificate may promise at most.
        ends: largest rho with an upper end within the promise; None if there is none.
    """

    rho: tuple[float, ...]
    estimate: tuple[float, ...]
    high: tuple[float, ...]
    promise: float
    ends: float | None


def known_rho(rho: Any, rho_from: str | None, rate: Any) -> tuple[float, RhoOrigin] | None:
    """The correlation and where it comes from; None if it was not given.

    Raises:
        ValueError: rho is not in (0, 1), the rate not positive, or the origin none that can be stated.
    """
    if rate is not None:
        if rho is not None:
            raise ValueError("rate stands in the place of rho: give one of them")
        if not (isinstance(rate, numbers.Real) and 0 < float(rate) < math.inf):
            raise ValueError(f"rate must be positive and finite, got {rate!r}")
        rho = math.exp(-float(rate))
    if rho is None:
        if rho_from is not None:
            raise ValueError(f"rho_from tells where rho comes from, got {rho_from!r} without a rho")
        return None
    # a rate may be the embedding's own decay just as a rho may be its own correlation
    return check_rho(rho), "given" if rho_from is None else choose("rho_from", rho_from, STATED)


def bound_curve(views: Views, confidence: float, promise: float) -> BoundCurve | None:
    """The curve of an embedding; None where its views do not correlate."""
    correlation = views.correlation(confidence)
    if correlation is None or not 0 < correlation.estimate < _LAST:
        return None
    start, bound = correlation.estimate, bounds_at(views, confidence)

    def reaches(share: float) -> float | None:
        """The rho at which the upper end has grown to a share; None if it is above from the start."""
        if bound(start).per_dimension.high > share:
            return None
        return float(
            scipy.optimize.brentq(lambda one: bound(one).per_dimension.high - share, start, _LAST, xtol=1e-6)
            if bound(_LAST).per_dimension.high > share
            else _LAST
        )

    whole, ends = reaches(1.0), reaches(promise)
    rho = np.linspace(start, _LAST if whole is None else whole, _POINTS)
    shares = [bound(float(one)).per_dimension for one in rho]
    return BoundCurve(
        rho=tuple(rho.tolist()),
        estimate=tuple(share.estimate for share in shares),
        high=tuple(share.high for share in shares),
        promise=promise,
        ends=ends,
    )
