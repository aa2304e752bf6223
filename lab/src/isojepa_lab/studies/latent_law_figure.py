"""Figures of the sweep over the latents' law: recovery against alpha."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from isojepa.report.colors import FRAME, INK, QUIET
from isojepa_lab.studies.latent_law_curves import Lines, curve_of, of_objective
from isojepa_lab.studies.latent_law_theory import Expected
from isojepa_lab.studies.measured import grouped
from isojepa_lab.studies.results import COLORS, plain_axes
from isojepa_lab.studies.study import Row

_LOWEST = 1e-3  # orthogonality error that is drawn
_PLOT_FLOOR = 1e-3  # of 1 - R^2 that is drawn


def draw_by_world(lines: Lines, theory: Mapping[tuple[str, float], Expected]) -> Figure:
    """R^2 on samples over alpha, and 1 - R^2 below it, one panel per world, with what theory says."""
    figure, panels = _panels(2, len(lines), height=3.0, share="row")
    for index, (name, rows) in enumerate(lines.items()):
        said = {alpha: one for (world, alpha), one in sorted(theory.items()) if world == name}
        for missing, axes in enumerate(panels[:, index]):
            draw = partial(_draw, axes, missing=bool(missing))
            draw({alpha: one.white for alpha, one in said.items()}, "--", color=INK, linewidth=1.2, zorder=3)
            draw(
                {alpha: one.gaussian for alpha, one in said.items()},
                ":",
                color=QUIET,
                linewidth=1.4,
                zorder=3,
            )
            for objective, color in _colors(lines).items():
                subset = of_objective(rows, objective)
                for some in grouped(subset, "mixing").values():
                    draw(curve_of(some, "r2"), "-", color=color, linewidth=0.7, alpha=0.35)
                draw(curve_of(subset, "r2"), "o-", color=color, linewidth=1.8, markersize=3.5)
            word = "1 - R² on samples" if missing else "R² on samples"
            _law_axes(axes, rows, "" if missing else name, "" if index else word)
        panels[0, index].set_ylim(-0.08, 1.03)
        panels[1, index].set_yscale("log")
        panels[1, index].set_ylim(_PLOT_FLOOR, 1.3)
    theory_lines = {
        "theory, white": Line2D([], [], color=INK, linestyle="--", linewidth=1.2),
        "theory, Gaussian": Line2D([], [], color=QUIET, linestyle=":", linewidth=1.4),
    }
    _legend(figure, lines, theory_lines)
    return figure


def _draw(axes: Axes, curve: Mapping[float, float | None], style: str, missing: bool, **look: Any) -> None:
    """A curve over alpha, or what is missing to 1 of it."""
    x, y = _xy(curve.items())
    axes.plot(x, np.maximum(1 - np.array(y), _PLOT_FLOOR) if missing else y, style, **look)


def draw_by_mixing(lines: Lines, score: str) -> Figure:
    """A score over alpha, one row of panels per world, one column per mixing."""
    mixings = list(dict.fromkeys(str(row.labels["mixing"]) for rows in lines.values() for row in rows))
    figure, panels = _panels(len(lines), len(mixings), height=2.5, width=3.0)
    for across, (name, rows) in zip(panels, lines.items(), strict=False):
        for axes, mixing in zip(across, mixings, strict=False):
            subset = [row for row in rows if row.labels["mixing"] == mixing]
            for objective, color in _colors(lines).items():
                some = of_objective(subset, objective)
                axes.plot(*_xy(curve_of(some, score).items()), "o-", color=color, linewidth=1.5, markersize=3)
            _law_axes(axes, rows, f"{name}, {mixing}", "R² on the grid" if axes is across[0] else "")
            axes.set_ylim(-0.05, 1.03)
    _legend(figure, lines)
    return figure


def draw_orthogonality(lines: Lines) -> Figure:
    """Orthogonality error over alpha, mean over mixings, on samples above and on the grid below."""
    figure, panels = _panels(2, len(lines), height=2.6)
    scores = {"orthogonality_error": "on samples", "orthogonality_grid": "on the grid"}
    highest = 2.0
    for across, (score, where) in zip(panels, scores.items(), strict=True):
        for axes, (name, rows) in zip(across, lines.items(), strict=False):
            axes.set_yscale("log")
            axes.set_ylim(_LOWEST, highest)  # nothing to scale by while all errors are alike
            for objective, color in _colors(lines).items():
                x, y = _xy(curve_of(of_objective(rows, objective), score).items())
                highest = max(highest, *y, 0.0)
                axes.plot(x, np.maximum(y, _LOWEST), "o-", color=color, linewidth=1.6, markersize=3.5)
            _law_axes(axes, rows, f"{name}, {where}", "orthogonality error" if axes is across[0] else "")
    for axes in panels.flat:
        axes.set_ylim(0.8 * _LOWEST, 1.3 * highest)
    _legend(figure, lines)
    return figure


def _panels(
    rows: int, columns: int, height: float, width: float = 3.9, share: Literal["all", "row"] = "all"
) -> tuple[Figure, np.ndarray]:
    rows, columns = max(1, rows), max(1, columns)
    figure = Figure(figsize=(width * columns + 0.4, height * rows + 0.5), dpi=100, layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=share)


def _law_axes(axes: Axes, rows: Sequence[Row], title: str, y: str) -> None:
    alphas = sorted({float(row.labels["alpha"]) for row in rows})
    axes.axvline(2, color=FRAME, linewidth=1, zorder=0)
    axes.set_xscale("log", base=2)
    axes.set_xticks(alphas, labels=[f"1/{1 / alpha:g}" if alpha < 1 else f"{alpha:g}" for alpha in alphas])
    axes.minorticks_off()
    last = axes.get_subplotspec()
    plain_axes(axes, title, "alpha" if last is None or last.is_last_row() else "", y)


def _colors(lines: Lines) -> dict[str, str]:
    names = sorted({str(row.labels["objective"]) for rows in lines.values() for row in rows})
    order = ("SIGReg", "whitening", "InfoNCE", "VICReg")
    ordered = [name for name in order if name in names] + [name for name in names if name not in order]
    return {name: COLORS[(order.index(name) if name in order else 4) % len(COLORS)] for name in ordered}


def _legend(figure: Figure, lines: Lines, more: Mapping[str, Line2D] | None = None) -> None:
    handles = {
        name: Line2D([], [], color=color, marker="o", markersize=3.5)
        for name, color in _colors(lines).items()
    }
    handles |= more or {}
    figure.legend(
        list(handles.values()),
        list(handles),
        loc="outside lower center",
        ncols=max(1, len(handles)),
        fontsize=8,
        frameon=False,
        labelcolor=INK,
    )


def _xy(points: Iterable[tuple[float, float | None]]) -> tuple[list[float], list[float]]:
    finite = [(x, y) for x, y in points if y is not None]
    return [x for x, _ in finite], [y for _, y in finite]
