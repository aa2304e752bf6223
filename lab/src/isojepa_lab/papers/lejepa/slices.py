"""Directions of SIGReg: samples are moved by Adam on it, and looked at along fresh directions at the end."""

import math
import time
from itertools import pairwise
from statistics import fmean, median, stdev
from typing import Any

import torch
from torch import Tensor

from isojepa.objectives import SIGReg
from isojepa.objectives.directions import SAMPLERS, draw_directions
from isojepa.objectives.gaussianity import EppsPulley
from isojepa.report.charts import Chart, Reference, curves_chart
from isojepa.seeds import generator
from isojepa_lab.studies.cells import Cell, Computation
from isojepa_lab.studies.rows import Lines, Rows
from isojepa_lab.studies.specs import ChartSpec, TableSpec
from isojepa_lab.studies.statements import Judgement, Statement, below, judge_values
from isojepa_lab.studies.study import Study

NULL = 1.0594  # expectation of the statistic for samples that are N(0, 1): sqrt(2 pi) (1 - 3^{-1/2})
FEW, MANY, LONGER = 16, 1000, 4  # resampled directions of the claim; its "thousands"; factor of the steps
SIZES = {"samples": 256, "steps": 300, "fresh": 4096, "seeds": 2, "rate": 0.03}
QUICK = {"samples": 16, "steps": 5, "fresh": 32, "seeds": 1, "rate": 0.03}
NAME, PLACE, LOWER = "d = {dim}, {kind}", ["dim", "count"], below(1)
OTHERS = ("sobol", "orthogonal")
statistic = EppsPulley().statistic  # (samples, directions) -> (directions,)


def cells(scale: str) -> list[Cell]:
    """For each dimension: Figure 7, its ends after more steps, the samplers in training and as estimators."""
    cells, quick = [], scale == "quick"
    sizes, sets = (QUICK, 3) if quick else (SIZES, 400)
    few, more = ([4, 16], [1024]) if quick else ([2**k for k in range(1, 11)], [2048, 4096])
    for dim in (4, 8) if quick else (16, 64, 256):
        cases = [("figure 7", n, kind, "gaussian", 1) for n in few for kind in ("fixed", "resampled")]
        cases += [("figure 7", n, "fixed", "gaussian", 1) for n in more]
        cases += [("longer", FEW, "resampled", "gaussian", LONGER)]
        cases += [("longer", more[-1], "fixed", "gaussian", LONGER)]
        cases += [("samplers", n, "resampled", name, 1) for n in (4, 16, 64) for name in SAMPLERS]
        for part, count, kind, sampler, longer in cases:
            how = {"dim": dim, "count": count, "resample": kind == "resampled", "sampler": sampler}
            how |= {"steps": longer * sizes["steps"], "seeds": sizes["seeds"] if count <= 512 else 1}
            labels = {"part": part, "dim": dim, "count": count, "kind": kind, "sampler": sampler}
            cells.append(Cell(Computation(sizes | how), labels))
        for count in (4, 16, 64, 256):
            settings = {"samples": sizes["samples"], "dim": dim, "count": count, "sets": sets}
            cells.append(Cell(Computation(settings), {"part": "estimators", "dim": dim, "count": count}))
    return cells


def measure(cell: Cell) -> dict[str, float]:
    """The end of an optimization, or the noise of the samplers as estimators."""
    return estimate(**cell.settings) if "sets" in cell.settings else train(**cell.settings)


def train(
    dim: int, count: int, samples: int, steps: int, rate: float, fresh: int, seeds: int, **how: Any
) -> Any:
    """Statistic over fresh directions before and at the end of an optimization, means over seeds."""
    look = draw_directions(dim, fresh, generator(0, "study slices", "fresh", dim)).T
    columns: dict[str, list[float]] = {"before": [], "after": [], "worst": [], "milliseconds": []}
    for seed in range(seeds):
        x, began = begin(samples, dim, seed), time.perf_counter()
        end = optimize(x, SIGReg(slices=count, seed=seed, **how), steps, rate, seed)
        spent, last = time.perf_counter() - began, statistic(end @ look)
        numbers = (*map(float, (statistic(x @ look).mean(), last.mean(), last.max())), 1e3 * spent / steps)
        for column, number in zip(columns.values(), numbers, strict=True):
            column.append(number)
    spread = stdev(columns["after"]) if seeds > 1 else 0.0
    return {**{name: fmean(column) for name, column in columns.items()}, "after_spread": spread}


def estimate(samples: int, dim: int, count: int, sets: int) -> dict[str, float]:
    """Standard deviation over sets of directions, and mean, of the mean statistic of the first samples."""
    x, scores = begin(samples, dim, 0), dict[str, float]()
    for sampler in SAMPLERS:
        sources = [generator(repeat, "study slices", "sets", dim, count) for repeat in range(sets)]
        direction_sets = (draw_directions(dim, count, source, sampler) for source in sources)
        means = [float(statistic(x @ directions.T).mean()) for directions in direction_sets]
        scores |= {sampler: stdev(means), f"{sampler}_mean": fmean(means)}
    return scores


def begin(samples: int, dim: int, seed: int) -> Tensor:
    """Samples of a Gaussian with variances proportional to 1/k and mean variance 1: (samples, dim)."""
    variances = 1 / torch.arange(1, dim + 1)
    z = torch.randn(samples, dim, generator=generator(seed, "study slices", "samples", dim))
    return z * (variances * dim / variances.sum()).sqrt()


def optimize(x: Tensor, regularizer: SIGReg, steps: int, rate: float, seed: int) -> Tensor:
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
    selection = rows.where(part="figure 7")
    before = selection.where(count=FEW).pivot([], NAME, "before", count=lambda some: "none")
    return Lines([*before, *selection.pivot(["count"], NAME, "after")])


def _longer(rows: Rows) -> Lines:
    ends = rows.where(part=("figure 7", "longer"))
    return ends.pivot(["dim", "count", "kind"], "{part}", "after").known("longer")


def _relative(rows: Rows, part: str, *samplers: str) -> Rows:
    """What samplers end with, or their noise as estimators, over that of independent directions."""
    selection = rows.where(part=part)
    if part == "estimators":
        selection = selection.split("sampler", SAMPLERS, "after")
    return selection.where(sampler=samplers or tuple(SAMPLERS)).over(
        selection.where(sampler="gaussian"), "after", *PLACE
    )


def _panels(rows: Rows) -> list[Chart]:
    selection, at, styles = (
        rows.where(part="figure 7"),
        "directions |A|",
        {"fixed": "dashed", "sobol": "dotted"},
    )
    after, worst = (selection.curves("count", score, NAME, styles) for score in ("after", "worst"))
    noise = _relative(rows, "estimators", *OTHERS).curves("count", "after", "d = {dim}, {sampler}", styles)
    options: dict[str, Any] = {"scale": "linear", "zero": True, "references": [Reference(1)]}
    normal = [Reference(NULL, "N(0, I)")]
    return [
        curves_chart("Mean over fresh directions", at, "statistic", after, references=normal),
        curves_chart("Worst of the fresh directions", at, "statistic", worst),
        curves_chart("Noise of the mean, relative to gaussian", at, "standard deviation", noise, **options),
    ]


def _shares(rows: Rows, part: str, *on: str, score: str = "after") -> list[float]:
    """Resampled over fixed directions, place by place."""
    selection = rows.where(part=part)
    return selection.where(kind="resampled").over(selection.where(kind="fixed"), score, *on).values(score)


def _few(rows: Rows) -> Judgement:
    """Few resampled directions over each set of thousands that stay fixed."""
    few = rows.where(part="figure 7", kind="resampled", count=FEW)
    many = rows.where(part="figure 7", kind="fixed", count=lambda count: count >= MANY)
    return judge_values(few.over(many, "after", "dim").values("after"), LOWER)


def _more(rows: Rows) -> Judgement:
    """Each number of directions over the next smaller one, of the same kind."""
    ends = [group.values("after") for group in rows.where(part="figure 7").by("dim", "kind").values()]
    return judge_values([after / before for group in ends for before, after in pairwise(group)], LOWER)


def _resampling(rows: Rows) -> Judgement:
    times = _shares(rows, "figure 7", *PLACE, score="milliseconds")
    return judge_values(_shares(rows, "figure 7", *PLACE), LOWER, time=median(times) if times else None)


def _end(rows: Rows) -> Judgement:
    changes = [ratio - 1 for ratio in _relative(rows, "samplers", *OTHERS).values("after")]
    return judge_values(changes, lambda change: abs(change) < 0.1)


STUDY = Study.of_file(
    __file__,
    title="Directions: how many, fixed or resampled, drawn how",
    source="Balestriero & LeCun (2025), LeJEPA, Figure 7, Section 4.3 and Theorem 5",
    cells=cells,
    measure=measure,
    tables=TableSpec.named(
        counts=_counts,
        longer=_longer,
        estimators=lambda rows: _relative(rows, "estimators").pivot(PLACE, "{sampler}", "after"),
        samplers=lambda rows: rows.where(part="samplers").pivot(PLACE, "{sampler}", "after"),
    ),
    charts=[ChartSpec("ends", _panels)],
    statements=Statement.named(
        few=_few,
        more=_more,
        resampling=_resampling,
        patience=lambda rows: judge_values(_shares(rows, "longer", "dim"), LOWER),
        noise=lambda rows: judge_values(_relative(rows, "estimators", *OTHERS).values("after"), LOWER),
        end=_end,
    ),
)
