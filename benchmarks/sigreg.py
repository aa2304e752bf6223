"""SIGReg against the textbook form and against the matrix products it cannot do without.

The nine shapes are those of the LeJEPA paper's Table 6 (samples, slices, integration points), with embeddings
of 512 dimensions, whose number the paper does not say.
"""

import math

import textbook
import torch
from measure import alternate, peak_kib, row
from torch import Tensor

import isojepa as ij
from isojepa.objectives.directions import draw_directions
from isojepa.objectives.gaussianity.epps_pulley import Grid, sliced_epps_pulley

TABLE_6 = [
    (512, 512, 16),
    (512, 512, 64),
    (512, 512, 256),
    (2048, 512, 16),
    (8192, 512, 16),
    (8192, 8192, 16),
    (32768, 512, 16),
    (512, 2048, 16),
    (512, 8192, 16),
]
DIM = 512
MEMORY = 24 * 2**30


class Problem:
    """Samples, directions and knots, with the ways to work on them."""

    def __init__(self, n: int, dim: int, slices: int, knots: int) -> None:
        source = ij.generator(0, "bench")
        self.x = torch.randn(n, dim, generator=source).requires_grad_()
        self.directions = draw_directions(dim, slices, source)
        self.grid, self.knots = Grid.trapezoid(knots, 5.0), knots
        self.projections, self.gradient = torch.empty(slices, n), torch.empty(n, dim)
        # angles, their complex form and its exponential are kept for the backward pass, which adds one more
        self.textbook_bytes = n * slices * knots * (4 + 8 + 8 + 8)

    def fused(self) -> Tensor:
        """Gradient by the fused path."""
        return torch.autograd.grad(sliced_epps_pulley(self.x, self.directions, self.grid), self.x)[0]

    def forward_only(self) -> Tensor:
        """The value alone, as in evaluation."""
        with torch.no_grad():
            return sliced_epps_pulley(self.x, self.directions, self.grid)

    def textbook(self) -> Tensor:
        """Gradient by the textbook form."""
        return torch.autograd.grad(textbook.sigreg(self.x, self.directions, self.knots), self.x)[0]

    def products(self) -> None:
        """The two matrix products alone: to the slices, and back."""
        with torch.no_grad():
            torch.matmul(self.directions, self.x.T, out=self.projections)
            torch.matmul(self.projections.T, self.directions, out=self.gradient)


def accuracy(shape: tuple[int, int, int, int], least: float) -> list[dict]:
    """Time, memory and gradient error of one shape (samples, dim, slices, knots)."""
    problem = Problem(*shape)
    n, dim, slices, knots = shape
    times = alternate({"fused": problem.fused, "textbook": problem.textbook})
    double = problem.x.detach().double().requires_grad_()
    exact = torch.autograd.grad(textbook.sigreg(double, problem.directions.double(), knots), double)[0]
    memory = {task: peak_kib(task, shape) for task in ("fused", "plain")}
    name = f"SIGReg {n} x {dim}, {slices} slices, {knots} knots"
    ours = problem.fused()
    return [
        row(f"{name}: time, textbook / fused", times["textbook"] / times["fused"], least, times),
        row(f"{name}: peak memory, textbook / fused", memory["plain"] / memory["fused"], 8, memory),
        row(f"{name}: gradient error against float64", _relative(ours, exact), -1e-5),
        row(f"{name}: gradient error against textbook float32", _relative(ours, problem.textbook()), -1e-5),
    ]


def table_6() -> list[dict]:
    """The nine shapes: against the textbook form, the matrix products, and evaluation alone."""
    rows, ratios, growth = [], [], {}
    for n, slices, knots in TABLE_6:
        problem = Problem(n, DIM, slices, knots)
        fits = problem.textbook_bytes < MEMORY
        tasks = {"fused": problem.fused, "forward": problem.forward_only, "products": problem.products}
        times = alternate(tasks, seconds=2.0, least=7)
        name = f"Table 6, {n} samples, {slices} slices, {knots} knots"
        shape = (n, DIM, slices, knots)
        memory = {"fused": peak_kib("fused", shape)}
        if (n, slices) == (512, 512):
            growth[knots] = memory["fused"]
        if fits:
            memory["plain"] = peak_kib("plain", shape)
            beside = alternate({"fused": problem.fused, "textbook": problem.textbook}, seconds=1.0, least=3)
            ratios.append(beside["textbook"] / beside["fused"])
            least = 10 if knots == 16 else None
            rows.append(row(f"{name}: time, textbook / fused", ratios[-1], least, beside))
            rows.append(
                row(f"{name}: peak memory, textbook / fused", memory["plain"] / memory["fused"], None)
            )
        else:
            gib = problem.textbook_bytes / 2**30
            rows.append(row(f"{name}: GiB of the textbook form, which does not fit in 24", gib, None))
            rows.append(row(f"{name}: milliseconds, fused", 1e3 * times["fused"], None, times))
        rows.append(row(f"{name}: peak MiB, fused", memory["fused"] / 1024, None, memory))
        goal = -2.0 if knots == 16 else None
        rows.append(row(f"{name}: fused / its matrix products", times["fused"] / times["products"], goal))
        share = times["forward"] / times["fused"]
        rows.append(row(f"{name}: forward only / forward and backward", share, -0.5))
    mean = math.exp(sum(math.log(ratio) for ratio in ratios) / len(ratios))
    rows.append(row("Table 6, geometric mean: time, textbook / fused", mean, 15))
    rows.append(row("Table 6: memory at 256 knots / at 16 knots", growth[256] / growth[16], -1.1, growth))
    return rows


def half_precision() -> list[dict]:
    """bfloat16 and float16 embeddings against the exact value of the same rounded numbers."""
    rows = []
    for dtype in (torch.bfloat16, torch.float16):
        problem = Problem(4096, 64, 256, 17)
        rounded = problem.x.detach().to(dtype)
        value = sliced_epps_pulley(rounded, problem.directions, problem.grid)
        exact = textbook.sigreg(rounded.double(), problem.directions.double(), 17)
        error = abs(float(value) - float(exact)) / float(exact)
        rows.append(row(f"SIGReg of {str(dtype)[6:]} embeddings: error of the value", error, -1e-5))
    return rows


def _relative(a: Tensor, b: Tensor) -> float:
    return float((a.double() - b.double()).norm() / b.double().norm())
