"""A certificate in words: its verdict, and a plain sentence for every number."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from isojepa.certificates.intervals import Interval
from isojepa.certificates.recovery import Recovery

if TYPE_CHECKING:
    from isojepa.certificates.certificate import Certificate


@dataclass(frozen=True)
class Line:
    """One line of a certificate: a number, its interval where it has one, and what it means.

    `section` is one of recovered, bound, spectrum and spread.
    """

    name: str
    value: float
    interval: Interval | None
    sentence: str
    section: str = "recovered"


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


def _percent(share: float, precision: int = 2) -> str:
    """A share in percent, without a pretence of digits where next to nothing is left."""
    value = 100 * share
    return f"less than {_TRACE:g} %" if abs(value) < _TRACE else f"{value:.{precision}g} %"


_TRACE = 0.001


_REFUTED = (
    "There is no bound: the pairs lie closer together than any embedding of a Gaussian world with "
    "rho = {rho:g} can bring them, so rho is wrong or the world is another."
)


_UNPAIRED = (
    "The two views of a pair hardly correlate ({value:.2g}): their rows seem to belong to different pairs. "
    "Check that both files keep one order."
)
_UNORDERED = (
    "Steps next to each other hardly correlate ({value:.2g}): they lie too far apart in time, or not in its "
    "order."
)
_OPPOSED = (
    "The two views of a pair correlate negatively ({value:.2g}), which no rho in (0, 1) allows: one of them "
    "has its sign turned, or the world oscillates."
)


def verdict(c: "Certificate") -> str:
    """The certificate in a sentence or two."""
    if c.grade == "collapsed":
        return (
            f"Collapsed: the embedding does not fill its {c.dim} dimensions; its smallest variance is "
            f"{c.smallest_variance:.2g} where the mean is {c.mean_variance:.2g}."
        )
    text = _labelled_verdict(c, c.recovery) if c.recovery is not None else _unlabelled_verdict(c)
    if c.unpaired and c.correlation is not None and c.recovery is not None:
        text += " " + _unpaired(c, c.correlation)
    return text


def _unpaired(c: "Certificate", correlation: Interval) -> str:
    if correlation.high < 0 and correlation.estimate < -0.1:
        return _OPPOSED.format(value=correlation.estimate)
    return (_UNPAIRED if c.lags is None else _UNORDERED).format(value=correlation.estimate)


def _unlabelled_verdict(c: "Certificate") -> str:
    if c.grade == "unpaired" and c.correlation is not None:
        return "Nothing can be certified. " + _unpaired(c, c.correlation)
    seen = _seen_along_paths(c)
    if c.grade == "linear":
        seen = f"Linear, by its decay along the trajectories, if the latents are Gaussian of one rate. {seen}"
        wide = " It may stretch them: the bound is too wide for a rotation."
        return (seen if c.bound is None else seen + wide) + _doubt(c)
    if c.bound is None:
        if seen:
            return seen
        return f"Nothing can be certified: there are no latents, and no bound because {c.bound_missing}."
    share = c.bound.per_dimension.high
    if c.grade == "bounded":
        return (
            f"World model, certified without labels: if the latents are {c.dim} Gaussians with "
            f"rho = {c.bound.rho:g}, the embedding is a rotation of them up to at most {_percent(share)} "
            f"of their variance. {seen}".rstrip()
        ) + _doubt(c)
    if c.grade == "refuted":
        return _REFUTED.format(rho=c.bound.rho)
    text = (
        f"Not certified without labels: the bound allows {_percent(share, 3)} of the latents' variance to be "
        "wrong."
    )
    if share >= 1:
        text = "Not certified without labels: the bound allows more than the latents' whole variance."
    if seen:
        return f"{text} {seen}"
    if c.correlation is not None and c.correlation.high < c.bound.rho:
        return (
            f"{text} The views correlate by {c.correlation.estimate:.3g} where a linear encoder of this "
            f"world reaches rho = {c.bound.rho:g}: the encoder is nonlinear or not yet trained, or rho is "
            "smaller."
        )
    return f"{text} The encoder may still be good; the training may not have converged."


def _doubt(c: "Certificate") -> str:
    """What the embeddings break of all that linear maps of Gaussian latents keep."""
    kept = ("stationarity", "Gaussianity", "additive noise")
    broken = [line.name for line in c.assumptions if line.name in kept and line.verdict == "fails"]
    if not broken:
        return ""
    fail = "fails" if len(broken) == 1 else "fail"
    return f" But {' and '.join(broken)} {fail}, which no linear map of such latents explains."


def _seen_along_paths(c: "Certificate") -> str:
    return "" if c.lags is None else c.lags.sentence


def _labelled_verdict(c: "Certificate", r: Recovery) -> str:
    r2 = r.r2_h_to_z.estimate
    lost = 1 - r2
    if c.grade == "rotation" and r.r2_orthogonal:
        turned = _percent(1 - r.r2_orthogonal.estimate)
        text = f"World model: the embedding is a rotation of the latents up to {turned} of their variance."
    elif c.grade == "linear":
        text = (
            f"Linear but not a rotation: a linear map reads the latents up to {_percent(lost)} of their "
            "variance, but the embedding stretches or mixes them."
        )
    elif c.grade == "partial":
        text = (
            f"Mostly recovered: a linear map of the embedding misses {_percent(lost)} of the latents' "
            "variance."
        )
    elif lost > 1:
        text = "Not a world model: a linear map of the embedding predicts the latents worse than their mean."
    else:
        text = (
            f"Not a world model: a linear map of the embedding misses {_percent(lost, 3)} of the latents' "
            "variance."
        )
    if c.grade in ("partial", "none") and c.samples < 4 * c.dim:
        text += f" But {c.samples} samples are too few to fit a map from {c.dim} dimensions: use more."
    if c.holds is True and c.bound is not None:
        empty = ", but allows more than the latents' whole variance" * (c.bound.per_dimension.estimate >= 1)
        text += f" Theorem 3's bound holds{empty}."
    if c.holds is False:
        text += " The error exceeds Theorem 3's bound: the world breaks one of its assumptions."
    if c.bound is not None and c.bound.refuted:
        text += " " + _REFUTED.format(rho=c.bound.rho)
    return text


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
        add(
            "bound D + (eps + D)^2",
            b.bound,
            "what Theorem 3 allows the Procrustes error, without labels",
        )
        add(
            "sharper bound",
            b.sharper,
            "the same, its second term up to four times smaller; no different once eps + D is above 1",
        )
        add("eps, debiased", b.epsilon, "distance of the embedding's covariance from the identity")
        plain = "the same with the noise of a finite sample"
        rows.append(Line("eps, plain", b.epsilon_plain, None, plain, section))
        add("delta, raw", b.delta, "alignment loss above that of a linear encoder; below 0 only by chance")
        add("D, raw", b.d, "bound on the embedding's nonlinear energy")
    add(
        "correlation of views",
        c.correlation,
        "how alike the two embeddings of a pair are; at most rho in a Gaussian world",
    )
    section = "spectrum"
    if c.spectrum is not None:
        add("linear share", c.spectrum.linear, "how much of the embedding's variance is of degree 1")
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
    return rows


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
