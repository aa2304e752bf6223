r"""Quadrature of the Epps-Pulley statistic, and its powers as tensor operations.

Where the characteristic function is compared, and with what weight.

The Epps-Pulley statistic is an integral of an even function against a Gaussian window,

    \int f(t) e^{-t^2 / (2 sigma^2)} dt,        f(-t) = f(t),  f(0) = 0,

so that the knots t > 0 suffice, each standing for its mirror image too.

Powers of unit complex numbers by tensor operations: on any device, in any precision, with a graph.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


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


class TensorPowers:
    """e^{i t p} at the knots of a grid: powers of e^{i step p} where the knots are equally spaced.

    Args:
        p: (..., batch, slices) projections.
        grid: the knots t.

    Example:
        >>> powers = TensorPowers(torch.zeros(5, 2), Grid.trapezoid(17, 5.0))
        >>> powers.sums().shape  # cosines and sines, slices, positive knots
        torch.Size([2, 2, 8])
        >>> powers.series(torch.ones(2, 8), torch.zeros(2, 8))[0]
        tensor([8., 8.])
    """

    def __init__(self, p: Tensor, grid: Grid) -> None:
        self.p, self.grid = p, grid
        self.first = torch.cos(grid.first * p), torch.sin(grid.first * p)
        self.step = self.first
        if grid.halved and grid.step is not None:
            self.step = torch.cos(grid.step * p), torch.sin(grid.step * p)

    def sums(self) -> Tensor:
        """(2, ..., slices, half) sums of cosines and of sines over the batch."""
        return torch.stack([torch.stack((c.sum(-2), s.sum(-2))) for c, s in self._up()], -1)

    def series(self, re: Tensor, im: Tensor) -> Tensor:
        """Re( sum_j (re_j + i im_j) e^{i t_j p} ); by Horner's rule where the knots are equally spaced.

        Args:
            re, im: (..., slices, half) coefficients, the same for every sample.

        Returns:
            As p.
        """
        re, im = re.unsqueeze(-3), im.unsqueeze(-3)
        if self.grid.step is None:
            terms = (c * re[..., j] - s * im[..., j] for j, (c, s) in enumerate(self._up()))
            return sum(terms, torch.zeros_like(self.p))
        wc, ws = self.step
        c, s = re[..., -1].expand_as(self.p), im[..., -1].expand_as(self.p)
        for j in range(len(self.grid.t) - 2, -1, -1):
            c, s = (
                torch.addcmul(torch.addcmul(re[..., j], c, wc), s, ws, value=-1),
                torch.addcmul(torch.addcmul(im[..., j], c, ws), s, wc),
            )
        return c * self.first[0] - s * self.first[1]

    def _up(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Real and imaginary part, knot by knot."""
        if self.grid.step is None:
            for t in self.grid.t:
                yield torch.cos(float(t) * self.p), torch.sin(float(t) * self.p)
            return
        c, s = self.first
        yield c, s
        wc, ws = self.step
        for _ in self.grid.t[1:]:
            c, s = torch.addcmul(c * wc, s, ws, value=-1), torch.addcmul(c * ws, s, wc)
            yield c, s
