"""One picture for a README: latents, observations and embedding side by side, the same points in each."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from isojepa.io import write_whole
from isojepa.report.colors import FRAME, INK, QUIET
from isojepa.report.panels import Panel, Points, arrange

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LIMIT = 6000
_INCHES = (9.0, 3.1)
_DPI = 200
_SIDE = 0.80  # of a panel, as a share of the height
_GAP = 0.062  # between panels, as a share of the width
_MAPS = {("z", "x"): "g", ("x", "h"): "f", ("z", "h"): r"f \circ g"}  # what leads from one panel to the next


def write_picture(
    path: str | Path,
    *,
    latents: Points | None,
    observations: Points | None,
    embeddings: Points,
    title: str,
) -> None:
    """Write a PNG of 1800 x 620 pixels with a square panel for each of z, x and h that is given.

    Points are colored by the latents' polar angle and radius; see `polar_colors`.

    Args:
        path: the file to create or replace.
        latents: (n, d), or None.
        observations: (n, ...), or None.
        embeddings: (n, m); shown as they are when m = 2, after the best rotation when m > 2.
        title: shown above the panels; may be empty.

    Raises:
        ValueError: the arrays differ in length.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # slow to import: only for those who draw
    from matplotlib.figure import Figure

    points = arrange(latents, observations, embeddings, limit=_LIMIT)
    figure = Figure(figsize=_INCHES, dpi=_DPI, facecolor="white")
    canvas = FigureCanvasAgg(figure)
    figure.text(0.5, 0.955, title.replace("$", r"\$"), ha="center", va="center", color=INK, fontsize=10.5)
    count = len(points.panels)
    side = _SIDE * _INCHES[1] / _INCHES[0]  # of a panel, as a share of the width
    left_edge = 0.5 - (count * side + (count - 1) * _GAP) / 2
    for index, panel in enumerate(points.panels):
        axes = figure.add_axes((left_edge + index * (side + _GAP), 0.095, side, _SIDE))
        if panel.symbol == "h" and points.turned is not None and points.prefer_turned:
            panel = replace(panel, points=points.turned, caption=f"{panel.caption} after the best rotation")
        _draw(axes, panel, points.colors)
        if index:
            _arrow(axes, _MAPS[points.panels[index - 1].symbol, panel.symbol], _GAP / side)
    write_whole(Path(path), canvas.print_png)


def _draw(axes: "Axes", panel: Panel, colors: np.ndarray) -> None:
    """One panel: points without ticks, the name below."""
    size = float(np.clip(14_000 / max(len(colors), 1), 2.2, 14))
    axes.scatter(panel.points[:, 0], panel.points[:, 1], s=size, c=colors, alpha=0.85, linewidths=0)
    axes.set_xlim(panel.center[0] - panel.half, panel.center[0] + panel.half)
    axes.set_ylim(panel.center[1] - panel.half, panel.center[1] + panel.half)
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set(color=FRAME, linewidth=0.8)
    below: dict[str, Any] = {"transform": axes.transAxes, "ha": "center", "va": "center"}
    axes.text(0.5, -0.055, f"{panel.name}  ${panel.symbol}$", color=INK, fontsize=9, **below)
    axes.text(0.5, -0.1, panel.caption, color=QUIET, fontsize=5.5, **below)


def _arrow(axes: "Axes", name: str, gap: float) -> None:
    """An arrow from the panel on the left, with the name of the map it stands for; gap in panel widths."""
    style = {"arrowstyle": "-|>,head_width=0.18,head_length=0.35", "color": QUIET, "linewidth": 0.9}
    axes.annotate("", (-0.18 * gap, 0.5), (-0.82 * gap, 0.5), xycoords="axes fraction", arrowprops=style)
    axes.text(-0.5 * gap, 0.54, f"${name}$", transform=axes.transAxes, ha="center", color=QUIET)
