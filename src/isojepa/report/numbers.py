"""Numbers as a reader sees them: few digits, but enough of them near 1, and words for what is no number."""

import math
from collections.abc import Callable

from isojepa.certificates.sentences import digits
from isojepa.statistics.intervals import Interval

UNKNOWN = "not known"


def number(value: float) -> str:
    """Four digits, and six after the point just below 1, where R^2 and shares lie."""
    if math.isnan(value):
        return UNKNOWN
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    text = f"{value:.6f}" if 0.9 < value < 1 else f"{value:.4g}"
    return signed("1" if float(text) == 1 else text)


def short(value: float) -> str:
    """Three digits."""
    return signed(f"{value:.3g}") if math.isfinite(value) else number(value)


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
        return signed(f"{value:.{max(1, 1 - math.floor(math.log10(rest)))}f} %")
    if abs(value) < 1e-4:
        return "0 %"
    return signed(f"{value:,.0f} %" if 99.5 < abs(value) < 1e7 else f"{value:.3g} %")


def span(interval: Interval | None, text: Callable[[float], str] = number) -> str:
    """The ends of an interval in brackets; nothing where an end is not known."""
    if interval is None or math.isnan(interval.low) or math.isnan(interval.high):
        return ""
    return f"[{text(interval.low)}, {text(interval.high)}]"


def with_span(value: float, interval: Interval | None) -> tuple[str, str]:
    """A number and its interval in brackets, to one digit; no brackets where the ends are that number."""
    if math.isnan(value):
        return UNKNOWN, ""
    figure = digits(value, interval)

    def text(one: float) -> str:
        return signed(figure(one)) if math.isfinite(one) else number(one)

    ends = span(interval, text)
    return text(value), "" if ends == f"[{text(value)}, {text(value)}]" else ends


def percent_span(interval: Interval, value: float | None = None) -> tuple[str, str]:
    """A share in percent, by default the estimate, and its interval in brackets, to the same digit."""
    share = interval.estimate if value is None else value
    width, reach = interval.high - interval.low, max(abs(interval.low), abs(interval.high), abs(share))
    if not (width > 1e-6 and reach < 1e4 and math.isfinite(share)):
        ends = span(interval, percent).replace(" %", "")
        key = percent(share)
        alone = key.replace(" %", "")
        return key, "" if ends == f"[{alone}, {alone}]" else ends
    places = max(0, 1 - math.floor(math.log10(100 * width)))

    def text(one: float) -> str:
        return signed(f"{100 * one:,.{places}f}") if round(100 * one, places) else "0"

    return f"{text(share)} %", span(interval, text)


def finite(value: object) -> float | None:
    """A number for JSON; None for what is missing, not a number, or not finite."""
    try:
        as_float = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None
    return as_float if math.isfinite(as_float) else None


def signed(text: str) -> str:
    """With a minus sign in place of each hyphen."""
    return text.replace("-", "−")
