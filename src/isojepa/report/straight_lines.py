"""Straight lines in latents and in embeddings as a figure, for any encoders.

Figure planning_scatter of Klindt, LeCun & Balestriero (2026).

Columns: the latents, then each encoder. Rows: states coloured by the polar angle of their latents; lines
that are straight in the latents, seen in the embedding; lines that are straight in the embedding, decoded
to latents, with the straight ones dashed. Embeddings of more than two columns are shown along their two
principal axes.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from isojepa.plan.decoders import library, make_decoder
from isojepa.plan.lines import Comparison, LineSpec, measure_lines
from isojepa.report.charts import Chart, with_intervals
from isojepa.report.colors import COLORS, FRAME, INK, QUIET, polar_colors
from isojepa.report.drawing import plain_axes

_SHOWN = 3_000  # states
_ROWS = ("states", "straight in the latents", "straight in the embedding,\ndecoded to latents")


def draw_straight_lines(
    encoders: Mapping[str, Any],
    latents: Any,
    pairs: Any,
    spec: LineSpec | None = None,
    seen: Mapping[str, np.ndarray] | None = None,
) -> Figure:
    """Draw the figure.

    Args:
        encoders: name -> embeddings (n, d) of the library's states.
        latents: (n, dim), of which the first two columns are shown.
        pairs: (K, 2) rows of start and goal; a few.
        spec: how lines are decoded.
        seen: name -> (K, T + 1, d) embeddings of states made along the straight lines in latents; without,
            they are found by local regression on the library.

    Raises:
        ValueError: rows do not match, latents or an embedding have one column, or see `measure_lines`.
    """
    spec = replace(LineSpec() if spec is None else spec, least_chord=0.0)  # what is named is drawn
    columns = {"latents": latents, **encoders}
    figure = Figure(figsize=(3.0 * len(columns) + 0.4, 9.2), dpi=100, layout="constrained", facecolor="white")
    places = figure.subplots(3, len(columns), squeeze=False)
    for (name, embeddings), column in zip(columns.items(), places.T, strict=True):
        rows, truth = library(embeddings, latents)
        if min(rows.shape[1], truth.shape[1]) < 2:
            raise ValueError(
                f"latents and the embedding of {name!r} must have at least 2 columns to be shown"
            )
        lines = measure_lines(rows, truth, pairs, spec)
        t = np.linspace(0.0, 1.0, spec.steps + 1)[:, None]
        chords = (1 - t) * truth[lines.pairs[:, :1]] + t * truth[lines.pairs[:, 1:]]
        if seen is not None and name in seen:
            curves = np.asarray(seen[name], dtype=np.float64)
        else:
            back = make_decoder("local", truth, rows)
            curves = back(chords.reshape(-1, truth.shape[1])).reshape(*chords.shape[:2], -1)
        centre, axes = _plane(rows)
        some = np.linspace(0, len(rows) - 1, min(_SHOWN, len(rows))).astype(int)
        colors = polar_colors(truth[some])
        for place, cloud in zip(column, (rows, rows, truth), strict=True):
            flat = cloud[some, :2] if cloud is truth else (cloud[some] - centre) @ axes
            alpha, size = (0.85, 5) if place is column[0] else (0.16, 4)
            place.scatter(flat[:, 0], flat[:, 1], s=size, c=colors, alpha=alpha, linewidths=0)
            _quiet(place)
        _paths(column[1], (curves - centre) @ axes)
        _paths(column[2], lines.paths[..., :2], chords[..., :2])
        column[0].set_title(name, fontsize=11, color=INK)
        column[2].set_xlabel(f"length over chord {lines.length.estimate:.3f}", fontsize=9, color=QUIET)
    for row, words in zip(places, _ROWS, strict=True):
        row[0].set_ylabel(words, fontsize=10, color=INK)
    return figure


def density_chart(curves: Mapping[str, Mapping[int, Comparison]]) -> Chart:
    """Error of decoded lines against the size of the library, for each encoder and the oracle.

    Args:
        curves: name -> what `density_curve` gives, all of the same sizes.
    """
    sizes = sorted({size for curve in curves.values() for size in curve})
    found = {name: {size: one.encoder.error for size, one in curve.items()} for name, curve in curves.items()}
    found["oracle"] = {size: one.oracle.error for curve in curves.values() for size, one in curve.items()}
    series = [
        replace(with_intervals(name, [errors[size] for size in sizes]), kind="line")
        for name, errors in found.items()
    ]
    series[-1] = replace(series[-1], dashed=True, color=0, ends=None)  # a rotation lies on it
    return Chart(
        "line-density",
        "Decoded lines and the library",
        "",
        sizes,
        "states in the library",
        series,
        scale="log",
        across_scale="log",
        up="mean distance to the straight line's point",
    )


def _plane(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Origin (d,) and two axes (d, 2): columns as they are, or the two principal ones."""
    if rows.shape[1] == 2:
        return np.zeros(2), np.eye(2)
    centre = rows.mean(0)
    _, vectors = np.linalg.eigh(np.cov(rows, rowvar=False))
    return centre, vectors[:, ::-1][:, :2]


def _quiet(axes: Axes) -> None:
    """Equal units both ways, no ticks, a light frame."""
    plain_axes(axes)
    axes.set_aspect("equal", adjustable="datalim")
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set(color=FRAME, linewidth=0.8, visible=True)


def _paths(axes: Axes, paths: np.ndarray, chords: np.ndarray | None = None) -> None:
    """Lines (K, T + 1, 2) from a ring to a dot."""
    for index, path in enumerate(paths):
        color = COLORS[index % len(COLORS)]
        if chords is not None:
            axes.plot(*chords[index].T, "--", lw=1.0, color=QUIET)
        axes.plot(*path.T, "-", lw=1.3, color=color, marker=".", ms=3)
        axes.plot(*path[0], "o", ms=5, mfc="white", mec=color, mew=1.4)
        axes.plot(*path[-1], "o", ms=5, color=color)
