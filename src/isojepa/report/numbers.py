"""Numbers as a reader sees them: few digits, but enough of them near 1, and words for what is no number."""

import math
from collections.abc import Callable

from isojepa.certificates.intervals import Interval

UNKNOWN = "not known"


def number(value: float) -> str:
    """Four digits, and six after the point just below 1, where R^2 and shares lie."""
    if math.isnan(value):
        return UNKNOWN
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    text = f"{value:.6f}" if 0.9 < value < 1 else f"{value:.4g}"
    return _signed("1" if float(text) == 1 else text)


def short(value: float) -> str:
    """Three digits."""
    return _signed(f"{value:.3g}") if math.isfinite(value) else number(value)


def near_one(value: float) -> str:
    """An R^2: three digits after the point, and just below 1 as many as its distance from 1 needs."""
    rest = 1 - value
    if not 1e-8 < rest < 0.1:
        return short(value) if rest >= 0.1 else number(value)
    return f"{value:.{max(3, 1 - math.floor(math.log10(rest)))}f}"


def percent(share: float) -> str:
    """A share in percent: three digits, and near 100 as many as its distance from 100 needs."""
    value = 100 * share
    if not math.isfinite(value):
        return UNKNOWN if math.isnan(value) else number(value) + " %"
    rest = abs(100 - value)
    if 1e-4 <= rest < 10:
        return _signed(f"{value:.{max(1, 1 - math.floor(math.log10(rest)))}f} %")
    if abs(value) < 1e-4:
        return "0 %"
    return _signed(f"{value:,.0f} %" if 99.5 < abs(value) < 1e7 else f"{value:.3g} %")


def span(interval: Interval | None, text: Callable[[float], str] = number) -> str:
    """The ends of an interval in brackets; nothing where an end is not known."""
    if interval is None or math.isnan(interval.low) or math.isnan(interval.high):
        return ""
    return f"[{text(interval.low)}, {text(interval.high)}]"


def percent_span(interval: Interval | None) -> str:
    """The same in percent, with the digits that its width needs."""
    text = span(interval, percent).replace(" %", "")
    if interval is not None:
        width, reach = interval.high - interval.low, max(abs(interval.low), abs(interval.high))
        if width > 1e-7 and reach < 1e4:
            digits = max(0, 1 - math.floor(math.log10(100 * width)))
            text = span(interval, lambda end: _signed(f"{100 * end:,.{digits}f}"))
    return f"{text} %" if text else ""


def finite(value: object) -> float | None:
    """A number for JSON; None for what is missing, not a number, or not finite."""
    try:
        found = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None


def _signed(text: str) -> str:
    return text.replace("-", "−")
