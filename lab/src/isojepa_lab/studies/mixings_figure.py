"""Figures of the mixings: the unrecovered part, from rows alone; the planes, where the records are there."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import nn

from isojepa.data import Source
from isojepa.report.colors import FRAME, INK, QUIET
from isojepa.report.panels import arrange
from isojepa.report.points import points_in_world
from isojepa.runs import load_run
from isojepa_lab.studies.measured import grouped, mean, measured
from isojepa_lab.studies.results import COLORS, plain_axes
from isojepa_lab.studies.settings import PUBLISHED
from isojepa_lab.studies.study import Label, Row

Drawn = tuple[Row, nn.Module, Source]
_PLOT_FLOOR = 1e-5  # of 1 - R^2 that is drawn
_POINTS = 1000
_HALF = 3.8  # half a square of latents, and of embeddings turned onto them
_WIDTH = 0.8  # of the group of one mixing


def losses_of_recovery(rows: Sequence[Row]) -> Figure:
    """1 - R^2 of every run, by mixing and objective."""
    mixings = list(dict.fromkeys(row.labels["mixing"] for row in rows))
    objectives = list(dict.fromkeys(row.labels["objective"] for row in rows))
    figure = Figure(figsize=(max(5.0, 2.4 * len(mixings)), 3.8), dpi=100, layout="constrained")
    axes = figure.subplots()
    for at, mixing in enumerate(mixings):
        observed = mean([row for row in rows if row.labels["mixing"] == mixing], "r2_x_to_z")
        if observed is not None:
            axes.plot(
                [at - 0.45, at + 0.45], [max(1 - observed, _PLOT_FLOOR)] * 2, color=QUIET, linewidth=1.2
            )
    for index, objective in enumerate(objectives):
        color = COLORS[index % len(COLORS)]
        axes.plot([], [], "o", color=color, markersize=5, label=str(objective))
        for at, mixing in enumerate(mixings):
            group = grouped(rows, "mixing", "objective").get((mixing, objective), [])
            scored_rows = [(row, r2) for row in group if (r2 := measured(row, "r2")) is not None]
            middle = at + _WIDTH * ((index + 0.5) / len(objectives) - 0.5)
            offsets = np.linspace(-0.25, 0.25, len(scored_rows)) * _WIDTH / len(objectives)
            for (row, r2), offset in zip(scored_rows, offsets, strict=True):
                hollow = row.labels.get("settings") == PUBLISHED
                axes.plot(
                    middle + offset,
                    max(1 - r2, _PLOT_FLOOR),
                    "o",
                    markersize=5.5,
                    markeredgecolor=color,
                    markerfacecolor="white" if hollow else color,
                )
    axes.set_yscale("log")
    plain_axes(axes, "", "", "1 − R²  of z from h")
    axes.set_xticks(range(len(mixings)), labels=[str(mixing) for mixing in mixings], fontsize=9, color=INK)
    axes.tick_params(axis="x", length=0)
    axes.grid(axis="y", color=FRAME, linewidth=0.6)
    axes.set_axisbelow(True)
    if not objectives:
        return figure
    figure.legend(
        loc="outside lower center", ncols=len(objectives) or 1, fontsize=8, frameon=False, labelcolor=INK
    )
    return figure


def planes(rows: Sequence[Row]) -> Figure | None:
    """Latents, observations and embeddings of the run of median R^2 of every mixing and objective.

    The encoders are in the records; None where those are not at hand, as in rows from a file.
    """
    chosen: dict[tuple[Label, Label], Drawn] = {}
    for (mixing, objective), group in grouped(rows, "mixing", "objective").items():
        scored = sorted(
            (row for row in group if measured(row, "r2") is not None), key=lambda row: float(row.scores["r2"])
        )
        loaded = _loaded(scored[len(scored) // 2]) if scored else None
        if loaded is not None:
            chosen[mixing, objective] = loaded
    if not chosen:
        return None
    mixings = list(dict.fromkeys(mixing for mixing, _ in chosen))
    objectives = list(dict.fromkeys(objective for _, objective in chosen))
    figure = Figure(
        figsize=(1.75 * (2 + len(objectives)), 1.8 * len(mixings) + 0.3), dpi=90, layout="constrained"
    )
    panels = figure.subplots(len(mixings), 2 + len(objectives), squeeze=False)
    for line, mixing in zip(panels, mixings, strict=True):
        pairs = [(objective, chosen.get((mixing, objective))) for objective in objectives]
        _line(line, str(mixing), pairs, first=mixing == mixings[0])
    return figure


def _loaded(row: Row) -> Drawn | None:
    """A row with its encoder and world; None where the record is not at hand, or its encoder is lost."""
    if row.path is None:
        return None
    try:
        encoder, world, _ = load_run(row.path)
    except (ValueError, OSError):
        return None
    return row, encoder, world


def _line(line: Sequence[Axes], mixing: str, own: Sequence[tuple[Label, Drawn | None]], first: bool) -> None:
    for axes in line:
        axes.set_xticks([])
        axes.set_yticks([])
        for spine in axes.spines.values():
            spine.set(color=FRAME, linewidth=0.8)
    line[0].set_ylabel(mixing, fontsize=9, color=INK)
    if first:
        names = ["latents z", "observations x", *(str(objective) for objective, _ in own)]
        for axes, name in zip(line, names, strict=True):
            axes.set_title(name, fontsize=9, color=INK)
    is_drawn = False
    for axes, (_, scored) in zip(line[2:], own, strict=True):
        if scored is None:
            axes.set_axis_off()
            continue
        row, encoder, world = scored
        arranged = arrange(**points_in_world(encoder, world), limit=_POINTS)
        if not is_drawn:
            latents, observations = arranged.panels[:2]
            _scatter(line[0], latents.points, arranged.colors, np.zeros(2), _HALF)
            _scatter(line[1], observations.points, arranged.colors, observations.center, observations.half)
            is_drawn = True
        points = arranged.panels[-1].points if arranged.turned is None else arranged.turned
        _scatter(axes, points, arranged.colors, np.zeros(2), _HALF)
        axes.set_xlabel(f"R² {float(row.scores['r2']):.4f}", fontsize=7.5, color=QUIET, labelpad=2)


def _scatter(axes: Axes, points: np.ndarray, colors: np.ndarray, center: np.ndarray, half: float) -> None:
    axes.scatter(points[:, 0], points[:, 1], s=3, c=colors, linewidths=0, rasterized=True)
    axes.set_xlim(center[0] - half, center[0] + half)
    axes.set_ylim(center[1] - half, center[1] + half)
    axes.set_aspect("equal")
