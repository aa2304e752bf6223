r"""Where the characteristic function is compared, and with what weight.

The Epps-Pulley statistic is an integral of an even function against a Gaussian window,

    \int f(t) e^{-t^2 / (2 sigma^2)} dt,        f(-t) = f(t),  f(0) = 0,

so that the knots t > 0 suffice, each standing for its mirror image too.
"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Grid:
    """The knots of the positive half line.

    Attributes:
        table: (3, half) the knots t; phi(t) = e^{-t^2/2}; and the weight of the quadrature, window included,
            doubled for the negative half.
        step: distance of knots, or None when they are not equally spaced.
    """

    table: np.ndarray
    step: float | None

    @classmethod
    def trapezoid(cls, knots: int, t_max: float, sigma: float = 1.0) -> "Grid":
        """Knots of the trapezoid rule on [-t_max, t_max]; an odd number includes t = 0.

        Raises:
            ValueError: fewer than 2 knots, or t_max or sigma not positive.
        """
        knots = _check(knots, sigma)
        if not 0 < t_max < float("inf"):
            raise ValueError(f"t_max must be positive and finite, got {t_max}")
        step = 2 * t_max / (knots - 1)
        t = (step if knots % 2 else step / 2) + step * np.arange(knots // 2)
        weights = 2 * step * np.exp(-(t**2) / (2 * sigma**2))
        weights[-1] /= 2
        return cls(np.stack((t, np.exp(-(t**2) / 2), weights)), float(step))

    @classmethod
    def hermite(cls, knots: int, sigma: float = 1.0) -> "Grid":
        """Knots of Gauss-Hermite quadrature, exact for polynomials of degree up to 2 knots - 1.

        Raises:
            ValueError: fewer than 2 or more than 256 knots, or sigma not positive.
        """
        knots = _check(knots, sigma)
        if knots > 256:  # the weights of the outer knots fall below the smallest float64
            raise ValueError(f"knots must be at most 256 for Gauss-Hermite quadrature, got {knots}")
        nodes, weights = np.polynomial.hermite_e.hermegauss(knots)
        positive = nodes > 1e-12
        t = sigma * nodes[positive]
        return cls(np.stack((t, np.exp(-(t**2) / 2), 2 * sigma * weights[positive])), None)

    @property
    def t(self) -> np.ndarray:
        """(half,) the positive knots."""
        knots: np.ndarray = self.table[0]
        return knots

    @property
    def first(self) -> float:
        """The first positive knot."""
        return float(self.table[0, 0])

    @property
    def halved(self) -> bool:
        """Whether the first knot is half a step: an even number of equally spaced knots on the line."""
        return self.step is not None and self.first < 0.75 * self.step


def _check(knots: int, sigma: float) -> int:
    if int(knots) != knots or knots < 2:
        raise ValueError(f"knots must be an integer of at least 2, got {knots}")
    if not 0 < sigma < float("inf"):
        raise ValueError(f"sigma must be positive and finite, got {sigma}")
    return int(knots)
