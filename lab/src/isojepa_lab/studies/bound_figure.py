"""Figures of the bound: error against bound, and against its two sources."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from isojepa.report.colors import INK, QUIET
from isojepa_lab.studies.results import COLORS, plain_axes

Runs = Sequence[Mapping[str, Any]]

_FLOOR = 1e-6  # of what is drawn on a logarithmic axis


def error_against_bound(runs: Runs) -> Figure:
    """Measured error over the published bound, and over the sharper one; the diagonal is the theorem."""
    figure = Figure(figsize=(10.5, 4.8), dpi=100, layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    for axes, key, title in ((panels[0], "bound", "D + (ε + D)²"), (panels[1], "sharper", "sharper bound")):
        for index, (name, members) in enumerate(_by_study(runs)):
            color = COLORS[index % len(COLORS)]
            x, y = _drawn(members, key), _drawn(members, "error")
            axes.errorbar(
                x,
                y,
                xerr=_arms(members, key, x),
                yerr=_arms(members, "error", y),
                fmt="none",
                ecolor=color,
                elinewidth=0.5,
                alpha=0.35,
            )
            _points(axes, members, x, y, color, name)
        ends = _ends([_drawn(runs, key), _drawn(runs, "error")])
        axes.plot(ends, ends, color=QUIET, linewidth=1)
        plain_axes(axes, "", title, "Procrustes error" if key == "bound" else "")
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlim(ends)
        axes.set_ylim(ends)
    panels[0].legend(fontsize=8, frameon=False, labelcolor=INK, loc="upper left")
    return figure


def decomposition(runs: Runs) -> Figure:
    """Error over epsilon, over delta, and over D."""
    figure = Figure(figsize=(12.5, 4.2), dpi=100, layout="constrained")
    panels = figure.subplots(1, 3, sharey=True)
    for axes, (key, title) in zip(
        panels,
        (("epsilon", "ε, distance from white"), ("delta", "δ, alignment gap"), ("d", "D = δ / 2ρ(1 − ρ)")),
        strict=True,
    ):
        for index, (name, members) in enumerate(_by_study(runs)):
            _points(
                axes,
                members,
                _drawn(members, key),
                _drawn(members, "error"),
                COLORS[index % len(COLORS)],
                name,
            )
        plain_axes(axes, "", title, "Procrustes error" if key == "epsilon" else "")
        axes.set_xscale("log")
        axes.set_yscale("log")
    panels[0].legend(fontsize=8, frameon=False, labelcolor=INK, loc="upper left")
    return figure


def _by_study(runs: Runs) -> list[tuple[str, list[Mapping[str, Any]]]]:
    names = dict.fromkeys(run["study"] for run in runs)
    return [(name, [run for run in runs if run["study"] == name]) for name in names]


def _points(axes: Axes, own: Runs, x: np.ndarray, y: np.ndarray, color: str, name: str) -> None:
    collapsed = np.array([run["status"] == "collapsed" for run in own], bool)
    look: dict[str, Any] = {"color": color, "markersize": 4, "alpha": 0.7, "linestyle": "none"}
    axes.plot(x[~collapsed], y[~collapsed], marker="o", markeredgewidth=0, label=name or "runs", **look)
    axes.plot(x[collapsed], y[collapsed], marker="x", **look)


def _drawn(runs: Runs, key: str) -> np.ndarray:
    logs: np.ndarray = np.maximum(np.array([run[key] for run in runs], float), _FLOOR)
    return logs


def _arms(runs: Runs, key: str, at: np.ndarray) -> np.ndarray:
    """(2, n) lengths of error bars that stay on a logarithmic axis."""
    ends = np.array([run[f"{key}_ends"] or (run[key], run[key]) for run in runs], float).reshape(-1, 2)
    ends = np.maximum(ends, _FLOOR)
    return np.stack((np.maximum(at - ends[:, 0], 0), np.maximum(ends[:, 1] - at, 0)))


def _ends(values: Sequence[np.ndarray]) -> tuple[float, float]:
    joined = np.concatenate(values)
    return (float(joined.min()) / 2, float(joined.max()) * 2) if joined.size else (_FLOOR, 1.0)
