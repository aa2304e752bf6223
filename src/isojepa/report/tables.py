"""The certificate and the config as HTML: everything on the page that is text rather than drawing.

Each function returns a fragment in which every piece of text from outside is escaped. Interval bars are
plain boxes placed by percentages. R^2 is placed by its nines, -log10(1 - R^2), so that 0.99 and 0.999 are as
far apart as 0.9 and 0.99; every other number is placed linearly, with zero in view.
"""

import math
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from isojepa.certificates.certificate import Certificate, Line, format_value
from isojepa.certificates.intervals import Interval

_NINES = 5.0  # the R^2 bars end at 0.99999
_TONES = {"rotation": "good", "bounded": "good", "linear": "fair", "partial": "fair"}
_SIGNS = {"->": "→", "R2": "R²", "^2": "²", "eps": "ε", "delta": "δ", "rho": "ρ"}


def badge(certificate: Certificate) -> str:
    """The grade in its colour: good, fair or poor."""
    tone = _TONES.get(certificate.grade, "poor")
    return f'<span class="badge {tone}">{escape(certificate.grade)}</span>'


def certificate_rows(certificate: Certificate) -> str:
    """One table row per line of the certificate: name, value with interval, bar, sentence."""
    return "\n".join(_row(line) for line in certificate.lines())


def bound_picture(certificate: Certificate) -> str:
    """Two bars on one scale, the measured error and the bound; empty unless both are known."""
    recovery, bound = certificate.recovery, certificate.bound
    if recovery is None or recovery.procrustes_error is None or bound is None:
        return ""
    measured, allowed = recovery.procrustes_error, bound.bound
    reach = max(measured.high, allowed.high)
    if not (math.isfinite(reach) and reach > 0):
        return ""
    verdict = {
        True: "The measured error lies within the bound.",
        False: "The measured error exceeds the bound: the world breaks one of the theorem's assumptions.",
        None: "The bound means nothing here: δ lies below 0 beyond chance, so ρ or the world is another.",
    }[certificate.holds]
    return (
        '<div class="versus">'
        + _versus_bar("measured error", "measured", measured, reach)
        + _versus_bar("bound, no labels used", "allowed", allowed, reach)
        + f'<p class="note">{verdict}</p></div>'
    )


def bound_numbers(certificate: Certificate) -> str:
    """The theorem with this run's numbers in it, or why there is none."""
    bound = certificate.bound
    if bound is None:
        return f"<p>No bound here: {escape(certificate.bound_missing or 'it was not asked for')}.</p>"
    total = f"{bound.d_clipped:.4g} + ({bound.epsilon.estimate:.4g} + {bound.d_clipped:.4g})²"
    return (
        f"<p>Here ρ = {bound.rho:g}, ε = {bound.epsilon.estimate:.4g}, "
        f"D = {bound.d_clipped:.4g}, so the bound is <b>{total} = {bound.bound.estimate:.4g}</b>, "
        f"or {100 * bound.per_dimension.estimate:.3g} % of the variance of one latent.</p>"
    )


def config_rows(config: Mapping[str, Any]) -> str:
    """One table row per setting; nested settings have dotted names."""
    rows = (
        f"<tr><th scope=row>{escape(name)}</th><td>{escape(str(value))}</td></tr>"
        for name, value in _flat(config)
    )
    return "\n".join(rows)


def _flat(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in config.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _row(line: Line) -> str:
    value, _, interval = format_value(line).partition("  ")
    name = line.name
    for plain, sign in _SIGNS.items():
        name = name.replace(plain, sign)
    sentence = line.sentence[:1].upper() + line.sentence[1:]
    return (
        f"<tr><th scope=row>{escape(name)}</th>"
        f"<td class=value><b>{escape(value)}</b> <span>{escape(interval)}</span></td>"
        f"<td class=bar>{_interval_bar(line)}</td><td class=says>{escape(sentence)}.</td></tr>"
    )


def _interval_bar(line: Line) -> str:
    """The interval as a small bar with a dot at the estimate; empty where there is none to draw."""
    interval = line.interval
    if interval is None or not all(map(math.isfinite, (interval.low, interval.estimate, interval.high))):
        return ""
    ends = (interval.low, interval.estimate, interval.high)
    if line.name.startswith("R2"):
        low, middle, high = (_nines(end) / _NINES for end in ends)
        ticks = "".join(f'<i style="left:{100 * k / _NINES:g}%"></i>' for k in range(int(_NINES) + 1))
    else:
        start, stop = min(interval.low, 0.0), max(interval.high, 0.0)
        if start == stop:
            return ""
        stop += 0.12 * (stop - start)
        low, middle, high = ((end - start) / (stop - start) for end in ends)
        ticks = f'<i style="left:{-100 * start / (stop - start):.4g}%"></i>'
    return (
        f'<div class="interval">{ticks}'
        f'<s style="left:{100 * low:.4g}%;width:{100 * (high - low):.4g}%"></s>'
        f'<b style="left:{100 * middle:.4g}%"></b></div>'
    )


def _nines(r2: float) -> float:
    """-log10(1 - R^2), from 0 to the end of the scale: a bar that leaves it is drawn up to its edge."""
    return min(max(-math.log10(max(1 - r2, 10**-_NINES)), 0.0), _NINES)


def _versus_bar(label: str, kind: str, interval: Interval, reach: float) -> str:
    low, middle, high = (
        100 * max(end, 0.0) / reach for end in (interval.low, interval.estimate, interval.high)
    )
    text = f"{interval.estimate:.4g}  [{interval.low:.4g}, {interval.high:.4g}]"
    return (
        f'<div class="versus-label">{escape(label)}<span>{escape(text)}</span></div>'
        f'<div class="versus-track"><div class="{kind}" style="width:{middle:.4g}%"></div>'
        f'<s style="left:{low:.4g}%;width:{high - low:.4g}%"></s></div>'
    )
