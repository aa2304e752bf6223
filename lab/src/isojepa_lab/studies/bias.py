r"""The O(1/n) bias of the Epps-Pulley statistic on minibatches, and what removing it buys.

For n samples of a law with characteristic function phi_X at the distance D = \int |phi_X - phi|^2 w dt,

    E[T/n] = D + (1/n) \int (1 - |phi_X(t)|^2) w(t) dt                  (Theorem 6 of the LeJEPA paper).

Claims: (1) the bias is this; (2) `unbiased=True` has none; (3) it does not matter, down to
minibatches of 16, says the paper, which did not try the unbiased one. For x ~ N(0, s^2) the bias is
(1/n) sqrt(2 pi) (1 - (1 + 2 s^2)^{-1/2}), which grows with s: the biased statistic is smallest below s = 1.

    python -m isojepa_lab.studies.bias [--out docs/results]

Measured by simulation, then by training: the scale of a Gaussian in one dimension, a matrix in eight, and
LeJEPA on the spiral, with weight * batch constant since the statistic grows with the batch. One thread; about
three minutes.
"""

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
import torch
import tyro
from scipy.optimize import minimize_scalar

from isojepa import runs
from isojepa.config import Config
from isojepa.objectives import SIGReg
from isojepa.objectives.gaussianity import EppsPulley
from isojepa.objectives.lejepa import LeJEPASpec
from isojepa.seeds import generator
from isojepa.terminal import Console
from isojepa.training import fit
from isojepa.training.recipe import Recipe
from isojepa_lab.studies.bias_page import draw, page
from isojepa_lab.studies.quadrature import LAWS
from isojepa_lab.studies.results import write_figure, write_results

Row = dict[str, Any]

ROOT = math.sqrt(2 * math.pi)
CHARACTERISTIC: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "Gaussian": lambda t: np.exp(-(t**2) / 2),
    "Gaussian, std 0.1": lambda t: np.exp(-(t**2) / 200),
    "Laplace, variance 1": lambda t: 1 / (1 + t**2 / 2),
    "uniform, variance 1": lambda t: np.sinc(math.sqrt(3) * t / math.pi),
    "mixture N(±2, 1/4)": lambda t: np.cos(2 * t) * np.exp(-(t**2) / 8),
}


def distance_and_bias(law: str) -> tuple[float, float]:
    """D and n times the bias of a law, by quadrature fine enough for 12 digits."""
    t = np.linspace(-12, 12, 4801)
    characteristic, window = CHARACTERISTIC[law](t), np.exp(-(t**2) / 2)
    distance = np.trapezoid((characteristic - window) ** 2 * window, t)
    return float(distance), float(np.trapezoid((1 - characteristic**2) * window, t))


def expected(scale: float, n: float) -> float:
    """E[T/n] for n samples of N(0, scale^2); n = inf for the distance of laws."""
    distance = ROOT * ((1 + 2 * scale**2) ** -0.5 - 2 * (2 + scale**2) ** -0.5 + 3**-0.5)
    expectation: float = distance + ROOT / n * (1 - (1 + 2 * scale**2) ** -0.5)
    return expectation


def fixed_point(n: float) -> float:
    """The standard deviation at which E[T/n] is smallest."""
    return float(minimize_scalar(expected, bounds=(0.01, 2), args=(n,), method="bounded").x)


@dataclass
class Study:
    """Measure the bias, train with and without it, and write page and figure."""

    out: Path = Path("docs/results")
    """Folder of the page, its numbers and its figure."""
    draws: int = 1 << 19
    """Samples per law and n, for the bias."""
    sizes: tuple[int, ...] = (8, 16, 32, 64, 128, 256, 512, 1024)
    """n, for the bias."""
    batches: tuple[int, ...] = (16, 64, 256)
    """Minibatches to train with."""
    steps: int = 1500
    """Steps of each training."""
    replicas: int = 256
    """Independent trainings of one scale."""
    dim: int = 8
    """Of the Gaussian whose matrix is trained."""
    seeds: int = 3
    """Repetitions in eight dimensions and on the spiral."""

    def run(self) -> None:
        """Write bias.json, bias.md and bias.png."""
        torch.set_num_threads(1)
        start, console = time.perf_counter(), Console()
        rows: list[Row] = []
        for law in CHARACTERISTIC:
            rows += [self.measure(law, n) for n in self.sizes]
            console.print(f"{law:<22} bias measured, n up to {max(self.sizes)}")
        for n in self.batches:
            for unbiased in (False, True):
                rows += [self.scale(n, unbiased), self.matrix(n, unbiased), self.spiral(n, unbiased)]
                std, r2 = rows[-3]["std"], rows[-1]["r2"]
                console.print(
                    f"batch {n:<4} unbiased {unbiased!s:<5} std {std:.4f}, R2 on the spiral {r2:.4f}"
                )
        write_figure(self.out / "bias.png", draw(rows))
        seconds = time.perf_counter() - start
        settings = {key: value for key, value in asdict(self).items() if key != "out"}
        text = page(rows, settings)
        write_results(self.out, "bias", rows=rows, text=text, settings=settings, seconds=seconds)
        console.print(f"{self.out / 'bias.md'}  {seconds:.0f} s")

    def measure(self, law: str, n: int) -> Row:
        """Mean of T/n - D over samples, with its standard error, and the formula."""
        repeats = self.draws // n
        x = LAWS[law](n * repeats, generator(n, "bias", law)).reshape(n, repeats)
        distance, bias = distance_and_bias(law)
        row: Row = {"part": "bias", "law": law, "n": n, "distance": distance, "formula": bias / n}
        for name, unbiased in (("biased", False), ("unbiased", True)):
            values = EppsPulley(65, 8.0, unbiased=unbiased).statistic(x) / n
            row[name] = float(values.mean()) - distance
            row[f"{name}_error"] = float(values.std()) / math.sqrt(repeats)
        return row

    def scale(self, n: int, unbiased: bool) -> Row:
        """Gradient descent on log s, with x = s z and z fresh at each step; all replicas side by side."""
        log_scale = torch.full((self.replicas,), math.log(0.7), dtype=torch.float64, requires_grad=True)
        test = EppsPulley(unbiased=unbiased)
        tail = []
        for step in range(self.steps):
            source = generator(n, "bias", "scale", step)
            z = torch.randn(n, self.replicas, generator=source, dtype=torch.float64)
            loss = test.statistic(log_scale.exp() * z).sum() / n
            (slope,) = torch.autograd.grad(loss, log_scale)
            with torch.no_grad():
                log_scale -= _decayed(0.3, step, self.steps) * slope
            if step >= 0.9 * self.steps:
                tail.append(log_scale.detach().exp())
        std = torch.stack(tail).mean(0)
        return {
            "part": "scale",
            "batch": n,
            "unbiased": unbiased,
            "std": float(std.mean()),
            "std_error": float(std.std()) / math.sqrt(self.replicas),
            "fixed_point": fixed_point(math.inf if unbiased else n),
        }

    def matrix(self, n: int, unbiased: bool) -> Row:
        """The same for x = A z in several dimensions, by SIGReg with 16 slices: the singular values of A."""
        regularizer = SIGReg(slices=16, unbiased=unbiased)
        entries = []
        for seed in range(self.seeds):
            first = torch.randn(self.dim, self.dim, generator=generator(seed, "bias", "matrix"))
            a = (0.7 * torch.linalg.qr(first).Q).requires_grad_()
            total = torch.zeros_like(a)
            for step in range(self.steps):
                z = torch.randn(n, self.dim, generator=generator(seed, "bias", "matrix", n, step))
                loss = regularizer(z @ a.T, generator(seed, "bias", "slices", step)) / n
                (slope,) = torch.autograd.grad(loss, a)
                with torch.no_grad():
                    a -= _decayed(0.3 * self.dim, step, self.steps) * slope
                    if step >= 0.9 * self.steps:
                        total += a
            entries.append(torch.linalg.svdvals(total / math.ceil(0.1 * self.steps - 1e-9)))
        values = torch.stack(entries)
        return {
            "part": "matrix",
            "batch": n,
            "unbiased": unbiased,
            "std": float((values**2).mean().sqrt()),
            "smallest": float(values.min()),
            "largest": float(values.max()),
        }

    def spiral(self, n: int, unbiased: bool) -> Row:
        """Train LeJEPA in the two-dimensional world; weight * batch as in the defaults' middle."""
        rows_of_table = []
        recipe = Recipe(steps=self.steps, batch=n, batch_start=None, eval_every=self.steps)
        objective = LeJEPASpec(weight=min(0.5, 2e-3 * 860 / n), unbiased=unbiased)
        for seed in range(self.seeds):
            config = Config(objective=objective, training=recipe, seed=seed)
            encoder, world, loss = runs.build_all(config)
            run = fit(encoder, world, loss, **vars(recipe), seed=seed, progress=False)
            rows_of_table.append((run.r2, run.metrics[-1]["mean_variance"]))
        r2, variance = zip(*rows_of_table, strict=True)
        return {
            "part": "spiral",
            "batch": n,
            "unbiased": unbiased,
            "weight": objective.weight,
            "r2": fmean(r2),
            "r2_each": r2,
            "r2_spread": stdev(r2) if len(r2) > 1 else 0.0,
            "std": math.sqrt(fmean(variance)),
        }


def _decayed(rate: float, step: int, steps: int) -> float:
    return rate * (1 + math.cos(math.pi * step / steps)) / 2


if __name__ == "__main__":
    tyro.cli(Study, description=__doc__).run()
