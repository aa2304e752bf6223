"""The figure of the scaling study: 1 - R^2 against the number of latents."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from isojepa.report.colors import FRAME, INK, QUIET
from isojepa.studies.measured import mean
from isojepa.studies.published import read_published
from isojepa.studies.results import COLORS, plain_axes
from isojepa.studies.settings import OURS
from isojepa.studies.study import Row

_LEAST = 1e-7  # of 1 - R^2 that is drawn
_PUBLISHED = {"sigreg": "SIGReg", "vicreg": "whitening", "infonce": "InfoNCE, published width"}


def recovery_figure(cells: Mapping[tuple[Any, ...], Sequence[Row]]) -> Figure:
    """1 - R^2 by method; two panels: objectives of batch statistics, and contrastive ones."""
    figure = Figure(figsize=(10, 5.2), dpi=100, layout="constrained")
    panels = figure.subplots(1, 2, sharex=True, sharey=True)
    methods = list(dict.fromkeys(str(method) for _, method, _ in cells))
    for axes, title, contrastive in zip(
        panels, ("Batch statistics", "Contrastive"), (False, True), strict=True
    ):
        shown = [method for method in methods if method.startswith("InfoNCE") == contrastive]
        _observed(axes, cells)
        for index, method in enumerate(shown):
            color = COLORS[index % len(COLORS)]
            for settings, style in ((OURS, "-"), ("published", "--")):
                points = sorted(
                    (dim, max(1 - r2, _LEAST))
                    for (own, name, dim), rows in cells.items()
                    if own == settings and name == method and (r2 := mean(rows, "r2")) is not None
                )
                if points:
                    label = method if settings == OURS else f"{method}, published settings"
                    axes.plot(
                        *zip(*points, strict=True), style, marker="o", ms=4, lw=1.4, color=color, label=label
                    )
            for kind, name in _PUBLISHED.items():
                if name == method:
                    _published(axes, kind, color)
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(lambda dim, _: f"{dim:g}")
        axes.set_yscale("log")
        plain_axes(axes, title, "latents", "1 − R²  of z from h")
        axes.grid(axis="y", color=FRAME, linewidth=0.6)
        axes.set_axisbelow(True)
        if axes.get_legend_handles_labels()[1]:
            axes.legend(
                fontsize=7.5,
                frameon=False,
                labelcolor=INK,
                loc="upper center",
                bbox_to_anchor=(0.5, -0.14),
                ncols=2,
            )
    return figure


def _observed(axes: Any, cells: Mapping[tuple[Any, ...], Sequence[Row]]) -> None:
    by_dim: dict[int, list[Row]] = {}
    for (_, _, dim), rows in cells.items():
        by_dim.setdefault(dim, []).extend(rows)
    points = sorted(
        (dim, 1 - r2) for dim, rows in by_dim.items() if (r2 := mean(rows, "r2_x_to_z")) is not None
    )
    if points:
        axes.plot(*zip(*points, strict=True), color=QUIET, lw=1, label="observations")


def _published(axes: Any, kind: str, color: str) -> None:
    rows = [row for row in read_published("identifiability_scaling") if row["method"] == kind]
    axes.plot(
        [row["dim"] for row in rows],
        [1 - float(row["r2_h_to_z"] or 0) for row in rows],
        ":",
        color=color,
        lw=1.2,
        label=f"{_PUBLISHED[kind].split(',')[0]}, published",
    )
