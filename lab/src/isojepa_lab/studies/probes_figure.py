"""The figure of the study of probes: boundaries, estimates, and curves with their theory."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from isojepa.report.colors import INK, QUIET
from isojepa.seeds import generator
from isojepa_lab.studies import probes_linear as linear
from isojepa_lab.studies.probes_linear import ANISO, ISO
from isojepa_lab.studies.results import COLORS, plain_axes

LAW_COLORS = {ISO: COLORS[0], ANISO: COLORS[1]}
MARK: dict[str, Any] = {"markersize": 4.5, "linestyle": "none", "marker": "o", "clip_on": False}


def draw(rows: Sequence[dict[str, Any]], condition: float, samples: int) -> Figure:
    """Nine panels: boundaries of Figure 3 and directions of Figure 18, estimates of Figure 17, three biases.

    Args:
        rows: the numbers of the study.
        condition: eigenvalue ratio of the two-dimensional anisotropic embedding.
        samples: training-set size of what is drawn anew.
    """
    figure = Figure(figsize=(11.6, 11), dpi=77, layout="constrained")
    figure.get_layout_engine().set(hspace=0.05, wspace=0.04)  # type: ignore[union-attr, call-arg]
    panels = figure.subplots(3, 3)
    for axes, law in zip(panels[0], (ISO, ANISO), strict=False):
        _boundaries(axes, law, condition, samples)
    _curves(panels[0, 2], rows, "direction", "cosine", f", n {samples}")
    plain_axes(panels[0, 2], "Direction of the ridge estimate", "Tikhonov weight", "cosine with the truth")
    panels[0, 2].set_ylim(None, 1.005)
    _law_legend(panels[0, 2], "n infinite")
    for axes, task in zip(panels[1], linear.TASKS, strict=True):
        _estimates(axes, task, condition, samples)
    _curves(panels[2, 0], rows, "ridge", "worst task", "")
    _curves(panels[2, 0], rows, "ridge", "random tasks", "", marker="s", dashes=(4, 2))
    plain_axes(panels[2, 0], "Ridge bias: worst ● and random ■ task", "Tikhonov weight", "norm of the bias")
    _law_legend(panels[2, 0], "closed form")
    for axes, probe in zip(panels[2, 1:], ("kernel", "ball"), strict=True):
        _neighbors(axes, rows, probe)
    return figure


def _boundaries(axes: Axes, law: str, condition: float, samples: int) -> None:
    """Forty logistic decision lines, each fitted to its own training set, over one of these sets."""
    eigenvalues = linear.spectrum(2, condition)[law]
    parameter = torch.tensor([1.0, 1.0], dtype=torch.float64) / 2**0.5
    lines = linear.boundaries(0, 0, parameter, eigenvalues, samples, 40)
    points = torch.randn(250, 2, generator=generator(0, "probes", "figure"), dtype=torch.float64)
    points = points * eigenvalues.sqrt()
    side = points @ parameter > 0
    for chosen, color in ((side, COLORS[4]), (~side, COLORS[6])):
        axes.plot(*points[chosen].T, ".", color=color, markersize=3, alpha=0.6)
    for a, b, c in lines.tolist():
        normal = np.array([a, b])
        foot, along = -c * normal / (normal @ normal), np.array([-b, a]) / np.hypot(a, b)
        ends = foot + np.outer([-9, 9], along)
        axes.plot(*ends.T, color=COLORS[3], linewidth=0.7, alpha=0.35)
    axes.set(xlim=(-4, 4), ylim=(-3.4, 3.4), aspect="equal")
    plain_axes(axes, f"40 logistic boundaries, {law}", "first coordinate", "second coordinate")


def _estimates(axes: Axes, task: str, condition: float, samples: int) -> None:
    """A cloud of centered estimates and its ellipse of two standard deviations, per law."""
    for law, eigenvalues in reversed(linear.spectrum(2, condition).items()):
        cloud = linear.estimates(0, task, 0, eigenvalues, samples, 150)
        cloud = cloud - cloud.mean(0)
        axes.plot(*cloud.T, ".", color=LAW_COLORS[law], markersize=2.5, alpha=0.35)
        turn = torch.linspace(0, 2 * torch.pi, 100, dtype=torch.float64)
        circle = torch.stack([turn.cos(), turn.sin()])
        axes.plot(*(2 * torch.linalg.cholesky(cloud.T.cov()) @ circle), color=LAW_COLORS[law], linewidth=1.6)
    axes.set(xlim=(-0.42, 0.42), ylim=(-0.36, 0.4), aspect="equal")
    plain_axes(axes, f"OLS estimates, {task}", "first parameter − mean", "second parameter − mean")
    handles = [Line2D([], [], color=LAW_COLORS[law], label=law) for law in (ISO, ANISO)]
    axes.legend(handles=handles, fontsize=8, frameon=False, loc="upper right")


def _curves(
    axes: Axes,
    rows: Sequence[dict[str, Any]],
    part: str,
    quantity: str,
    suffix: str,
    *,
    marker: str = "o",
    dashes: tuple[float, float] | None = None,
) -> None:
    for law, color in LAW_COLORS.items():
        subset = [
            row
            for row in rows
            if (row["part"], row["quantity"], row["law"]) == (part, quantity, law)
            and row["setting"].endswith(suffix)
        ]
        weights = [float(row["setting"].removesuffix(suffix)) for row in subset]
        line = axes.plot(weights, [row["theory"] for row in subset], color=color, linewidth=1.2)[0]
        if dashes:
            line.set_dashes(dashes)
        axes.plot(weights, [row["value"] for row in subset], color=color, **{**MARK, "marker": marker})
    axes.set_xscale("log")


def _law_legend(axes: Axes, theory: str) -> None:
    handles = [Line2D([], [], color=color, label=law) for law, color in LAW_COLORS.items()]
    handles += [
        Line2D([], [], color=QUIET, label=theory),
        Line2D([], [], color=QUIET, label="measured", **{**MARK, "clip_on": True}),
    ]
    axes.legend(handles=handles, fontsize=8, frameon=False, labelcolor=INK)


def _neighbors(axes: Axes, rows: Sequence[dict[str, Any]], probe: str) -> None:
    """Bias divided by that of the isotropic Gaussian: above one, the Gaussian is better."""
    subset = [row for row in rows if (row["part"], row["quantity"]) == (f"neighbors, {probe}", "bias")]
    base = {row["setting"]: row for row in subset if row["law"] == "Gaussian"}
    axes.axhline(1, color=LAW_COLORS[ISO], linewidth=1.6)
    laws = [law for law in dict.fromkeys(row["law"] for row in subset) if law != "Gaussian"]
    for law, color in zip(laws, (COLORS[1], COLORS[5], COLORS[2], COLORS[4], COLORS[3]), strict=True):
        mine = [row for row in subset if row["law"] == law]
        widths = [float(row["setting"]) for row in mine]
        ratio = [row["value"] / base[row["setting"]]["value"] for row in mine]
        style = "none" if probe == "kernel" else "-"
        axes.plot(widths, ratio, color=color, label=law, **{**MARK, "linestyle": style}, linewidth=1)
        if probe == "kernel":
            exact = [row["theory"] / base[row["setting"]]["theory"] for row in mine]
            axes.plot(widths, exact, color=color, linewidth=1.2)
    axes.set(xscale="log", yscale="log", ylim=(0.4, 9))
    axes.set_yticks([0.5, 1, 2, 4, 8], labels=["0.5", "1", "2", "4", "8"])
    axes.set_xticks([0.1, 0.2, 0.5, 1], labels=["0.1", "0.2", "0.5", "1"])
    axes.minorticks_off()
    name = "Kernel probe (lines: n infinite)" if probe == "kernel" else "Radius k-NN, radius 2h"
    plain_axes(axes, name, "width h", "squared bias / that of the isotropic Gaussian")
    axes.legend(fontsize=8, frameon=False, labelcolor=INK, loc="upper right")
