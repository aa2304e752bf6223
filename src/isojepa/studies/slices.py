"""Fixed or resampled directions, how many, and drawn how?

Claims of the LeJEPA paper (Figure 7, Section 4.3): the directional statistic, averaged over all directions at
the end of training, falls with the number |A| of directions; and as few as 16 that are resampled at each step
do better than thousands that stay fixed. Low-discrepancy directions do not change the
rate (Theorem 5).

    python -m isojepa.studies.slices [--out docs/results]

Measured on samples that are moved themselves, by Adam on SIGReg with the Epps-Pulley test, from a Gaussian
whose variances fall like 1/k. At the end the statistic is averaged over fresh directions. The three samplers
of directions are compared as estimators of the mean over the sphere, and in the optimisation. One thread;
about three minutes.
"""

import math
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import torch
import tyro
from rich.console import Console
from torch import Tensor

from isojepa.objectives import SIGReg
from isojepa.objectives.directions import SAMPLERS, draw_directions
from isojepa.objectives.gaussianity import EppsPulley
from isojepa.seeds import generator
from isojepa.studies.results import write_figure, write_results
from isojepa.studies.slices_page import draw, page

Row = dict[str, Any]


def begin(samples: int, dim: int, seed: int) -> Tensor:
    """Samples of a Gaussian with variances proportional to 1/k and mean variance 1: (samples, dim)."""
    variances = 1 / torch.arange(1, dim + 1)
    z = torch.randn(samples, dim, generator=generator(seed, "study slices", "samples", dim))
    return z * (variances * dim / variances.sum()).sqrt()


def each_direction(x: Tensor, directions: Tensor) -> Tensor:
    """Epps-Pulley statistic of every direction: (slices,)."""
    return EppsPulley().statistic(x @ directions.T)


def optimise(x: Tensor, regularizer: SIGReg, steps: int, rate: float, seed: int) -> Tensor:
    """Move samples by Adam, with a rate that falls to zero, so that the regularizer is small."""
    x = x.clone().requires_grad_()
    optimizer = torch.optim.Adam([x], lr=rate, fused=True)
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = rate * (1 + math.cos(math.pi * step / steps)) / 2
        optimizer.zero_grad()
        regularizer(x, generator(seed, "study slices", "directions", step)).backward()
        optimizer.step()
    return x.detach()


@dataclass
class Study:
    """Optimise samples with fixed and resampled directions, and write page and figure."""

    out: Path = Path("docs/results")
    """Folder of the page, its numbers and its figure."""
    samples: int = 256
    """Number of samples that are moved."""
    dims: tuple[int, ...] = (16, 64, 256)
    """Dimensions."""
    counts: tuple[int, ...] = (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
    """Numbers of directions |A|, fixed and resampled."""
    counts_fixed: tuple[int, ...] = (2048, 4096)
    """More numbers of directions, for the fixed ones alone."""
    steps: int = 300
    """Of the optimisation."""
    longer: int = 4
    """Factor of the steps in the comparison of few resampled with most fixed directions."""
    rate: float = 0.03
    """Adam's learning rate."""
    seeds: int = 2
    """Repetitions of every optimisation; half as many, at least one, above 512 directions."""
    fresh: int = 4096
    """Directions of the evaluation."""
    sets: int = 400
    """Sets of directions, for the variance of the estimators."""
    counts_samplers: tuple[int, ...] = (4, 16, 64, 256)
    """Numbers of directions for the comparison of samplers as estimators."""
    counts_trained: tuple[int, ...] = (4, 16, 64)
    """Numbers of directions for the comparison of samplers in optimisation."""

    def run(self) -> None:
        """Write slices.json, slices.md and slices.png."""
        torch.set_num_threads(1)
        start, console = time.perf_counter(), Console()
        rows: list[Row] = []
        for dim in self.dims:
            for count in (*self.counts, *self.counts_fixed):
                for resample in (False, True):
                    if not resample or count in self.counts:
                        rows.append(self.train("figure 7", dim, count, resample, "gaussian"))
            for count, resample in ((min(16, max(self.counts)), True), (max(self.counts_fixed), False)):
                rows.append(self.train("longer", dim, count, resample, "gaussian", self.longer))
            rows += [self.estimate(dim, count) for count in self.counts_samplers]
            for count in self.counts_trained:
                for sampler in SAMPLERS:
                    rows.append(self.train("samplers", dim, count, True, sampler))
            console.print(f"dimension {dim}: {time.perf_counter() - start:.0f} s")
        write_figure(self.out / "slices.png", draw(rows))
        seconds = time.perf_counter() - start
        settings = {key: value for key, value in asdict(self).items() if key != "out"}
        text = page(rows, settings)
        write_results(self.out, "slices", rows=rows, text=text, settings=settings, seconds=seconds)
        console.print(f"{self.out / 'slices.md'}  {seconds:.0f} s")

    def train(self, part: str, dim: int, count: int, resample: bool, sampler: str, longer: int = 1) -> Row:
        """Statistic over fresh directions at the end of an optimisation."""
        seeds = self.seeds if count <= 512 else max(1, self.seeds // 2)
        fresh = draw_directions(dim, self.fresh, generator(0, "study slices", "fresh", dim))
        ends, worst, before, seconds = [], [], [], 0.0
        for seed in range(seeds):
            x = begin(self.samples, dim, seed)
            regularizer = SIGReg(slices=count, sampler=sampler, resample=resample, seed=seed)
            began = time.perf_counter()
            end = optimise(x, regularizer, longer * self.steps, self.rate, seed)
            seconds += time.perf_counter() - began
            values = each_direction(end, fresh)
            ends.append(float(values.mean()))
            worst.append(float(values.max()))
            before.append(float(each_direction(x, fresh).mean()))
        return {
            "part": part,
            "dim": dim,
            "count": count,
            "resample": resample,
            "sampler": sampler,
            "before": fmean(before),
            "after": fmean(ends),
            "after_spread": stdev(ends) if seeds > 1 else 0.0,
            "worst": fmean(worst),
            "milliseconds": 1e3 * seconds / seeds / (longer * self.steps),
        }

    def estimate(self, dim: int, count: int) -> Row:
        """Standard deviation, over sets of directions, of the mean statistic of the first samples."""
        x = begin(self.samples, dim, 0)
        row: Row = {"part": "estimators", "dim": dim, "count": count}
        for sampler in SAMPLERS:
            means = []
            for repeat in range(self.sets):
                source = generator(repeat, "study slices", "sets", dim, count)
                means.append(float(each_direction(x, draw_directions(dim, count, source, sampler)).mean()))
            row[sampler] = stdev(means)
            row[f"{sampler}_mean"] = fmean(means)
        return row


if __name__ == "__main__":
    tyro.cli(Study, description=__doc__).run()
