"""Nonlinear probes on embeddings of several laws: what `probes.py` measures of Theorem 1.

The target η is a random stationary field: sums of cosines with frequencies ω ~ N(0, I/ℓ²) and uniform
phases, of variance one. Its gradient is centered and isotropic, E[∇η ∇η'] = I/ℓ², and
E[(Δη)²] = d (d + 2) / ℓ⁴. With a Gaussian kernel of width h, or the mean over a ball of radius r with
r² = (d + 2) h², Lemmas 4 and 5 give one and the same leading order of the integrated squared bias,

    h⁴ ( J(p) / ℓ² + E[(Δη)²] / 4 ),        J(p) = E‖∇ log p‖².

Measured: two predictions from independent training sets err independently around the bias, so the mean of the
product of their errors is the squared bias, without the variance.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import stats
from scipy.special import gamma
from torch import Tensor

from isojepa.seeds import generator

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Law:
    """A law with independent coordinates of one shape, scaled to the eigenvalues of its covariance."""

    shape: Any
    """Centerd law of one coordinate, frozen, of scipy.stats."""
    information: float
    """Fisher information of location times variance; one for the Gaussian, more for all others."""
    eigenvalues: tuple[float, ...] = (1.0, 1.0)

    @property
    def fisher(self) -> float:
        """J(p), infinite where the density jumps."""
        return self.information * sum(1 / value for value in self.eigenvalues)

    def coordinate(self, quantiles: Array, axis: int) -> Array:
        """Coordinates at these quantiles."""
        scale = math.sqrt(self.eigenvalues[axis]) / float(self.shape.std())
        return np.asarray(self.shape.ppf(quantiles)) * scale

    def sample(self, count: int, draw: torch.Generator) -> Tensor:
        """Points; (count, dim)."""
        chance = torch.rand(count, len(self.eigenvalues), generator=draw, dtype=torch.float64)
        quantiles = chance.clamp(1e-15, 1 - 1e-15).numpy()  # zero would be at minus infinity
        axes = range(len(self.eigenvalues))
        return torch.from_numpy(np.stack([self.coordinate(quantiles[:, j], j) for j in axes], axis=1))


LAWS = {
    "Gaussian": Law(stats.norm(), 1.0),
    "anisotropic Gaussian": Law(stats.norm(), 1.0, (1.8, 0.2)),
    "Student, 5 degrees": Law(stats.t(5), 1.25),
    "quartic exp(-x⁴)": Law(stats.gennorm(4), 16 * gamma(7 / 4) * gamma(3 / 4) / gamma(1 / 4) ** 2),
    "Laplace": Law(stats.laplace(), 2.0),
    "uniform": Law(stats.uniform(-0.5, 1.0), math.inf),
}


def leading_order(law: Law, width: float, length: float) -> float:
    """The formula above; infinite for the uniform law, whose density jumps."""
    dim = len(law.eigenvalues)
    return width**4 * (law.fisher / length**2 + dim * (dim + 2) / length**4 / 4)


def population(law: Law, width: float, length: float, nodes: int = 1200) -> float:
    """Integrated squared bias of the Gaussian kernel with infinitely many samples, by quadrature.

    With φ_q(ω) the characteristic function of the kernel's weights around q, the mean over targets of the
    squared bias at q is E_ω |φ_q(ω) - 1|². Law, kernel and frequencies are products over coordinates, hence
    so are the means of |φ|² and of φ.
    """
    points, masses = np.polynomial.legendre.leggauss(nodes)
    quantiles, masses = (points + 1) / 2, masses / 2
    frequencies, weights = np.polynomial.hermite_e.hermegauss(24)
    frequencies, weights = frequencies / length, weights / weights.sum()
    square, mean = 1.0, 1.0
    for axis in range(len(law.eigenvalues)):
        x = law.coordinate(quantiles, axis)
        kernel = np.exp(-((x[:, None] - x[None, :]) ** 2) / (2 * width**2)) * masses
        kernel /= kernel.sum(1, keepdims=True)
        turned = np.exp(1j * np.outer(x, frequencies))
        characteristic = (kernel @ turned) * turned.conj()
        square *= float(masses @ (np.abs(characteristic) ** 2 @ weights))
        mean *= float(masses @ (characteristic.real @ weights))
    return square - 2 * mean + 1


@dataclass(frozen=True)
class Sizes:
    """How much is drawn per seed."""

    samples: int = 4000
    queries: int = 1000
    targets: int = 64
    sets: int = 4
    """Independent training sets; two at least."""
    length: float = 2.0
    """ℓ, the distance over which targets vary; the embedding has variance one."""


def measure(seed: int, law: Law, widths: list[float], sizes: Sizes) -> dict[tuple[str, str, float], float]:
    """Integrated squared bias, and variance from label noise of variance one, of both probes.

    Returns:
        Numbers by quantity ("bias", "noise", "empty": share of queries with an empty ball, answered by the
        nearest sample), probe ("kernel", "ball") and width.
    """
    dim = len(law.eigenvalues)
    draw = generator(seed, "probes", "neighbors")  # the same for all laws: common random numbers
    waves = torch.randn(dim, sizes.targets, 16, generator=draw, dtype=torch.float64) / sizes.length
    phases = 2 * math.pi * torch.rand(sizes.targets, 16, generator=draw, dtype=torch.float64)

    def target(x: Tensor) -> Tensor:
        waved: Tensor = (torch.tensordot(x, waves, 1) + phases).cos().sum(-1) * math.sqrt(2 / 16)
        return waved

    queries = law.sample(sizes.queries, draw)
    truth = target(queries)
    total: dict[tuple[str, float], Tensor] = {}
    scores: dict[tuple[str, float], float] = {}
    numbers: dict[tuple[str, str, float], float] = {}
    for _ in range(sizes.sets):
        x = law.sample(sizes.samples, draw)
        y = target(x)
        distance = torch.cdist(queries, x).square()
        nearest = distance.argmin(1, keepdim=True)
        for width in widths:
            ball = (distance <= (dim + 2) * width**2).double()
            empty = ball.sum(1) == 0
            ball[empty] = ball[empty].scatter(1, nearest[empty], 1.0)
            # softmax: far from all samples the kernel becomes the nearest neighbor instead of 0/0
            kernel = torch.softmax(-distance / (2 * width**2), dim=1)
            for probe, mix in (("kernel", kernel), ("ball", ball / ball.sum(1, keepdim=True))):
                error = mix @ y - truth
                key = (probe, width)
                total[key] = total.get(key, torch.zeros_like(error)) + error
                scores[key] = scores.get(key, 0.0) + error.pow(2).mean().item()
                noise = mix.pow(2).sum(1).mean().item() / sizes.sets
                numbers["noise", probe, width] = numbers.get(("noise", probe, width), 0.0) + noise
            share = empty.double().mean().item() / sizes.sets
            numbers["empty", "ball", width] = numbers.get(("empty", "ball", width), 0.0) + share
    for (probe, width), error in total.items():
        pairs = sizes.sets * (sizes.sets - 1)
        products = error.pow(2).mean().item() - scores[probe, width]
        numbers["bias", probe, width] = products / pairs
    return numbers
