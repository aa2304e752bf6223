r"""Does SIGReg find two bad coordinates among a thousand, and unroll them?

The "X": (z, s z) with z ~ N(0, 1) and a random sign s has Gaussian marginals and covariance I, and is far
from Gaussian. Claims of the LeJEPA paper (Figures 5, 6 and 16): a statistic on the half circle has a spike at
the diagonals; and gradient descent on N = 100 samples of a Gaussian in up to 1024 dimensions whose first two
coordinates are replaced by the X, with 10 resampled directions a step, makes them Gaussian again.

    python -m isojepa_lab.studies.unrolling [--out docs/results]

Measured by what no statistic was trained on, on the two coordinates: the correlation of their squares (1 for
the X, 0 for a Gaussian) and the BHEP test. Adam moves all coordinates all the time, and moving them at random
blurs the X too. If each coordinate keeps a correlation rho with where it began, and variance 1, a blurred X
has the correlation of squares rho^4. rho is measured on the coordinates that were Gaussian to begin with:
only what is below rho^4 was unrolled. One thread; about three minutes.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import tyro
from torch import Tensor

from isojepa.objectives.directions import draw_directions
from isojepa.objectives.gaussianity import BHEP, UNIVARIATE, Sliced, Statistic
from isojepa.objectives.gaussianity.sliced import slice_means
from isojepa.seeds import generator
from isojepa.terminal import Console
from isojepa_lab.studies.results import write_figure, write_results
from isojepa_lab.studies.unrolling_figure import draw
from isojepa_lab.studies.unrolling_page import page

Row = dict[str, Any]

STATISTICS = (
    "epps-pulley",
    "cramer-von-mises",
    "anderson-darling",
    "watson",
    "extended-jarque-bera",
    "moments",
    "shapiro-francia",
    "entropy",
    "mean-variance",
)
LONG = ("epps-pulley", "mean-variance")  # one that sees the X, and one that does not
RATES = (0.01, 0.03, 0.1, 0.3)


def cross(samples: int, dim: int, seed: int) -> Tensor:
    """Gaussian samples whose first two coordinates are the X: (samples, dim)."""
    source = generator(seed, "unrolling", "samples", dim)
    x = torch.randn(samples, dim, generator=source)
    x[:, 1] = x[:, 0] * (torch.rand(samples, generator=source) - 0.5).sign()
    return x


def descend(
    x: Tensor,
    test: Statistic,
    slices: int,
    rates: Sequence[float],
    seed: int,
    watch: Callable[[int, Tensor], None] | None = None,
) -> Tensor:
    """Move samples by Adam on the mean of a statistic over new directions at each step.

    Args:
        x: (samples, dim).
        test: univariate.
        slices: directions per step.
        rates: learning rate of every step.
        seed: draws the directions.
        watch: called after every step with its number, from 1, and the samples.

    Returns:
        (samples, dim); NaN where the statistic failed.
    """
    x = x.clone().requires_grad_()
    optimizer = torch.optim.Adam([x], lr=rates[0], fused=True)
    for step, rate in enumerate(rates):
        optimizer.param_groups[0]["lr"] = rate
        directions = draw_directions(x.shape[1], slices, generator(seed, "unrolling", "directions", step))
        optimizer.zero_grad()
        try:
            slice_means(test, x, directions).backward()
        except ValueError:  # a slice that does not vary: the statistic does not exist there
            return torch.full_like(x, math.nan).detach()
        optimizer.step()
        if watch is not None:
            watch(step + 1, x.detach())
    return x.detach()


def judge(start: Tensor, end: Tensor, draws: int) -> Row:
    """What the descent did to the two coordinates, and to the others."""
    if not bool(torch.isfinite(end).all()) or float(end.abs().max()) > 1e3:
        nothing = dict.fromkeys(("squares", "blur", "bhep", "p"), math.nan)
        return {**nothing, "status": "diverged"}
    pair = end[:, :2]
    correlation = float(_correlation(start[:, 2:], end[:, 2:]).mean())
    return {
        "squares": round(float(_correlation(pair[:, :1] ** 2, pair[:, 1:] ** 2)), 4),
        "blur": round(correlation**4, 4),
        "bhep": round(float(BHEP()(pair)), 4),
        "p": float(BHEP().pvalue(pair, draws=draws)),
        "status": "done",
    }


def _correlation(a: Tensor, b: Tensor) -> Tensor:
    """Correlation of each column of a with that of b."""
    a, b = a - a.mean(0), b - b.mean(0)
    return (a * b).sum(0) / ((a**2).sum(0) * (b**2).sum(0)).sqrt()


@dataclass
class Study:
    """Unroll the X by every statistic, and write page and figure."""

    out: Path = Path("docs/results")
    """Folder of the page, its numbers and its figure."""
    samples: int = 100
    """Number of samples that are moved."""
    dims: tuple[int, ...] = (128, 512, 1024)
    """Dimensions."""
    slices: tuple[int, ...] = (10, 16, 100)
    """Directions per step."""
    steps: int = 1000
    """Of the optimization; the rate falls to zero over them."""
    long: int = 15_000
    """Steps of the long runs, at a small constant rate."""
    long_rate: float = 0.01
    """Learning rate of the long runs."""
    long_dims: tuple[int, ...] = (8, 128, 1024)
    """Dimensions of the long runs, with 16 directions a step."""
    circle: int = 500
    """Samples of the X in two dimensions, for the half circle."""
    draws: int = 499
    """Samples of the null for p-values."""

    def run(self) -> None:
        """Write unrolling.json, unrolling.md and unrolling.png."""
        torch.set_num_threads(1)
        start, console = time.perf_counter(), Console()
        rows: list[Row] = [self.half_circle(name) for name in STATISTICS]
        console.print(f"half circle: {time.perf_counter() - start:.0f} s")
        clouds: dict[str, Tensor] = {}
        for name in STATISTICS:
            rate = self.choose(name)
            for dim in self.dims:
                for slices in self.slices:
                    row, end = self.cell(name, dim, slices, rate)
                    rows.append(row)
                    if (dim, slices) == (self.dims[-1], self.slices[0]):
                        clouds[name] = end
            seconds = time.perf_counter() - start
            console.print(f"{name:<22} rate {rate:g}; squares {row['squares']:.2f}; {seconds:.0f} s")
        rows += [self.follow(name, dim) for dim in self.long_dims for name in LONG]
        console.print(f"long runs: {time.perf_counter() - start:.0f} s")
        first = cross(self.samples, self.dims[-1], 0)
        write_figure(self.out / "unrolling.png", draw(rows, {"before": first[:, :2]} | clouds))
        seconds = time.perf_counter() - start
        settings = {key: value for key, value in asdict(self).items() if key != "out"} | {"rates": RATES}
        text = page(rows, settings)
        write_results(self.out, "unrolling", rows=rows, text=text, settings=settings, seconds=seconds)
        console.print(f"{self.out / 'unrolling.md'}  {seconds:.0f} s")

    def half_circle(self, name: str) -> Row:
        """The statistic of the X in two dimensions by angle, in units of its mean for Gaussian samples."""
        test = UNIVARIATE[name]()
        angles = torch.arange(0, 181, 3, dtype=torch.float64)
        radians = angles * math.pi / 180
        x = cross(self.circle, 2, 1).double()
        values = test.statistic(x @ torch.stack((radians.cos(), radians.sin())))
        source = generator(0, "unrolling", "circle")
        null = test.statistic(torch.randn(self.circle, 400, generator=source, dtype=torch.float64)).mean()
        return {
            "part": "half circle",
            "test": name,
            "angles": angles.tolist(),
            "ratio": [float(f"{value:.3g}") for value in values / null],
        }

    def choose(self, name: str) -> float:
        """The rate with the smallest BHEP statistic, in the cell of most dimensions and fewest slices."""
        choices = {}
        for rate in RATES:
            row, _ = self.cell(name, max(self.dims), min(self.slices), rate)
            choices[rate] = row["bhep"] if row["status"] == "done" else math.inf
        return min(RATES, key=lambda rate: choices[rate])

    def cell(self, name: str, dim: int, slices: int, rate: float) -> tuple[Row, Tensor]:
        """One optimization, judged; and its two coordinates."""
        start = cross(self.samples, dim, 0)
        rates = [rate * (1 + math.cos(math.pi * step / self.steps)) / 2 for step in range(self.steps)]
        began = time.perf_counter()
        end = descend(start, UNIVARIATE[name](), slices, rates, 0)
        seconds = time.perf_counter() - began
        judged = judge(start, end, self.draws)
        fresh = Sliced(slices=256, seed=1)
        row = {"part": "cell", "test": name, "dim": dim, "slices": slices, "rate": rate}
        row |= {"milliseconds": round(1e3 * seconds / self.steps, 3)} | judged
        if judged["status"] == "done":
            row["fresh"] = round(float(fresh.statistic(end)), 3)
        return row, end[:, :2]

    def follow(self, name: str, dim: int) -> Row:
        """A long run at a small rate, looked at twenty times."""
        start, every = cross(self.samples, dim, 0), max(1, self.long // 20)
        looks: list[Row] = []

        def watch(step: int, x: Tensor) -> None:
            if step % every == 0:
                looks.append({"step": step} | judge(start, x, self.draws))

        descend(start, UNIVARIATE[name](), 16, [self.long_rate] * self.long, 0, watch)
        keys = ("step", "squares", "blur", "p")
        return {
            "part": "long",
            "test": name,
            "dim": dim,
            **{key: [look[key] for look in looks] for key in keys},
        }


if __name__ == "__main__":
    tyro.cli(Study, description=__doc__).run()
