"""What was watched, for people: a line, a table, a picture."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from isojepa.files import write_whole
from isojepa.terminal import aligned

_COLUMNS = {
    "step": "step",
    "effective_rank": "effective rank",
    "gaussianity": "gaussianity",
    "gaussianity_p": "p",
    "disagreement": "disagreement",
    "alignment": "alignment",
    "mean_variance": "mean variance",
}


def line_of(name: str, row: Mapping[str, float], dim: int) -> str:
    """One measurement in a line.

    Example:
        >>> row = {"step": 100, "effective_rank": 7.9, "gaussianity": 1.25, "gaussianity_p": 0.2}
        >>> line_of("watch", row, 8)
        'watch: step 100, effective rank 7.9 of 8, gaussianity 1.25 (p 0.2)'
    """
    parts = [f"step {row['step']:.0f}"]
    if _known(row, "effective_rank"):
        parts.append(f"effective rank {row['effective_rank']:.3g} of {dim}")
    if _known(row, "gaussianity"):
        parts.append(f"gaussianity {row['gaussianity']:.3g} (p {row['gaussianity_p']:.2g})")
    if _known(row, "disagreement"):
        parts.append(f"alignment {row['alignment']:.3g} (views disagree by {row['disagreement']:.2g})")
    if row.get("nonfinite", 0.0) > 0:
        parts.append(f"{100 * row['nonfinite']:.3g} % of the rows NaN or Inf")
    return f"{name}: {', '.join(parts)}"


def table_of(rows: Sequence[Mapping[str, float]]) -> str:
    """All measurements as lines of columns; those that were never known are left out."""
    keys = [key for key in _COLUMNS if key == "step" or any(_known(row, key) for row in rows)]
    cells = [[_COLUMNS[key] for key in keys]]
    for row in rows:
        cells.append([f"{row[key]:.0f}" if key == "step" else _number(row[key]) for key in keys])
    return "\n".join(aligned(cells))


def draw(rows: Sequence[Mapping[str, float]], path: str | Path, title: str) -> Path:
    """Write a picture of the numbers over the steps; what was never known is left out.

    Args:
        rows: measurements.
        path: a PNG, PDF or SVG file.
        title: above it.
    """
    from matplotlib.figure import Figure  # without pyplot: no global state, no screen

    keys = [key for key in _COLUMNS if key != "step" and any(_known(row, key) for row in rows)]
    figure = Figure(figsize=(4 * max(1, min(3, len(keys))), 2.6 * max(1, math.ceil(len(keys) / 3))))
    for place, key in enumerate(keys, 1):
        axes: Any = figure.add_subplot(math.ceil(len(keys) / 3), min(3, len(keys)), place)
        axes.plot([row["step"] for row in rows], [row[key] for row in rows], marker=".")
        axes.set_title(_COLUMNS[key], fontsize=9)
        axes.set_xlabel("step", fontsize=8)
    figure.suptitle(title)
    figure.tight_layout()
    kind = Path(path).suffix.removeprefix(".") or "png"
    write_whole(Path(path), lambda half: figure.savefig(half, format=kind))
    return Path(path)


def _known(row: Mapping[str, float], key: str) -> bool:
    return not math.isnan(row.get(key, math.nan))


def _number(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.4g}"
