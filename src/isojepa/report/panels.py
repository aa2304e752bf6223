"""What the picture and the page both show: the same points as latents, as observations and as embeddings.

A panel is a square with two coordinates. Data of more dimensions show their first two, observations of very
many, such as images, their first two principal components; data of one dimension are spread upwards in the
order of the samples. The embedding also comes turned onto the latents by the best rotation
h -> (h - c) Q + o (orthogonal Procrustes) where both have one number of dimensions. With few samples for so
many dimensions a rotation fits any points, so it is then fitted on other samples than are shown.

A square holds the central 99 % of the points and 1.6 times as much room; what lies further out is counted.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
import torch

from isojepa.linear import LinearMap, procrustes
from isojepa.report.colors import polar_colors

_MARGIN = 1.06  # empty border around the points
_CENTRAL, _ROOM = 0.99, 1.6  # share of the points, and how much further a square reaches
_MANY = 32  # coordinates of an observation from which two of them say nothing
_MIN_SAMPLES_PER_DIM = 50  # samples per dimension from which a rotation may be fitted on those that are shown

Points = np.ndarray | torch.Tensor


@dataclass(frozen=True)
class Panel:
    """One square of points.

    Attributes:
        name: what is shown, e.g. "latents".
        symbol: z, x or h.
        dim: of the data; more than two are not all shown.
        caption: what a reader must know to read it; may be empty.
        points: (n, 2).
        center: (2,) middle of the square.
        half: half its side.
        joined: (m, 4) lines to draw, from (x, y) to (x, y); None without.
    """

    name: str
    symbol: str
    dim: int
    caption: str
    points: np.ndarray
    center: np.ndarray
    half: float
    joined: np.ndarray | None = None


@dataclass(frozen=True)
class Panels:
    """Every panel there is data for; the embedding's is the last.

    Attributes:
        panels: in the order latents, observations, embedding.
        colors: (n, 3), by the latents' angle and radius, or the embedding's own without latents.
        turned: (n, 2) the embedding turned onto the latents; None where no rotation relates them.
        rotation: the map that turned it.
        prefer_turned: whether the turned embedding is the one to show first.
        left_out: how many samples were dropped for holding NaN or Inf.
        outside: how many of the points lie outside a square.
        held_out: whether the rotation was fitted on samples that are not shown.
    """

    panels: tuple[Panel, ...]
    colors: np.ndarray
    turned: np.ndarray | None
    rotation: LinearMap | None
    prefer_turned: bool
    left_out: int
    outside: int = 0
    held_out: bool = False


def arrange(latents: Points | None, observations: Points | None, embeddings: Points, *, limit: int) -> Panels:
    """Choose the points and lay them out.

    Args:
        latents: (n, d), or None when they are not known.
        observations: (n, ...), flattened to (n, features); or None.
        embeddings: (n, m).
        limit: most points to show; beyond it they are taken at even distances.

    Raises:
        ValueError: the three differ in length.
    """
    z = None if latents is None else _rows(latents)
    x = None if observations is None else _rows(observations)
    h = _rows(embeddings)
    named = (("latents", "z", z), ("observations", "x", x), ("embedding", "h", h))
    rows_by_name = [(name, symbol, rows) for name, symbol, rows in named if rows is not None]
    for name, _, rows in rows_by_name:
        if len(rows) != len(h):
            raise ValueError(f"embeddings and {name} must have equal lengths, got {len(h)} and {len(rows)}")
    usable = np.flatnonzero(np.logical_and.reduce([np.isfinite(rows).all(1) for *_, rows in rows_by_name]))
    rotation, held_out, total = None, False, len(usable)
    if z is not None and z.shape[1] == h.shape[1] and len(usable) > 1:
        held_out = 4 <= len(usable) < _MIN_SAMPLES_PER_DIM * h.shape[1]
        fit, usable = (usable[::2], usable[1::2]) if held_out else (usable, usable)
        rotation = procrustes(h[fit], z[fit])
    count = min(limit, len(usable))
    indices = usable[np.linspace(0, len(usable) - 1, count).round().astype(int)] if count else usable
    colors = polar_colors(h[indices] if z is None else z[indices])
    panels = [_panel(name, symbol, rows[indices]) for name, symbol, rows in rows_by_name]
    turned = None
    if rotation is not None:
        turned = _spread(rotation(h[indices]))
        panels = _with_one_scale(panels, turned)
    return Panels(
        panels=tuple(panels),
        colors=colors,
        turned=turned,
        rotation=rotation,
        prefer_turned=rotation is not None and h.shape[1] > 2,
        left_out=len(h) - total,
        outside=outside(panels, turned),
        held_out=held_out,
    )


def _rows(values: Points) -> np.ndarray:
    """(n, features) in float64."""
    array = torch.as_tensor(values).detach().to("cpu", torch.float64).numpy()
    return array.reshape(len(array), math.prod(array.shape[1:]))


def _panel(name: str, symbol: str, rows: np.ndarray) -> Panel:
    dim = rows.shape[1]
    caption = ""
    if symbol == "x" and dim >= _MANY and len(rows) > 2:
        caption = f"first 2 principal components of {dim} coordinates"
        rows = _principal(rows)
    elif dim > 2:
        caption = f"first 2 of {dim} coordinates"
    elif dim == 1:
        caption = "one coordinate, across; samples in order, upwards"
    points = _spread(rows)
    center, half = square(points)
    return Panel(name, symbol, dim, caption, points, center, half)


def _spread(rows: np.ndarray) -> np.ndarray:
    """The first two coordinates; a single one is spread upwards by the index, as far as it reaches across."""
    if rows.shape[1] > 1:
        return rows[:, :2]
    reach = float(np.ptp(rows)) / 2 if len(rows) else 0.0
    return np.column_stack((rows[:, 0], np.linspace(-reach, reach, len(rows))))


def _principal(rows: np.ndarray) -> np.ndarray:
    """(n, 2) coordinates along the directions of most variance."""
    centered = rows - rows.mean(0)
    if len(rows) > rows.shape[1]:
        return np.asarray(centered @ np.linalg.eigh(centered.T @ centered)[1][:, :-3:-1])
    values, vectors = np.linalg.eigh(centered @ centered.T)
    return np.asarray(vectors[:, :-3:-1] * np.sqrt(np.maximum(values[:-3:-1], 0.0)))


def square(points: np.ndarray) -> tuple[np.ndarray, float]:
    """Center and half side of the square around points, without those far from all others."""
    if not len(points):
        return np.zeros(2), 1.0
    low, high = np.quantile(points, [(1 - _CENTRAL) / 2, (1 + _CENTRAL) / 2], axis=0)
    room = (_ROOM - 1) / 2 * (high - low)
    low, high = np.maximum(low - room, points.min(0)), np.minimum(high + room, points.max(0))
    half = float((high - low).max()) / 2 * _MARGIN
    return (low + high) / 2, half if half > 0 else 1.0


def outside(panels: list[Panel], turned: np.ndarray | None) -> int:
    """How many points some panel does not show, turned or not."""
    visible = [(panel, panel.points) for panel in panels]
    if turned is not None:
        visible.append((panels[-1], turned))
    far = [(np.abs(points - panel.center) > panel.half).any(1) for panel, points in visible]
    return int(np.logical_or.reduce(far).sum())


def _with_one_scale(panels: list[Panel], turned: np.ndarray) -> list[Panel]:
    """Give the latents and the embedding, turned or not, one square, so that they can be compared."""
    shared = [panel for panel in panels if panel.symbol != "x"]
    center, half = square(np.concatenate([turned, *(panel.points for panel in shared)]))
    return [panel if panel.symbol == "x" else replace(panel, center=center, half=half) for panel in panels]
