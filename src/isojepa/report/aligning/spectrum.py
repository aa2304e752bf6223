r"""The spectrum of a map W: is it a rotation?

A rotation with one scale has equal singular values. Told are kappa, the largest by the smallest of those that
are not 0, and |W^T W - I| / |I| (Equation 17 of Social-JEPA), as it is and after W was divided by one scale,
the root of the mean square of its singular values.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from isojepa.report.charts import Chart, Series, scale_for

_LOST = 1e-12  # of the largest singular value, below which one is none
_MAX_STEMS = 48  # values that are drawn as stems
_LINES = 6


@dataclass(frozen=True)
class MapShape:
    """How a map stretches.

    Attributes:
        values: (r,) singular values that are not 0, largest first.
        lost: how many are 0.
        scale: root of their mean square.
        condition: the largest by the smallest.
        distance: |W^T W - I| / |I| over them.
        turned: the same after one scale.
    """

    values: np.ndarray
    lost: int
    scale: float
    condition: float
    distance: float
    turned: float

    @classmethod
    def of(cls, singular_values: Sequence[float] | np.ndarray) -> "MapShape":
        """Of the singular values of W, the largest first.

        Example:
            >>> shape = MapShape.of([2.0, 2.0, 0.0])
            >>> shape.scale, shape.condition, round(shape.distance, 9), shape.turned, shape.lost
            (2.0, 1.0, 3.0, 0.0, 1)
        """
        every = np.asarray(singular_values, dtype=np.float64)
        values = every[every > _LOST * every.max(initial=0.0)]
        if not len(values):
            return cls(values, len(every), 0.0, float("inf"), 1.0, 1.0)
        scale = float(np.sqrt((values**2).mean()))
        return cls(
            values,
            len(every) - len(values),
            scale,
            float(values[0] / values[-1]),
            _distance(values),
            _distance(values / scale),
        )


def spectrum_chart(shapes: Mapping[str, MapShape], levels: Mapping[str, float] | None = None) -> Chart:
    """Singular values by rank, of one map as stems, of several as lines; levels go across."""
    curves = dict(list(shapes.items())[:_LINES])
    count = max(len(shape.values) for shape in curves.values())
    kind = "stems" if len(curves) == 1 and count <= _MAX_STEMS else "dots" if len(curves) == 1 else "line"
    series = [
        Series(name, [*shape.values.tolist(), *[None] * (count - len(shape.values))], kind)
        for name, shape in curves.items()
    ]
    series += [
        Series(name, [level] * count, dashed=k == 0, dotted=k > 0, color=0)
        for k, (name, level) in enumerate((levels or {}).items())
    ]
    every = np.concatenate([shape.values for shape in curves.values()])
    return Chart(
        "spectrum-of-w",
        "Singular values of W",
        "a rotation with one scale has equal ones",
        list(range(1, count + 1)),
        "rank",
        series,
        scale=scale_for(every.tolist()),
        labels=[f"singular value {k}" for k in range(1, count + 1)],
        zero=scale_for(every.tolist()) == "linear",
    )


def _distance(values: np.ndarray) -> float:
    return float(np.linalg.norm(values**2 - 1) / np.sqrt(len(values)))
