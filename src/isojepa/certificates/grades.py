"""Grades: the verdict of a certificate in a word, and which grades satisfy which.

With labels the grade is what was measured: rotation, linear, partial or none. Without labels it is what may
be promised, and a promise is worth what it rests on:

    bounded      Theorem 3 allows at most a tenth of the variance to be wrong, with a rho from outside, and
                 nothing that was checked speaks against its assumptions
    linear       along trajectories of a rate from outside, nine tenths of the embedding or more are linear
    conditional  the same numbers, but they rest on something that nobody has shown: a rho or a rate taken
                 from the embeddings themselves or of unknown origin, or assumptions that were not checked
    unproven     the numbers say less than that, or an assumption they rest on fails
    refuted      rho and Gaussian latents together contradict the pairs
    unpaired     the views hardly correlate: their rows seem to belong to different pairs

And, whatever is known: collapsed.
"""

from typing import TYPE_CHECKING

from isojepa.certificates.checks import FAILS
from isojepa.certificates.rho import OUTSIDE
from isojepa.linear import collapsed
from isojepa.validation import unknown

if TYPE_CHECKING:
    from isojepa.certificates.certificate import Certificate

LINEAR = 0.99  # R^2 from which the latents count as recovered
CLOSE = 0.9  # R^2 from which they count as mostly recovered; without labels, what a promise must leave right
GRADES = (
    "rotation",
    "bounded",
    "linear",
    "conditional",
    "partial",
    "unproven",
    "none",
    "refuted",
    "unpaired",
    "collapsed",
)
# what is at least as good as each grade that can be asked for
_ENOUGH = {
    "rotation": ("rotation",),
    "bounded": ("rotation", "bounded"),
    "linear": ("rotation", "linear"),
    "conditional": ("rotation", "bounded", "linear", "conditional"),
    "partial": ("rotation", "linear", "partial"),
}
REQUIRED = tuple(_ENOUGH)
# dimensions of a linear map that is no rotation depend on each other, and may be more than the latents
_OF_LINEAR = ("stationarity", "Gaussianity", "additive noise", "joint Gaussianity", "isotropy")


def satisfies(grade: str, required: str) -> bool:
    """Whether a grade is at least as good as the one that is asked for.

    Raises:
        ValueError: that grade cannot be asked for.

    Example:
        >>> satisfies("rotation", "bounded"), satisfies("conditional", "bounded")
        (True, False)
    """
    if required not in _ENOUGH:
        raise ValueError(unknown("require", required, REQUIRED))
    return grade in _ENOUGH[required]


def grade_of(c: "Certificate") -> str:
    """The grade of a certificate."""
    if _is_collapsed(c):
        return "collapsed"
    if c.recovery is not None:
        return _labelled(c)
    if c.unpaired:
        return "unpaired"
    if c.refuted:
        return "refuted"
    if promised(c):
        if c.failed:
            return "unproven"
        return "bounded" if not reservations(c) else "conditional"
    if decays_linearly(c):
        if failed_of_linear(c):
            return "unproven"
        return "linear" if rate_from_outside(c) else "conditional"
    return "unproven"


def promised(c: "Certificate") -> bool:
    """Whether the bound is small enough to be worth a promise."""
    return c.bound is not None and c.bound.per_dimension.high <= 1 - CLOSE


def decays_linearly(c: "Certificate") -> bool:
    """Whether the decay along trajectories shows a linear embedding, of Gaussian latents of one rate."""
    return c.lags is not None and c.lags.identifiable and c.lags.linear.low >= CLOSE


def rate_from_outside(c: "Certificate") -> bool:
    """Whether the rate of the latents along trajectories was known before the embedding was looked at."""
    return c.lags is not None and c.lags.rate_known and c.rho_from in OUTSIDE


def failed_of_linear(c: "Certificate") -> tuple[str, ...]:
    """Assumptions that fail and that every linear map of Gaussian latents of one rate keeps."""
    return tuple(name for name in c.failed if name in _OF_LINEAR)


def reservations(c: "Certificate") -> tuple[str, ...]:
    """What keeps a small bound from being a certificate: any of "data", "unstated" and "unchecked".

    A rho of unknown origin may be the embedding's own correlation, which makes every bound small.
    """
    found = []
    if c.rho_from not in OUTSIDE:
        found.append("data" if c.rho_from == "data" else "unstated")
    if not c.assumptions:
        found.append("unchecked")
    return tuple(found)


def failed(c: "Certificate") -> tuple[str, ...]:
    """Names of the assumptions that fail."""
    return tuple(line.name for line in c.assumptions if line.verdict == FAILS)


def _is_collapsed(c: "Certificate") -> bool:
    if c.samples <= 2 * c.dim:  # with few samples some direction always looks empty
        return False
    # a linear map may read a latent off a direction that is empty to everybody else
    if c.leading_variance is not None and collapsed(c.leading_variance, c.mean_variance):
        return True
    if c.recovery is not None and c.recovery.r2_h_to_z.estimate >= LINEAR:
        return False  # more dimensions than latents: there are directions to spare
    return collapsed(c.smallest_variance, c.mean_variance)


def _labelled(c: "Certificate") -> str:
    assert c.recovery is not None
    r2, orthogonal = c.recovery.r2_h_to_z.estimate, c.recovery.r2_orthogonal
    if r2 >= LINEAR:
        return "rotation" if orthogonal and orthogonal.estimate >= 2 * LINEAR - 1 else "linear"
    return "partial" if r2 >= CLOSE else "none"
