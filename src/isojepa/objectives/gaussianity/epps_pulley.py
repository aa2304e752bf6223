r"""The Epps-Pulley test: weighted distance of characteristic functions, by quadrature or in closed form."""

import math

import numpy as np
import scipy
import torch
from torch import Tensor

from isojepa.arguments import checked
from isojepa.names import unknown
from isojepa.objectives.gaussianity.fused import epps_pulley
from isojepa.objectives.gaussianity.null import Limit, Null
from isojepa.objectives.gaussianity.quadrature import Grid
from isojepa.objectives.gaussianity.statistic import Statistic

QUADRATURES = ("trapezoid", "gauss-hermite")


class EppsPulley(Statistic):
    r"""n \int |phi_n(t) - e^{-t^2/2}|^2 e^{-t^2/(2 sigma^2)} dt, by quadrature, in O(n).

    Value, gradient and curvature are bounded whatever the samples are.

    Args:
        knots: points of the quadrature on the whole line; those with t > 0 are computed.
        t_max: the trapezoid rule's end; Gauss-Hermite quadrature chooses its own.
        sigma: width of the window.
        quadrature: "trapezoid" or "gauss-hermite".
        unbiased: remove the O(1/n) bias of the statistic as an estimate of the distance of laws.

    Example:
        >>> round(EppsPulley()(torch.zeros(100, 1)).item(), 1)  # a point mass
        40.9
    """

    least = 2
    limit_from = 512

    @checked
    def __init__(
        self,
        knots: int = 17,
        t_max: float = 5.0,
        sigma: float = 1.0,
        quadrature: str = "trapezoid",
        unbiased: bool = False,
    ) -> None:
        super().__init__()
        if quadrature not in QUADRATURES:
            raise ValueError(unknown("quadrature", quadrature, QUADRATURES))
        if not 0 < t_max < math.inf:
            raise ValueError(f"t_max must be positive and finite, got {t_max}")
        self.knots, self.t_max, self.sigma = knots, t_max, sigma
        self.quadrature, self.unbiased = quadrature, unbiased
        if quadrature == "trapezoid":
            self.grid = Grid.trapezoid(knots, t_max, sigma)
        else:
            self.grid = Grid.hermite(knots, sigma)

    def _of(self, x: Tensor, n: int) -> Tensor:
        return epps_pulley(x, self.grid, self.unbiased)

    def limit(self, n: int, dim: int) -> Limit:
        """Quadratic form of the Gaussian process that sqrt(n) (phi_n - phi) tends to, at the knots."""
        t, phi, weights = self.grid.table
        minus, plus = (np.exp(-((t[:, None] + sign * t) ** 2) / 2) for sign in (-1, 1))
        root = np.sqrt(np.outer(weights, weights))
        cosines = scipy.linalg.eigh(root * ((minus + plus) / 2 - np.outer(phi, phi)), eigvals_only=True)
        sines = scipy.linalg.eigh(root * (minus - plus) / 2, eigvals_only=True)
        spectrum = np.concatenate((cosines, sines)).clip(min=0)
        return Limit(tuple(spectrum[spectrum > 0]), -spectrum.sum() if self.unbiased else 0.0)

    def extra_repr(self) -> str:
        return (
            f"knots={self.knots}, t_max={self.t_max}, sigma={self.sigma}, "
            f"quadrature={self.quadrature!r}, unbiased={self.unbiased}"
        )


class EppsPulleyExact(Statistic):
    r"""The integral of `EppsPulley` in closed form, in O(n^2).

        sigma sqrt(2 pi)/n sum_jk e^{-sigma^2 (x_j - x_k)^2 / 2}
          - 2 sqrt(2 pi / (1 + sigma^-2)) sum_j e^{-x_j^2 / (2 (1 + sigma^-2))} + n sqrt(2 pi/(2 + sigma^-2))

    Args:
        sigma: width of the window.
        unbiased: leave out the terms j = k, and divide by n - 1 in place of n.
    """

    least = 2
    gathers = True

    @checked
    def __init__(self, sigma: float = 1.0, unbiased: bool = False) -> None:
        super().__init__()
        if not 0 < sigma < math.inf:
            raise ValueError(f"sigma must be positive and finite, got {sigma}")
        self.sigma, self.unbiased = sigma, unbiased

    def _of(self, x: Tensor, n: int) -> Tensor:
        inverse = self.sigma**-2
        difference = x.unsqueeze(-2) - x.unsqueeze(-3)
        pairs = torch.exp(-(self.sigma**2) / 2 * difference**2).sum((-2, -3))
        pairs = (pairs - n) / (n - 1) if self.unbiased else pairs / n
        cross = torch.exp(-(x**2) / (2 * (1 + inverse))).sum(-2)
        return (
            self.sigma * math.sqrt(2 * math.pi) * pairs
            - 2 * math.sqrt(2 * math.pi / (1 + inverse)) * cross
            + n * math.sqrt(2 * math.pi / (2 + inverse))
        )

    def null(self, n: int, dim: int = 1, draws: int | None = None, seed: int = 0) -> Null | Limit:
        """That of the quadrature, which agrees to many digits and is faster to simulate."""
        # a step that resolves the window, and whose period is beyond any two Gaussian samples' distance
        t_max, step = 10 * self.sigma, min(self.sigma / 3, 2 * math.pi / (14 + 8 / self.sigma))
        fine = EppsPulley(2 * math.ceil(t_max / step) + 1, t_max, self.sigma, unbiased=self.unbiased)
        return fine.null(n, dim, draws, seed)

    def extra_repr(self) -> str:
        return f"sigma={self.sigma}, unbiased={self.unbiased}"
