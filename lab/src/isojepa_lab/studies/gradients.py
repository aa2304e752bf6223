r"""How large can the gradient of each test become, and is the Epps-Pulley bound ever reached?

Theorem 4 of the LeJEPA paper bounds gradient and curvature of the Epps-Pulley statistic; Section 4.2.1 says
that the gradients of moments explode. With w(t) = e^{-t^2/(2 sigma^2)} and T = n \int |phi_n - phi|^2 w dt,

    dT/dx_i = 2 \int t Re( i (phi_n - phi)^*(t) e^{i t x_i} ) w(t) dt,

and |phi_n - phi| <= 2, so |dT/dx_i| <= 4 \int |t| w dt = 8 sigma^2. (The paper leaves out the factor n and
writes w = e^{-t^2/sigma^2}, which gives its 4 sigma^2/n.) With |phi_n - phi| <= 1 + phi it is
4 sigma^2 + 4 s^2, s^2 = sigma^2/(1 + sigma^2). From the closed form,

    dT/dx_i = 2 sqrt(2 pi) ( s^3 x_i e^{-s^2 x_i^2/2} - sigma^3/n sum_j d_ij e^{-sigma^2 d_ij^2/2} ),

d_ij = x_i - x_j, whose terms are largest at d = -1/sigma and x = 1/s, all at once: the supremum is
2 sqrt(2 pi/e) (sigma^2 + s^2). The same for d^2T/dx_i^2 gives the bound 2 sqrt(2 pi) (sigma^3 + s^3) and the
supremum 2 sqrt(2 pi) (sigma^3 + 2 e^{-3/2} s^3).

    python -m isojepa_lab.studies.gradients [--out docs/results]

One thread; under a minute.
"""

import math
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import tyro
from torch import Tensor

from isojepa.objectives.gaussianity import UNIVARIATE, EppsPulley, EppsPulleyExact, Moments, Statistic
from isojepa.objectives.gaussianity.univariate import normal_moment
from isojepa.seeds import generator
from isojepa.terminal import Console
from isojepa_lab.studies.gradients_figure import draw
from isojepa_lab.studies.gradients_page import page
from isojepa_lab.studies.results import write_figure, write_results

Row = dict[str, Any]

MAGNITUDES = (1.0, 3.0, 10.0, 30.0, 100.0, 1e3, 1e4)


@dataclass(frozen=True)
class Bounds:
    """Largest |dT/dx_i| and |d^2T/dx_i^2| of the Epps-Pulley statistic, whatever the samples are.

    Attributes:
        plain: from |phi_n - phi| <= 2.
        sharper: from |phi_n - phi| <= 1 + phi.
        supremum: approached as n grows, from the closed form.
        curvature: from |phi_n - phi| <= 1 + phi.
        curvature_supremum: approached as n grows.
    """

    plain: float
    sharper: float
    supremum: float
    curvature: float
    curvature_supremum: float


def bounds(sigma: float = 1.0) -> Bounds:
    """The constants of the module's docstring."""
    s2 = sigma**2 / (1 + sigma**2)
    root = math.sqrt(2 * math.pi)
    return Bounds(
        plain=8 * sigma**2,
        sharper=4 * sigma**2 + 4 * s2,
        supremum=2 * root * math.exp(-0.5) * (sigma**2 + s2),
        curvature=2 * root * (sigma**3 + s2**1.5),
        curvature_supremum=2 * root * (sigma**3 + 2 * math.exp(-1.5) * s2**1.5),
    )


def gradient(test: Statistic, x: Tensor) -> Tensor:
    """dT/dx of samples (n, slices), of the same shape."""
    x = x.detach().requires_grad_()
    return torch.autograd.grad(test.statistic(x).sum(), x)[0]


def curvature(test: Statistic, x: Tensor, step: float = 1e-4) -> Tensor:
    """d^2T/dx_1^2 of the first sample of each slice, by differences of the gradient: (slices,)."""
    moved = torch.zeros_like(x)
    moved[0] = step
    return (gradient(test, x + moved)[0] - gradient(test, x - moved)[0]) / (2 * step)


@dataclass
class Study:
    """Measure gradients of all tests, search for the largest, and write page and figure."""

    out: Path = Path("docs/results")
    """Folder of the page, its numbers and its figure."""
    samples: int = 128
    """Size of a sample."""
    repeats: int = 20
    """Samples per magnitude."""
    searches: int = 12
    """Starts of the search for the largest gradient."""
    steps: int = 300
    """Steps of gradient ascent."""
    sigmas: tuple[float, ...] = (0.5, 1.0, 2.0)
    """Windows to search with."""
    orders: int = 8
    """Highest moment."""
    draws: int = 1_000_000
    """Gaussian numbers for the variance of the gradients of moments."""

    def run(self) -> None:
        """Write gradients.json, gradients.md and gradients.png."""
        torch.set_num_threads(1)
        start, console = time.perf_counter(), Console()
        rows = [self.sweep(name, kind) for kind in ("outlier", "scale") for name in self.tests()]
        console.print(f"{len(rows)} sweeps of outliers and scales")
        for sigma in self.sigmas:
            for kind in ("gradient", "curvature"):
                row = self.search(sigma, kind)
                rows.append(row)
                console.print(
                    f"sigma {sigma:g} {kind:<10} largest {row['largest']:.4f}, bound {row['bound']:.4f}"
                )
        rows += [self.moment(k) for k in range(1, self.orders + 1)]
        console.print(f"moments up to {self.orders}")
        write_figure(self.out / "gradients.png", draw(rows, bounds().plain))
        seconds = time.perf_counter() - start
        settings = {key: value for key, value in asdict(self).items() if key != "out"}
        text = page(rows, settings)
        write_results(self.out, "gradients", rows=rows, text=text, settings=settings, seconds=seconds)
        console.print(f"{self.out / 'gradients.md'}  {seconds:.0f} s")

    def tests(self) -> dict[str, Statistic]:
        """All univariate tests, and moments of several orders."""
        made = {name: make() for name, make in UNIVARIATE.items()}
        return made | {f"moments, order {k}": Moments(k) for k in (2, 6, 8)}

    def sweep(self, name: str, kind: str) -> Row:
        """Largest gradient, and the one on the outlier, as one sample or all of them move out."""
        test = self.tests()[name]
        source = generator(0, "gradients", kind)
        largest, pull, not_finite = [], [], 0
        for magnitude in MAGNITUDES:
            x = torch.randn(self.samples, self.repeats, generator=source, dtype=torch.float64)
            if kind == "outlier":
                x[0] = magnitude
            else:
                x = magnitude * x
            slope = gradient(test, x)
            not_finite += int((~torch.isfinite(slope)).sum())
            largest.append(float(slope.abs().max()))
            pull.append(float(slope[0].mean()))
        return {
            "part": kind,
            "test": name,
            "magnitudes": MAGNITUDES,
            "largest": largest,
            "pull": pull,
            "growth": math.log10(max(largest[-1], 1e-300) / max(largest[-2], 1e-300)),
            "not_finite": not_finite,
        }

    def search(self, sigma: float, kind: str) -> Row:
        """The largest gradient or curvature of the first sample that gradient ascent finds, from many starts.

        The ascent follows the closed form, which has second derivatives; what it finds is then checked on the
        statistic with 17 knots as well.
        """
        source = generator(0, "gradients", "search", kind)
        start = torch.randn(self.samples, self.searches, generator=source, dtype=torch.float64)
        x = (start * torch.linspace(0.1, 6, self.searches, dtype=torch.float64)).requires_grad_()
        test = EppsPulleyExact(sigma)
        optimizer = torch.optim.Adam([x], lr=0.05)
        best, worst_x = torch.tensor(0.0), x.detach()
        for _ in range(self.steps):
            value = _derivative(test, x, kind)
            if value.detach().max() > best:
                best, worst_x = value.max().detach(), x.detach().clone()
            optimizer.zero_grad()
            (-value.sum()).backward()
            optimizer.step()
        limits = bounds(sigma)
        quadrature = EppsPulley(sigma=sigma)
        again = gradient(quadrature, worst_x)[0] if kind == "gradient" else curvature(quadrature, worst_x)
        bound = limits.sharper if kind == "gradient" else limits.curvature
        return {
            "part": "search",
            "kind": kind,
            "sigma": sigma,
            "plain": limits.plain if kind == "gradient" else None,
            "bound": bound,
            "supremum": limits.supremum if kind == "gradient" else limits.curvature_supremum,
            "largest": float(best),
            "largest_17_knots": float(again.abs().max()),
            "violated": float(best) > bound,
        }

    def moment(self, k: int) -> Row:
        """Variance of the gradient of the k-th moment, d mean(x^k)/dx_i = k x_i^(k-1)/n, times n^2."""
        source = generator(0, "gradients", "moment", k)
        z = torch.randn(self.draws, generator=source, dtype=torch.float64)
        return {
            "part": "moments",
            "order": k,
            "variance": float((k * z ** (k - 1)).var()),
            "predicted": k**2 * (normal_moment(2 * k - 2) - normal_moment(k - 1) ** 2),
            "largest": float((k * z ** (k - 1)).abs().max()),
        }


def _derivative(test: Statistic, x: Tensor, kind: str) -> Tensor:
    """|dT/dx_1| or |d^2T/dx_1^2| of each slice, differentiable."""
    (slope,) = torch.autograd.grad(test.statistic(x).sum(), x, create_graph=True)
    if kind == "gradient":
        return slope[0].abs()
    (second,) = torch.autograd.grad(slope[0].sum(), x, create_graph=True)
    return second[0].abs()


if __name__ == "__main__":
    tyro.cli(Study, description=__doc__).run()
