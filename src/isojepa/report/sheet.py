"""A sheet of views: each picture with the crops that training would cut from it, as a figure.

Colors are those that an encoder gets, before normalization. On the picture the boxes of its views are
outlined, each in the color of the view's frame.
"""

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from isojepa.data.images.views import Deferred
from isojepa.report.colors import INK, QUIET

_CELL = 1.25  # inches
_TITLE = 0.45


def draw_sheet(drawn: Deferred, title: str = "", names: tuple[str, ...] = ()) -> Figure:
    """Draw pictures and their views: a row for each picture, a column for each view.

    Args:
        drawn: pictures and what was drawn for them, as `Images.defer` gives them.
        title: above everything.
        names: of the classes that labels count.

    Raises:
        ValueError: there are no pictures.
    """
    if not len(drawn):
        raise ValueError("pictures must be one at least, got none")
    settings = drawn.views
    views = drawn.made()
    across, down = 1 + len(views), len(drawn)
    figure = Figure(figsize=(across * _CELL, down * _CELL + _TITLE), dpi=150, layout="constrained")
    if title:
        figure.suptitle(title, fontsize=8, color=QUIET)
    places = figure.subplots(down, across, squeeze=False)
    colors = [to_hex(colormaps["tab10"](view % 10)) for view in range(len(views))]
    for row in range(down):
        axes = places[row, 0]
        _show(axes, drawn.images[row].float() / 255)
        if drawn.labels is not None and names:
            axes.set_ylabel(names[int(drawn.labels[row])], fontsize=6, color=QUIET)
        for view, pixels in enumerate(views):
            top, left_edge, height, width = drawn.draws.boxes[row, view].tolist()
            local = view >= settings.global_views
            axes.add_patch(
                Rectangle(
                    (left_edge - 0.5, top - 0.5),
                    width,
                    height,
                    fill=False,
                    edgecolor=colors[view],
                    linewidth=0.9,
                    linestyle="-" if local else "--",
                )
            )
            cell = places[row, 1 + view]
            _show(cell, _seen(pixels[row], settings.mean, settings.std), colors[view])
            if row == 0:
                kind = "local" if local else "global"
                cell.set_title(f"{kind} {settings.sizes[view]}", fontsize=7, color=INK)
    places[0, 0].set_title("picture", fontsize=7, color=INK)
    return figure


def _seen(view: Tensor, mean: tuple[float, ...] | None, std: tuple[float, ...] | None) -> Tensor:
    """A view (channels, height, width) as it was before it was normalized."""
    if mean is None or std is None:
        return view
    return view * view.new_tensor(std)[:, None, None] + view.new_tensor(mean)[:, None, None]


def _show(axes: Axes, pixels: Tensor, color: str | None = None) -> None:
    axes.imshow(
        np.clip(pixels.movedim(0, -1).expand(-1, -1, 3).numpy(), 0, 1),  # grey is three equal channels
        interpolation="nearest",
        aspect="equal",
    )
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_visible(color is not None)
        if color is not None:
            spine.set_color(color)
            spine.set_linewidth(1.2)
