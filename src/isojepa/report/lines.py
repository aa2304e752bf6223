"""The lines of a certificate: name, value with interval, a bar, a sentence, and the equation when opened.

R^2 is placed by its nines, -log10(1 - R^2), so that 0.99 and 0.999 are as far apart as 0.9 and 0.99; every
other number is placed linearly, with zero in view. Bars are plain boxes placed by percentages.
"""

import math
import re
from collections.abc import Iterable
from html import escape

from isojepa.certificates.sentences import Line
from isojepa.report.equations import Equation
from isojepa.report.formulas import LINES
from isojepa.report.nines import NINES, place
from isojepa.report.numbers import with_span

_SIGNS = {"->": "→", "R2": "R²", "^2": "²", "eps": "ε", "delta": "δ", "rho": "ρ"}
_PLAIN = re.compile(r"->|\bR2\b|\^2|(?<!-)\b(?:eps|delta|rho)\b(?!-from)")  # a flag keeps its name
_ROUNDING = 1e-12  # an interval that ends nearer to 0 holds nothing but rounding
_MINUS = re.compile(r"(?<![\w-])-(?=\d)|(?<=\de)-(?=\d)")  # of a number or an exponent, not of a word


def lines(found: Iterable[Line]) -> str:
    """Rows that open to their equations."""
    rows = "".join(_row(line) for line in found)
    return f'<div class="lines">{rows}</div>' if rows else ""


def equation(found: Equation, title: str = "Equation") -> str:
    """An equation that opens by click or key."""
    return f'<details class="equation"><summary>{escape(title)}</summary>{found.html()}</details>'


def signs(text: str) -> str:
    """Plain names and numbers with their signs."""
    return _MINUS.sub("−", _PLAIN.sub(lambda match: _SIGNS[match[0]], text)).replace("'", "’")


def sentence_of(text: str) -> str:
    """As a sentence of its own."""
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")


def _row(line: Line) -> str:
    number_line = LINES.get(line.name)
    value, ends = with_span(line.value, line.interval)
    cells = (
        f"<span class=name>{escape(signs(line.name))}</span>"
        f"<span class=value><b>{escape(value)}</b> "
        f"<small>{escape(ends)}</small></span>"
        f"<span class=bar>{_interval_bar(line)}</span>"
        f"<span class=says>{escape(signs(sentence_of(line.sentence)))}</span>"
    )
    if number_line is None:
        return f'<div class="line">{cells}</div>'
    opened = f'<div class="equation">{number_line.html()}</div>'
    return f'<details class="line"><summary>{cells}</summary>{opened}</details>'


def _interval_bar(line: Line) -> str:
    """The interval as a small bar with a dot at the estimate; empty where there is none to draw."""
    interval = line.interval
    if interval is None or not all(map(math.isfinite, (interval.low, interval.estimate, interval.high))):
        return ""
    ends = (interval.low, interval.estimate, interval.high)
    if line.name.startswith("R2"):
        low, middle, high = map(place, ends)
        ticks = "".join(f'<i style="left:{100 * k / NINES:g}%"></i>' for k in range(NINES + 1))
    else:
        start, stop = min(interval.low, 0.0), max(interval.high, 0.0)
        stop += 0.12 * (stop - start)
        if not _ROUNDING < stop - start < math.inf:
            return ""
        low, middle, high = ((end - start) / (stop - start) for end in ends)
        ticks = f'<i style="left:{-100 * start / (stop - start):.4g}%"></i>'
    return (
        f'<span class="interval">{ticks}'
        f'<s style="left:{100 * low:.4g}%;width:{100 * (high - low):.4g}%"></s>'
        f'<b style="left:{100 * middle:.4g}%"></b></span>'
    )
