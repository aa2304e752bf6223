"""Figures of losses and recovery: the four published scatters, and alignment by correlation."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from isojepa.report.colors import INK, QUIET
from isojepa_lab.studies.results import COLORS, plain_axes

Runs = Sequence[Mapping[str, Any]]

_PLOT_FLOOR = 1e-7  # of what is drawn on a logarithmic axis
_SHOWN = 8  # correlations that get a color of their own


def scatters(runs: Runs) -> Figure:
    """Total loss, alignment and SIGReg against R^2; whitening against SIGReg."""
    figure = Figure(figsize=(9.5, 7.2), dpi=100, layout="constrained")
    panels = figure.subplots(2, 2).ravel()
    for axes, (x, y, across, up) in zip(
        panels,
        (
            ("total", "r2", "total loss", "R²"),
            ("alignment", "r2", "alignment", "R²"),
            ("sigreg", "r2", "SIGReg", "R²"),
            ("sigreg", "whitening", "SIGReg", "whitening"),
        ),
        strict=True,
    ):
        for index, name in enumerate(dict.fromkeys(run["study"] for run in runs)):
            subset = [run for run in runs if run["study"] == name]
            _points(axes, subset, x, y, COLORS[index % len(COLORS)], name)
        plain_axes(axes, "", across, up)
        axes.set_xscale("log")
        axes.xaxis.set_minor_formatter(NullFormatter())
        if y != "r2":
            axes.set_yscale("log")
    panels[1].legend(fontsize=8, frameon=False, labelcolor=INK)
    return figure


def by_correlation(runs: Runs) -> Figure:
    """1 - R^2 over alignment and over the nonlinear share, colored by correlation."""
    figure = Figure(figsize=(10.5, 4.4), dpi=100, layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    rhos = sorted({run["rho"] for run in runs if run["rho"] is not None}, key=lambda rho: -_count(runs, rho))
    rhos_plotted = sorted(rhos[:_SHOWN])
    floored = [{**run, "loss": max(1 - run["r2"], _PLOT_FLOOR)} for run in runs]
    for axes, key, title in (
        (panels[0], "alignment", "alignment"),
        (panels[1], "share", "nonlinear share at most, δ / (2ρ(1 − ρ) tr Cov(h))"),
    ):
        rest = [run for run in floored if run["rho"] not in rhos_plotted]
        if rest:
            _points(axes, rest, key, "loss", QUIET, "others")
        for index, rho in enumerate(rhos_plotted):
            subset = [run for run in floored if run["rho"] == rho]
            _points(axes, subset, key, "loss", COLORS[index % len(COLORS)], f"ρ {rho:.4g}")
        plain_axes(axes, "", title, "1 − R²" if key == "alignment" else "")
        axes.set_xscale("log")
        axes.set_yscale("log")
    panels[0].legend(fontsize=8, frameon=False, labelcolor=INK, title="correlation", title_fontsize=8)
    return figure


def _count(runs: Runs, rho: float) -> int:
    return sum(run["rho"] == rho for run in runs)


def _points(axes: Axes, runs: Runs, x: str, y: str, color: str, name: str) -> None:
    pairs = [(run[x], run[y]) for run in runs if run[x] is not None and run[y] is not None]
    axes.plot(
        [max(a, _PLOT_FLOOR) for a, _ in pairs],
        [b if y == "r2" else max(b, _PLOT_FLOOR) for _, b in pairs],
        "o",
        color=color,
        markersize=4,
        markeredgewidth=0,
        alpha=0.7,
        label=name or "runs",
    )
