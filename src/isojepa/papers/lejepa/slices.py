"""Directions of SIGReg: samples are moved by Adam on it, and looked at along fresh directions at the end."""

import math
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any

import torch
from torch import Tensor

from isojepa.objectives import SIGReg
from isojepa.objectives.directions import SAMPLERS, draw_directions
from isojepa.objectives.gaussianity import EppsPulley
from isojepa.report.charts import Chart, Reference, curves_chart
from isojepa.seeds import generator
from isojepa.studies.lines import by_label, curves, pivot, ratios
from isojepa.studies.measured import grouped, select, values
from isojepa.studies.specs import ChartSpec, Lines, Rows, TableSpec
from isojepa.studies.statements import Judgement, Statement, below, judge_values
from isojepa.studies.study import Cell, Computation, Study

NULL = 1.0594  # expectation of the statistic for samples that are N(0, 1): sqrt(2 pi) (1 - 3^{-1/2})
FEW, MANY, LONGER = 16, 1000, 4  # resampled directions of the claim; its "thousands"; factor of the steps
SIZES = {"samples": 256, "steps": 300, "fresh": 4096, "seeds": 2, "rate": 0.03}
QUICK = {"samples": 16, "steps": 5, "fresh": 32, "seeds": 1, "rate": 0.03}
NAME, PLACE = "d = {dim}, {kind}", ["dim", "count"]
statistic = EppsPulley().statistic  # (samples, directions) -> (directions,)


def cells(scale: str) -> list[Cell]:
    """For each dimension: Figure 7, its ends after more steps, the samplers in training and as estimators."""
    found, quick = [], scale == "quick"
    sizes, sets = (QUICK, 3) if quick else (SIZES, 400)
    few, more = ([4, 16], [1024]) if quick else ([2**k for k in range(1, 11)], [2048, 4096])
    for dim in (4, 8) if quick else (16, 64, 256):
        asked = [("figure 7", n, kind, "gaussian", 1) for n in few for kind in ("fixed", "resampled")]
        asked += [("figure 7", n, "fixed", "gaussian", 1) for n in more]
        asked += [("longer", FEW, "resampled", "gaussian", LONGER)]
        asked += [("longer", more[-1], "fixed", "gaussian", LONGER)]
        asked += [("samplers", n, "resampled", name, 1) for n in (4, 16, 64) for name in SAMPLERS]
        for part, count, kind, sampler, longer in asked:
            how = {"dim": dim, "count": count, "resample": kind == "resampled", "sampler": sampler}
            how |= {"steps": longer * sizes["steps"], "seeds": sizes["seeds"] if count <= 512 else 1}
            labels = {"part": part, "dim": dim, "count": count, "kind": kind, "sampler": sampler}
            found.append(Cell(Computation(sizes | how), labels))
        for count in (4, 16, 64, 256):
            settings = {"samples": sizes["samples"], "dim": dim, "count": count, "sets": sets}
            found.append(Cell(Computation(settings), {"part": "estimators", "dim": dim, "count": count}))
    return found


def measure(cell: Cell) -> dict[str, float]:
    """The end of an optimisation, or the noise of the samplers as estimators."""
    return estimate(**cell.settings) if "sets" in cell.settings else train(**cell.settings)


def train(
    dim: int, count: int, samples: int, steps: int, rate: float, fresh: int, seeds: int, **how: Any
) -> Any:
    """Statistic over fresh directions before and at the end of an optimisation, means over seeds."""
    look = draw_directions(dim, fresh, generator(0, "study slices", "fresh", dim)).T
    found: dict[str, list[float]] = {"before": [], "after": [], "worst": [], "milliseconds": []}
    for seed in range(seeds):
        x, began = begin(samples, dim, seed), time.perf_counter()
        end = optimise(x, SIGReg(slices=count, seed=seed, **how), steps, rate, seed)
        spent, last = time.perf_counter() - began, statistic(end @ look)
        numbers = (*map(float, (statistic(x @ look).mean(), last.mean(), last.max())), 1e3 * spent / steps)
        for own, number in zip(found.values(), numbers, strict=True):
            own.append(number)
    spread = stdev(found["after"]) if seeds > 1 else 0.0
    return {**{name: fmean(own) for name, own in found.items()}, "after_spread": spread}


def estimate(samples: int, dim: int, count: int, sets: int) -> dict[str, float]:
    """Standard deviation over sets of directions, and mean, of the mean statistic of the first samples."""
    x, found = begin(samples, dim, 0), dict[str, float]()
    for sampler in SAMPLERS:
        sources = [generator(repeat, "study slices", "sets", dim, count) for repeat in range(sets)]
        drawn = (draw_directions(dim, count, source, sampler) for source in sources)
        means = [float(statistic(x @ directions.T).mean()) for directions in drawn]
        found |= {sampler: stdev(means), f"{sampler}_mean": fmean(means)}
    return found


def begin(samples: int, dim: int, seed: int) -> Tensor:
    """Samples of a Gaussian with variances proportional to 1/k and mean variance 1: (samples, dim)."""
    variances = 1 / torch.arange(1, dim + 1)
    z = torch.randn(samples, dim, generator=generator(seed, "study slices", "samples", dim))
    return z * (variances * dim / variances.sum()).sqrt()


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


def _counts(rows: Rows) -> Lines:
    own = select(rows, part="figure 7")
    first = select(own, count=own[0].labels["count"]) if own else []
    before = {"count": "none", **{NAME.format_map(row.labels): row.scores["before"] for row in first}}
    return [before, *pivot(own, ["count"], NAME, "after")] if own else []


def _longer(rows: Rows) -> Lines:
    ends = [*select(rows, part="figure 7"), *select(rows, part="longer")]
    lines = pivot(ends, ["dim", "count", "kind"], "{part}", "after")
    return [line for line in lines if line.get("longer") is not None]


def _noise(rows: Rows, *samplers: str) -> Rows:
    """A row for each sampler, with its noise as an estimator relative to independent directions."""
    return [
        replace(row, labels={**row.labels, "sampler": name}, scores={"noise": own[name] / own["gaussian"]})
        for row in select(rows, part="estimators")
        for name, own in ((name, row.scores) for name in samplers or SAMPLERS)
    ]


def _panels(rows: Rows) -> list[Chart]:
    own, at, styles = select(rows, part="figure 7"), "directions |A|", {"fixed": "dashed", "sobol": "dotted"}
    after, worst = (curves(own, "count", score, NAME, styles) for score in ("after", "worst"))
    noise = curves(_noise(rows, "sobol", "orthogonal"), "count", "noise", "d = {dim}, {sampler}", styles)
    options: dict[str, Any] = {"scale": "linear", "zero": True, "references": [Reference(1)]}
    normal = [Reference(NULL, "N(0, I)")]
    return [
        curves_chart("Mean over fresh directions", at, "statistic", after, references=normal),
        curves_chart("Worst of the fresh directions", at, "statistic", worst),
        curves_chart("Noise of the mean, relative to gaussian", at, "standard deviation", noise, **options),
    ]


def _shares(rows: Rows, part: str, on: list[str], score: str = "after") -> list[float]:
    """Resampled over fixed directions, place by place."""
    return [*ratios(select(rows, part=part), "kind", "resampled", "fixed", score, on).values()]


def _few(rows: Rows) -> Judgement:
    """Few resampled directions over each set of thousands that stay fixed."""
    own = select(rows, part="figure 7")
    few = by_label(select(own, kind="resampled", count=FEW), "dim", "after")
    many = [row for row in select(own, kind="fixed") if int(row.labels["count"]) >= MANY]
    ends = [(few.get(float(row.labels["dim"])), row.scores["after"]) for row in many]
    return judge_values([end / fixed for end, fixed in ends if end is not None], below(1))


def _more(rows: Rows) -> Judgement:
    """Each number of directions over the next smaller one, of the same kind."""
    ends = [values(own, "after") for own in grouped(select(rows, part="figure 7"), "dim", "kind").values()]
    return judge_values([after / before for own in ends for before, after in pairwise(own)], below(1))


def _resampling(rows: Rows) -> Judgement:
    times = _shares(rows, "figure 7", PLACE, "milliseconds")
    return judge_values(_shares(rows, "figure 7", PLACE), below(1), time=median(times) if times else None)


def _samplers(rows: Rows) -> Judgement:
    own = select(rows, part="samplers")
    found = [ratios(own, "sampler", name, "gaussian", "after", PLACE) for name in ("sobol", "orthogonal")]
    return judge_values(
        [ratio - 1 for one in found for ratio in one.values()], lambda change: abs(change) < 0.1
    )


STUDY = Study(
    name="slices",
    title="Directions: how many, fixed or resampled, drawn how",
    source="Balestriero & LeCun (2025), LeJEPA, Figure 7, Section 4.3 and Theorem 5",
    cells=cells,
    measure=measure,
    story=Path(__file__).with_suffix(".md"),
    tables=[
        TableSpec("counts", _counts),
        TableSpec("longer", _longer),
        TableSpec("estimators", lambda rows: pivot(_noise(rows), PLACE, "{sampler}", "noise")),
        TableSpec("samplers", lambda rows: pivot(select(rows, part="samplers"), PLACE, "{sampler}", "after")),
    ],
    charts=[ChartSpec("ends", _panels)],
    statements=[
        Statement("few", _few),
        Statement("more", _more),
        Statement("resampling", _resampling),
        Statement("patience", lambda rows: judge_values(_shares(rows, "longer", ["dim"]), below(1))),
        Statement(
            "noise", lambda rows: judge_values(values(_noise(rows, "sobol", "orthogonal"), "noise"), below(1))
        ),
        Statement("end", _samplers),
    ],
)
