"""One number between 0 and 1 for each latent or dimension: rows of dots for few, a sorted chart for many.

Dots are placed by their nines, -log10(1 - value), from 0 to 0.99999.
"""

import math
from collections.abc import Sequence
from html import escape

from isojepa.report.charts import Chart, Part, Series
from isojepa.report.numbers import near_one

NINES = 5  # the scale ends at 0.99999
_MAX_NINES = 12


def nines_figure(name: str, title: str, of: str, measure: str, values: Sequence[float]) -> Part:
    """A figure, if there are two or more.

    Args:
        name: its id in the page.
        title: above it.
        of: what there is a value of, e.g. "latent".
        measure: what the value is, e.g. "R²".
        values: NaN where it is not known.
    """
    if len(values) < 2:
        return Part("")
    if len(values) <= _MAX_NINES:
        return Part(_rows(title, of, values))
    order = sorted(range(len(values)), key=lambda k: (math.isnan(values[k]), values[k]))
    chart = Chart(
        name,
        title,
        "sorted; point at one to see which",
        list(range(len(values))),
        f"{of}s, from the worst to the best",
        [Series(measure, [values[k] for k in order], "dots")],
        scale="nines",
        unit="r2",
        labels=[f"{of} {k}" for k in order],
    )
    return Part("", [chart])


def place(value: float) -> float:
    """Share of the scale; a value that leaves it stands at its end."""
    return min(max(-math.log10(max(1 - value, 10.0**-NINES)), 0.0), NINES) / NINES


def _rows(title: str, of: str, values: Sequence[float]) -> str:
    ticks = "".join(f'<i style="left:{100 * k / NINES:g}%"></i>' for k in range(NINES + 1))
    rows = ""
    for k, value in enumerate(values):
        dot = "" if math.isnan(value) else f'<b style="left:{100 * place(value):.4g}%"></b>'
        rows += (
            f'<div class="each"><span>{escape(of)} {k}</span><span class="nines">{ticks}{dot}</span>'
            f"<span>{escape(near_one(value))}</span></div>"
        )
    labels = "".join(
        f'<span style="left:{100 * k / NINES:g}%">{1 - 10.0**-k:.{k}f}</span>' for k in range(NINES)
    )
    axis = f'<div class="each axis" aria-hidden="true"><span></span><span>{labels}</span><span></span></div>'
    return f"<figure><h3>{escape(title)}</h3>{rows}{axis}</figure>"
