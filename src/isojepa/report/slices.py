"""A picture of the least Gaussian directions: what is there, over what N(0, 1) would put there."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from isojepa.certificates.gaussianity import Slice
from isojepa.io import write_whole
from isojepa.report.colors import FRAME, INK, QUIET

_BARS, _LINE = "#9db8d9", "#b8485f"


def write_slices(path: str | Path, worst: Sequence[Slice], title: str) -> None:
    """Write a PNG with a histogram for each direction, worst first.

    Args:
        path: the file to create or replace.
        worst: the directions.
        title: shown above.

    Raises:
        ValueError: there are no directions.
    """
    if not worst:
        raise ValueError("worst must name at least one direction")
    columns = min(3, len(worst))
    rows = -(-len(worst) // columns)
    figure = Figure(
        figsize=(3.1 * columns, 2.35 * rows + 0.6), dpi=150, facecolor="white", layout="constrained"
    )
    figure.suptitle(title.replace("$", r"\$"), fontsize=11, color=INK)
    for index, one in enumerate(worst):
        axes = figure.add_subplot(rows, columns, index + 1)
        reach = float(np.clip(np.abs(one.projections).max(), 3.5, 8.0))
        inside = np.clip(one.projections, -reach, reach)  # what lies beyond is drawn in the last bars
        axes.hist(inside, bins=41, range=(-reach, reach), density=True, color=_BARS)
        grid = np.linspace(-reach, reach, 200)
        axes.plot(grid, np.exp(-(grid**2) / 2) / np.sqrt(2 * np.pi), color=_LINE, linewidth=1.4)
        axes.set_title(
            f"{_heaviest(one.direction)}\nT = {one.statistic:.3g},  p = {one.p:.2g}", fontsize=8, color=INK
        )
        axes.set_yticks([])
        axes.tick_params(labelsize=7, colors=QUIET, length=2)
        for side, spine in axes.spines.items():
            spine.set_visible(side == "bottom")
            spine.set_color(FRAME)
    write_whole(Path(path), FigureCanvasAgg(figure).print_png)


def _heaviest(direction: np.ndarray) -> str:
    """The direction by its largest coordinates."""
    order = np.argsort(-np.abs(direction))
    keep = [i for i in order[:3] if abs(direction[i]) >= 0.1]
    text = " ".join(f"{direction[i]:+.2f} h{i + 1}" for i in keep)
    more = float(np.sum(np.delete(direction, keep) ** 2)) if len(keep) < len(direction) else 0.0
    return (text + " + …" if more > 0.02 else text) or "spread over all dimensions"
