"""How fast do directions on the sphere pin down a smooth function of the direction?

Theorem 5 of the LeJEPA paper bounds the mean squared error over all directions of S^{K-1}, when the values on
|A| directions are right, by C(K, α) |A|^{-2α/(K-1)} ‖g‖², with g in the Sobolev space of order α and

    C(K, α) = 2^{2α} π^{(K-1)/2} Γ(α + (K-1)/2) / ((K-1) Γ(α) Γ((K-1)/2)).

(Figure 15.) Claims: (1) the error of reconstruction falls with slope -2α/(K-1); (2) random and
low-discrepancy directions have the same slope; (3) the bound lies above what is measured.

    python -m isojepa_lab.studies.sphere_bound [--out docs/results]

Measured on the circle (K = 2) and the sphere (K = 3) with random series of harmonics whose coefficients have
variance (l + (K-2)/2)^{-2α-(K-1)} at degree l, and one at l = 0: the energy above degree L then falls as
L^{-2α}, the edge of smoothness α. The interpolant is the one of least norm for the same spectrum, the best
linear one. One thread; about a minute.
"""

import math
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
import torch
import tyro

from isojepa.terminal import Console
from isojepa_lab.studies.results import markdown_table, write_figure, write_results
from isojepa_lab.studies.sphere_bound_figure import draw
from isojepa_lab.studies.sphere_bound_series import directions_needed, errors, log_constant

Row = dict[str, Any]

DIRECTIONS = ("random", "low-discrepancy")


@dataclass
class Study:
    """Measure the error of reconstruction on circle and sphere, and write page and figure."""

    out: Path = Path("docs/results")
    """Folder of the page, its numbers and its figure."""
    seeds: int = 10
    """Repetitions, with new functions and directions; standard errors are over these."""
    functions: int = 16
    """Functions per seed."""
    alphas_circle: tuple[float, ...] = (1.0, 1.5, 2.0)
    """Smoothness of the functions on the circle; values at points need more than 1/2."""
    alphas_sphere: tuple[float, ...] = (1.5, 2.0, 3.0)
    """Smoothness of the functions on the sphere; values at points need more than 1."""
    counts_circle: tuple[int, ...] = (16, 32, 64, 128, 256)
    """Numbers of directions on the circle."""
    counts_sphere: tuple[int, ...] = (32, 64, 128, 256, 512)
    """Numbers of directions on the sphere."""
    degrees_circle: int = 800
    """Highest degree of the series on the circle."""
    degrees_sphere: int = 100
    """Highest degree of the series on the sphere."""

    def run(self) -> None:
        """Write sphere_bound.json, sphere_bound.md and sphere_bound.png."""
        torch.set_num_threads(1)
        start, console = time.perf_counter(), Console()
        rows = []
        for dim, alphas in ((2, self.alphas_circle), (3, self.alphas_sphere)):
            for alpha in alphas:
                for kind in DIRECTIONS:
                    row = self.measure(dim, alpha, kind)
                    rows.append(row)
                    console.print(
                        f"K {dim}  alpha {alpha:g}  {kind:<16} slope {row['slope']:.2f} "
                        f"± {row['slope_error']:.2f}, predicted {row['predicted']:.2f}"
                    )
        write_figure(self.out / "sphere_bound.png", draw(rows))
        seconds = time.perf_counter() - start
        settings = {key: value for key, value in asdict(self).items() if key != "out"}
        write_results(
            self.out, "sphere_bound", rows=rows, text=page(rows, self), settings=settings, seconds=seconds
        )
        console.print(f"{self.out / 'sphere_bound.md'}  {seconds:.0f} s")

    def measure(self, dim: int, alpha: float, kind: str) -> Row:
        """Errors by number of directions, their slope, and the bound."""
        counts = self.counts_circle if dim == 2 else self.counts_sphere
        degrees = self.degrees_circle if dim == 2 else self.degrees_sphere
        each = [errors(seed, dim, alpha, kind, counts, degrees, self.functions) for seed in range(self.seeds)]
        slopes = [float(np.polyfit(np.log(counts), np.log(rows), 1)[0]) for rows in each]
        mean = [fmean(column) for column in zip(*each, strict=True)]
        predicted = -2 * alpha / (dim - 1)
        bounds = [math.exp(log_constant(dim, alpha) + predicted * math.log(count)) for count in counts]
        return {
            "dim": dim,
            "alpha": alpha,
            "directions": kind,
            "predicted": predicted,
            "slope": fmean(slopes),
            "slope_error": stdev(slopes) / len(slopes) ** 0.5 if len(slopes) > 1 else 0.0,
            "counts": counts,
            "errors": mean,
            "bounds": bounds,
            "tightest": max(error / bound for error, bound in zip(mean, bounds, strict=True)),
            "tightest_of_sets": max(e / b for rows in each for e, b in zip(rows, bounds, strict=True)),
        }


PAGE = """\
# How fast directions pin down a smooth function

Made by `python -m isojepa_lab.studies.sphere_bound`; numbers, settings and versions are in
`sphere_bound.json`.

![The bound, what it asks for, and the measurement](sphere_bound.png)

## The rate, measured

Mean squared error over all directions of functions interpolated from |A| of them, {seeds} seeds of
{functions} functions each. Slope: least squares in logarithms over the numbers of directions shown, ± one
standard error over seeds. Low-discrepancy: golden angle on the circle, Fibonacci's spiral on the sphere. The
last columns are the largest ratio of error to bound, of the mean over seeds and of any one set of directions,
with the Sobolev norm under the uniform law; above one, the bound as written is broken.

{measured}

{verdict}

## The constant

C(K, α) = 2^(2α) π^((K-1)/2) Γ(α + (K-1)/2) / ((K-1) Γ(α) Γ((K-1)/2)), as far as we know: it was hardly
legible in the text we worked from, and it does not say which norm of the Sobolev space it belongs to, so the
rate is tested here and the constant only tried. More smoothness makes the bound fall faster, as the caption
of Figure 15 says, but the constant grows with α: the smoother bound is the lower one only from this many
directions:

{crossing}

In high dimension the bound says little at this smoothness. Number of directions until it reaches ‖g‖², the
norm of the function itself:

{needed}
"""


RATE = """\
The slope is the predicted one within {low:.0%} for low-discrepancy directions and {random:.0%} for random
ones. The kind of directions does not change the rate, but it changes the error: random directions leave gaps,
and err {least:.1f} to {most:.0f} times as much at the largest number of directions.

"""
BROKEN = """\
Some sets of directions pass the bound ({which}):
under this norm the constant does not hold for all sets."""


def page(rows: list[Row], study: Study) -> str:
    """The study's rows as Markdown."""
    measured = [
        [
            row["dim"],
            f"{row['alpha']:g}",
            row["directions"],
            f"{row['counts'][0]}-{row['counts'][-1]}",
            f"{row['errors'][0]:.2g} to {row['errors'][-1]:.2g}",
            f"{row['slope']:.2f} ± {row['slope_error']:.2f}",
            f"{row['predicted']:.2f}",
            f"{row['tightest']:.2g}",
            f"{row['tightest_of_sets']:.2g}",
        ]
        for row in rows
    ]
    header = [
        "K",
        "α",
        "directions",
        "counts",
        "error / norm",
        "slope",
        "predicted",
        "error / bound",
        "worst set",
    ]
    alphas = (1.0, 2.0, 4.0, 8.0)
    crossing = [[dim, *(_crossing(dim, a, 2 * a) for a in alphas[:-1])] for dim in (2, 3, 8)]
    needed = [
        [dim, *(_power(directions_needed(dim, a)) for a in (1.0, 4.0, 16.0, 64.0))]
        for dim in (2, 3, 8, 64, 512)
    ]
    return PAGE.format(
        seeds=study.seeds,
        functions=study.functions,
        measured=markdown_table(header, measured),
        verdict=_verdict(rows),
        crossing=markdown_table(
            ["K", *(f"α = {2 * a:g} below α = {a:g}, from" for a in alphas[:-1])],
            crossing,
        ),
        needed=markdown_table(["K", "α = 1", "α = 4", "α = 16", "α = 64"], needed),
    )


def _crossing(dim: int, rough: float, smooth: float) -> str:
    """Number of directions from which the bound of the smoother function is the lower one."""
    gap = log_constant(dim, smooth) - log_constant(dim, rough)
    return _power(gap * (dim - 1) / (2 * (smooth - rough)) / math.log(10))


def _power(exponent: float) -> str:
    return f"{10**exponent:.0f}" if exponent < 4 else f"10^{exponent:.0f}"


def _verdict(rows: list[Row]) -> str:
    gaps = {
        kind: max(abs(row["slope"] / row["predicted"] - 1) for row in rows if row["directions"] == kind)
        for kind in DIRECTIONS
    }
    costs = [
        one["errors"][-1] / two["errors"][-1]
        for one, two in zip(rows[::2], rows[1::2], strict=True)  # random, then low-discrepancy
    ]
    broken = [
        f"K = {row['dim']}, α = {row['alpha']:g}, {row['directions']}"
        for row in rows
        if row["tightest_of_sets"] > 1
    ]
    text = RATE.format(low=gaps["low-discrepancy"], random=gaps["random"], least=min(costs), most=max(costs))
    return text + (BROKEN.format(which="; ".join(broken)) if broken else "No error passes the bound.")


if __name__ == "__main__":
    tyro.cli(Study, description=__doc__).run()
