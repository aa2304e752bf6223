"""Page and figure of the study of the label-free spectrum."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from isojepa.certificates.decay import LATENTS
from isojepa.report.colors import INK, QUIET
from isojepa_lab.studies.results import COLORS, markdown_table, plain_axes

Rows = Sequence[Mapping[str, Any]]

SLACK = 0.002  # of the labelled share itself, where it is measured and not integrated

PAGE = """\
# The linear share without labels

Made by `python -m isojepa_lab.studies.label_free_spectrum`; numbers, settings and versions are in
`label_free_spectrum.json`.

![Labelled against label-free share, decay curves, and width by the amount of data](label_free_spectrum.png)

`measure_decay` sees only embeddings along {paths} trajectories of {steps} steps, and says how much of their
variance is linear in the latents, or refuses. `measure_spectrum` sees the latents. {seeds} seeds each; the
label-free share is the mean over the seeds that were answered, with the mean ends of its 95 % interval.

## The rate unknown

{unknown}

## The rate known

{known}

## How much data

One embedding of two dimensions, ρ = 0.95, mean of three seeds. A decay is the time 1/K, here about 20 steps;
the interval's width shrinks with the number of decays seen, paths times steps times K.

{widths}

## What we saw

{summary}
- With the rate unknown, only embeddings with a linear direction are answered: what is linear is Gaussian
  along the paths, and data that show it leave room for no quadratic function of {latents} latents or fewer.
  Few decays (ρ 0.99) do not show it, and an embedding all of whose directions are warped is refused. With the
  rate known nothing of this is needed.
"""


def page(rows: Rows, settings: Mapping[str, Any]) -> str:
    """The study's rows as Markdown."""
    subset = [row for row in rows if row["part"] == "cases"]
    return PAGE.format(
        **settings,
        unknown=_table([row for row in subset if not row["known"]]),
        known=_table([row for row in subset if row["known"]]),
        widths=_size_table([row for row in rows if row["part"] == "sizes"]),
        summary=summary(rows),
        latents=LATENTS,
    )


def summary(rows: Rows) -> str:
    """What the rows say, in a list; docs/spectrum.md has it too."""
    subset = [row for row in rows if row["part"] == "cases"]
    lines = []
    for rate_known in (False, True):
        meant = [row for row in subset if row["known"] == rate_known and row["meant"]]
        answered = [row for row in meant if row["answered"]]
        errors = [row["linear"] - row["labelled"] for row in answered] or [0.0]
        share = sum(map(held, answered)) / max(1, len(answered))
        off, middle, most = np.mean(errors), np.median(np.abs(errors)), max(map(abs, errors))
        lines.append(
            f"- Rate {'known' if rate_known else 'unknown'}: "
            f"{len(answered)} of {len(meant)} measurements were "
            f"answered. The 95 % interval\n  held the labelled share in {share:.0%} of these; the answers "
            f"were off by {off:+.3f} on average,\n  {middle:.3f} in the median, {most:.3f} at most."
        )
    broken = [row for row in subset if not row["meant"]]
    lines.append(
        "- Worlds of unequal rates, where every answer is wrong, were answered "
        f"{sum(row['answered'] for row in broken)} times in {len(broken)}."
    )
    alone = [row for row in subset if row["case"] == "degree 2 alone"]
    blind = [row for row in alone if not row["known"]]
    upper_ends = [row["high"] for row in alone if row["known"] and row["answered"]]
    lines.append(
        "- An embedding of degree 2 alone, which decays like a linear one of twice the rate, was refused "
        f"{sum(not row['answered'] for row in blind)} times\n  in {len(blind)}; with the rate known, the "
        f"upper end of its linear share was {max(upper_ends, default=float('nan')):.3f} at most."
    )
    return "\n".join(lines)


def held(row: Mapping[str, Any]) -> bool:
    """Whether the interval holds the labelled share."""
    return bool(row["low"] - SLACK <= row["labelled"] <= row["high"] + SLACK)


def _table(rows: Rows) -> str:
    cells = []
    for case in dict.fromkeys(row["case"] for row in rows):
        subset = [row for row in rows if row["case"] == case]
        answered = [row for row in subset if row["answered"]]
        labelled = f"{subset[0]['labelled']:.3f}" if subset[0]["meant"] else "(no one rate)"
        answer = "none"
        if answered:
            middle, low, high = (np.mean([row[key] for row in answered]) for key in ("linear", "low", "high"))
            answer = f"{middle:.3f} [{low:.3f}, {high:.3f}]"
        holds = f"{sum(map(held, subset))} of {len(subset)}" if subset[0]["meant"] else ""
        cells.append([case, labelled, answer, f"{len(answered)} of {len(subset)}", holds, _why(subset)])
    return markdown_table(
        [
            "embedding",
            "labelled",
            "label-free",
            "answered",
            "interval holds it, refused or not",
            "why refused",
        ],
        cells,
    )


def _why(rows: Rows) -> str:
    """The reasons given, in a word each."""
    words = {
        "The interval": "too wide",
        "The directions": "unequal rates",
        "The decay would": "marginals",
        "The slowest functions": "not Gaussian",
        "The rate cannot": "too little data",
        "Even the slowest": "no rate",
        "No mixture": "misfit",
        "The rate,": "too slow",
        "The curve": "shape",
        "Time has": "irreversible",
        "Mean or": "drift",
    }
    reasons = [reason for row in rows for reason in row["reasons"]]
    named = [next((word for key, word in words.items() if one.startswith(key)), "other") for one in reasons]
    return ", ".join(dict.fromkeys(named))


def _size_table(rows: Rows) -> str:
    cells = []
    for labelled in dict.fromkeys(row["labelled"] for row in rows):
        for paths in dict.fromkeys(row["paths"] for row in rows):
            subset = [row for row in rows if row["labelled"] == labelled and row["paths"] == paths]
            spans = []
            for rate_known in (False, True):
                each = [row for row in subset if row["known"] == rate_known]
                middle, low, high = (np.mean([row[key] for row in each]) for key in ("linear", "low", "high"))
                spans.append(f"{middle:.3f} [{low:.3f}, {high:.3f}]")
            cells.append([f"{labelled:.2f}", paths, f"{subset[0]['decays']:,.0f}", *spans])
    return markdown_table(["labelled", "paths", "decays seen", "rate unknown", "rate known"], cells)


def draw(rows: Rows) -> Figure:
    """Labelled against label-free, for both; example curves; widths."""
    figure = Figure(figsize=(13, 8.6), dpi=90, layout="constrained")
    panels = figure.subplots(2, 2)
    subset = [row for row in rows if row["part"] == "cases"]
    for axes, rate_known in ((panels[0, 0], False), (panels[0, 1], True)):
        _scatter(axes, [row for row in subset if row["known"] == rate_known and row["meant"]])
        plain_axes(
            axes,
            f"Linear share, rate {'known' if rate_known else 'unknown'} (hollow: refused)",
            "labelled",
            "label-free, 95 % interval",
        )
    _curves(panels[1, 0], [row for row in subset if "curve" in row])
    _widths(panels[1, 1], [row for row in rows if row["part"] == "sizes"])
    return figure


def _scatter(axes: Axes, rows: Rows) -> None:
    axes.plot([0, 1], [0, 1], color=QUIET, linewidth=0.8, linestyle=":")
    for index, row in enumerate(rows):
        at = row["labelled"] + 0.006 * (index % 5 - 2)
        color = COLORS[0] if row["answered"] else "#b4b8bd"
        axes.plot([at, at], [row["low"], row["high"]], color=color, linewidth=1, alpha=0.8)
        face = color if row["answered"] else "white"
        axes.plot(at, row["linear"], "o", color=color, markerfacecolor=face, markersize=4)
    axes.set_xlim(-0.03, 1.03)
    axes.set_ylim(-0.03, 1.03)


def _curves(axes: Axes, rows: Rows) -> None:
    cases_plotted = (
        "rotation, ρ 0.95",
        "20 % of degree 2",
        "sinusoid as it is",
        "degree 2 alone",
        "spiral as it is",
    )
    for color, name in zip(COLORS, cases_plotted, strict=False):
        for row in rows:
            if row["case"] == name:
                decays = np.array(row["lags"]) * row["true_rate"]
                values = np.maximum(row["curve"], 1e-3)
                axes.semilogy(decays, values, "o", color=color, markersize=4, label=name)
                axes.semilogy(decays, np.maximum(row["fitted"], 1e-3), color=color, linewidth=1)
    line = np.linspace(0, 3, 50)
    axes.semilogy(line, np.exp(-line), color=QUIET, linewidth=0.8, linestyle=":")
    axes.set_ylim(0.02, 1.1)
    axes.set_xlim(0, 3.4)
    plain_axes(axes, "Decay of embeddings (dots) and its split (lines)", "lag, in decays 1/K", "correlation")
    axes.legend(fontsize=8, frameon=False, labelcolor=INK)


def _widths(axes: Axes, rows: Rows) -> None:
    for labelled, marker in zip(dict.fromkeys(row["labelled"] for row in rows), ("o", "s"), strict=False):
        for rate_known, color in ((False, COLORS[1]), (True, COLORS[0])):
            subset = [row for row in rows if row["labelled"] == labelled and row["known"] == rate_known]
            label = f"{labelled:.0%} linear, rate {'known' if rate_known else 'unknown'}"
            sizes = sorted({row["decays"] for row in subset})
            widths = [
                np.mean([max(row["high"] - row["low"], 1e-3) for row in subset if row["decays"] == size])
                for size in sizes
            ]
            axes.loglog(sizes, widths, marker + "-", color=color, linewidth=1, label=label)
    plain_axes(axes, "Width of the interval of the linear share", "decays seen", "width")
    axes.legend(fontsize=8, frameon=False, labelcolor=INK)
