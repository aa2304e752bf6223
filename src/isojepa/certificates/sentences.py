"""The numbers of a certificate in words: a plain sentence for each, and for what is missing."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from isojepa.certificates.rho import WORDS
from isojepa.statistics.intervals import Interval

if TYPE_CHECKING:
    from isojepa.certificates.certificate import Certificate


@dataclass(frozen=True)
class Line:
    """One line of a certificate: a number, its interval where it has one, and what it means.

    `section` is one of recovered, bound, spectrum, spread and named.
    """

    name: str
    value: float
    interval: Interval | None
    sentence: str
    section: str = "recovered"


def row_of(line: Line) -> str:
    """A line of plain text."""
    return f"  {line.name:<24} {format_value(line):<34} {line.sentence}"


def format_value(line: Line) -> str:
    """A line's number with its interval, to two digits of the interval's width."""
    number = digits(line.value, line.interval)
    value = number(line.value)
    if line.interval is None:
        return value
    low, high = number(line.interval.low), number(line.interval.high)
    return value if low == high == value else f"{value}  [{low}, {high}]"


def digits(value: float, interval: Interval | None = None) -> Callable[[float], str]:
    """How to print a number and the ends of its interval: alike, with as many digits as the interval bears.

    Without an interval there are four digits, more just below 1, where R^2 lies. What is 0 or 1 but for
    rounding is printed so.
    """
    known = [value] if interval is None else [value, interval.low, interval.high]
    known = [one for one in known if math.isfinite(one)]
    largest = max(map(abs, known), default=0.0)
    width = max((abs(one - value) for one in known), default=0.0) if math.isfinite(value) else 0.0
    if width <= _ROUNDING * max(largest, 1.0):
        return _alone
    if not _SMALL <= largest < _LARGE:
        return lambda one: f"{one:.3g}"
    places = min(max(1 - math.floor(math.log10(width)), 0), _PLACES)
    return lambda one: f"{one:.{places}f}" if round(one, places) else "0"


_ROUNDING = 1e-12
_SMALL, _LARGE = 1e-4, 1e6  # outside, numbers have an exponent
_PLACES = 8


def _alone(value: float) -> str:
    """Four digits; just below 1, two digits of the distance from it."""
    if abs(value) < _ROUNDING:
        return "0"
    rest = 1 - value
    if abs(rest) < _ROUNDING:
        return "1"
    if 0 < rest < 0.1:
        return f"{value:.{max(4, 1 - math.floor(math.log10(rest)))}f}"
    return f"{value:.4g}"


def lines(c: "Certificate") -> list[Line]:
    """Every measured number with a plain sentence."""
    rows: list[Line] = []

    section = "recovered"

    def add(name: str, interval: Interval | None, sentence: str) -> None:
        if interval is not None:
            rows.append(Line(name, interval.estimate, interval, sentence, section))

    if c.recovery is not None:
        r = c.recovery
        add("R2 h -> z", r.r2_h_to_z, "how much of the latents a linear map reads off the embedding")
        add("R2 z -> h", r.r2_z_to_h, "how much of the embedding is a linear function of the latents")
        worst = min(r.r2_per_latent)
        rows.append(Line("R2 of the worst latent", worst, None, "the latent that is recovered least"))
        add("R2 by rotation", r.r2_orthogonal, "the same with a rotation in place of a linear map")
        add("gap to a rotation", r.gap, "what stretching gains over turning; 0 for a rotation")
        add("orthogonality error", r.orthogonality_error, "how far the fitted linear map is from a rotation")
        add("Procrustes error", r.procrustes_error, "squared distance to the best rotation of the latents")
    if c.prediction is not None:
        best = "what the white embedding of least alignment loss would give here, from the latents' law"
        rows.append(Line("R2 predicted", c.prediction.r2, None, best, section))
    section = "bound"
    if c.bound is not None:
        b = c.bound
        origin = f"correlation of a pair's latents, {WORDS[c.rho_from or 'given']}"
        rows.append(Line("rho", b.rho, None, origin, section))
        add(
            "bound D + (eps + D)^2",
            b.bound,
            "what Theorem 3 allows the squared distance from a rotation at most, all dimensions together",
        )
        add(
            "sharper bound",
            b.sharper,
            "a newer form of the same promise, never larger and up to four times smaller",
        )
        add(
            "eps, debiased",
            b.epsilon,
            "how far the embedding is from equal variances and no correlations, without what chance adds",
        )
        plain = "the same with what chance adds in a finite sample"
        rows.append(Line("eps, plain", b.epsilon_plain, None, plain, section))
        add("delta, raw", b.delta, "alignment loss above that of a linear encoder; below 0 only by chance")
        add("D, raw", b.d, "bound on the embedding's nonlinear energy")
    add(
        "correlation of views",
        c.correlation,
        "how alike the two embeddings of a pair are; at most rho in a Gaussian world",
    )
    if c.maximal is not None:
        add(
            "maximal correlation",
            c.maximal.value,
            "of any function of the embedding that was tried; rho is no less in a Gaussian world, and the "
            "same if the embedding loses nothing",
        )
    if c.curve is not None and c.curve.ends is not None:
        lasts = "largest rho at which the bound still promises nine tenths of the variance"
        rows.append(Line("promise ends at rho", c.curve.ends, None, lasts, section))
    section = "spectrum"
    if c.spectrum is not None:
        add(
            "linear share",
            c.spectrum.linear,
            "how much of the embedding's variance is of degree 1: a straight function of the latents, where "
            "degree 2 are their squares and products, and so on",
        )
    if c.lags is not None and c.lags.identifiable:
        add(
            "linear share, no labels",
            c.lags.linear,
            "the same from its decay along trajectories alone, if the latents are Gaussian of one rate"
            if c.spectrum is not None
            else "how much of the embedding is linear, by its decay, if the latents are Gaussian of one rate",
        )
        if not c.lags.rate_known:
            add("rate", c.lags.rate, "at which a linear embedding forgets, per step")
    variance = "smallest variance of any direction; 1 is ideal, far below the others is collapse"
    rows.append(Line("smallest variance", c.smallest_variance, None, variance, "spread"))
    return rows if c.named is None else [*rows, *c.named.lines()]


def notes(c: "Certificate") -> list[str]:
    """What is missing and why, in sentences."""
    found = []
    if c.bound_missing:
        found.append(f"No bound: {c.bound_missing}.")
    if c.spectrum_missing:
        found.append(f"No spectrum: {c.spectrum_missing}.")
    if c.lags is not None and not c.lags.identifiable:
        found += [f"No spectrum along the trajectories: {reason}" for reason in c.lags.reasons]
    if c.recovery is not None and c.recovery.few:
        found.append(
            "Too few rows for an interval of "
            + ", ".join(c.recovery.few)
            + ": a few rows decide most of it, or the rows are few for the dimensions."
        )
    if c.dropped:
        found.append(f"{c.dropped} rows with NaN or Inf were left out.")
    return found
