"""Level and power of tests along random directions, against their number and the dimension.

Theorem 2 says that the maximum over directions is a valid and consistent test if there are enough of them.
SIGReg takes the mean over few. Both are tests here, of samples of laws that have mean 0 and covariance I and
differ from N(0, I) along one axis, along all axes, or in the length of the rows alone; and of one that has
the wrong variance along one axis.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from isojepa.distributions import GeneralizedNormal
from isojepa.objectives.gaussianity import EppsPulley, Sliced
from isojepa.report.charts import Chart, Curve, curves_chart
from isojepa.seeds import generator
from isojepa.statistics.intervals import wilson
from isojepa_lab.studies.cells import Cell, Computation
from isojepa_lab.studies.rows import Lines, Rows
from isojepa_lab.studies.specs import ChartSpec, TableSpec
from isojepa_lab.studies.statements import Statement, asks
from isojepa_lab.studies.study import Study

ALPHA = 0.05
SAMPLES, TRIALS, DRAWS = 256, 400, 999
DIMS = (2, 8, 32, 128)
SLICES = (1, 4, 16, 64, 256, 1024)
NULL, ONE, ALL = "N(0, I)", "one axis Laplace", "all axes Laplace"
LENGTHS, SCALE = "heavy lengths", "one axis wide"
POWERFUL = 0.9


def _laplace(shape: tuple[int, ...], source: torch.Generator) -> Tensor:
    return GeneralizedNormal(1.0).sample(shape, source)


def _one_laplace(shape: tuple[int, ...], source: torch.Generator) -> Tensor:
    x = torch.randn(shape, generator=source)
    x[..., 0] = _laplace(shape[:-1], source)
    return x


def _lengths(shape: tuple[int, ...], source: torch.Generator) -> Tensor:
    """Half of the rows 1.4 times as long as of N(0, I), the others shorter: variance 1 in every direction."""
    long = (torch.rand((*shape[:-1], 1), generator=source) < 0.5).float()
    return torch.randn(shape, generator=source) * (1.4 * long + math.sqrt(2 - 1.4**2) * (1 - long))


def _wide(shape: tuple[int, ...], source: torch.Generator) -> Tensor:
    x = torch.randn(shape, generator=source)
    x[..., 0] *= 1.5
    return x


LAWS: dict[str, Callable[[tuple[int, ...], torch.Generator], Tensor]] = {
    NULL: lambda shape, source: torch.randn(shape, generator=source),
    ONE: _one_laplace,
    ALL: _laplace,
    LENGTHS: _lengths,
    SCALE: _wide,
}


def cells(scale: str) -> list[Cell]:
    """Every law, dimension, number of directions and reduction."""
    dims: Sequence[int] = DIMS
    slices: Sequence[int] = SLICES
    sizes = {"samples": SAMPLES, "trials": TRIALS, "draws": DRAWS}
    if scale == "quick":
        dims, slices, sizes = (2,), (1, 4), {"samples": 32, "trials": 10, "draws": 19}
    runs = []
    for dim in dims:
        for count in slices:
            for reduce in ("mean", "max"):
                labels = {"dim": dim, "slices": count, "reduce": reduce}
                seconds = 3e-8 * SAMPLES * count * 17 * (DRAWS + TRIALS * len(LAWS))
                runs.append(Cell(Computation({**labels, **sizes}, seconds=seconds), labels))
    return runs


def measure(cell: Cell) -> dict[str, Any]:
    """Shares of samples of each law that the test rejects at 0.05, with Wilson intervals.

    Directions are new for each trial, as they are for each step of SIGReg, and the same for its null: a
    sample is rejected if few of the null's values along these directions are as large.
    """
    settings = cell.settings
    dim, samples, trials, draws = (settings[name] for name in ("dim", "samples", "trials", "draws"))
    test = Sliced(EppsPulley(), slices=settings["slices"], reduce=settings["reduce"], seed=1)
    scores: dict[str, Any] = {}
    for law, draw in LAWS.items():
        source = generator(0, "study directions", law, dim)
        p = torch.cat([test.pvalue(draw((1, samples, dim), source), draws=draws) for _ in range(trials)])
        rejected = int((p <= ALPHA).sum())
        interval = wilson(rejected, trials, 0.95)
        scores |= {law: interval.estimate, f"{law} low": interval.low, f"{law} high": interval.high}
    return scores


def _lines(rows: Rows) -> Lines:
    lines = rows.lines(["dim", "slices", "reduce"], *LAWS, low=f"{NULL} low", high=f"{NULL} high")
    for line in lines:
        line["valid"] = line["low"] is not None and line["low"] <= ALPHA
    return lines


def _charts(rows: Rows) -> list[Chart]:
    charts = []
    for law in (ONE, ALL, LENGTHS):
        curves: list[Curve] = []
        for (dim,), group in rows.by("dim").items():
            styles = {"max": "dashed"}
            curves += group.curves("slices", law, f"d = {dim}, {{reduce}}", styles)
        for index, curve in enumerate(curves):
            curves[index] = Curve(curve.name, curve.points, index // 2 + 1, curve.style)
        charts.append(curves_chart(law, "directions", "share rejected", curves, scale="linear"))
    return charts


def _power(law: str, reduce: str) -> Callable[[Rows], Lines]:
    """Lines of the most directions."""
    return lambda rows: Lines(
        {**line, "power": line[law]} for line in _lines(rows).where(slices=max(SLICES), reduce=reduce)
    )


STUDY = Study.of_file(
    __file__,
    title="Tests along random directions",
    source="Balestriero & LeCun (2025), LeJEPA, Theorem 2",
    cells=cells,
    measure=measure,
    tables=TableSpec.named(shares=_lines),
    charts=[ChartSpec("power", _charts)],
    statements=Statement.named(
        level=asks(_lines, "valid", bool, "{slices} {reduce}, d = {dim} ([{low:.3f}, {high:.3f}])"),
        one=asks(_power(ONE, "max"), "power", lambda power: power >= POWERFUL, "d = {dim} ({power:.2f})"),
        every=asks(_power(ALL, "mean"), "power", lambda power: power >= POWERFUL, "d = {dim} ({power:.2f})"),
    ),
)
