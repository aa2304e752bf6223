"""The ceiling of the published pixel world: an angle that is seen modulo 2 pi, against its own spread.

Trains nothing: the formula of `environments/wrapped_angles.py`, a simulation of it, and the published table.
"""

import math
from typing import Any

import numpy as np
import torch

from isojepa.report.charts import Chart, Curve, Reference, curves_chart
from isojepa.seeds import generator
from isojepa_lab.environments.wrapped_angles import (
    aligned_r2,
    normal_r2,
    r2_ceiling,
    sample_ceiling,
    wrapped_share,
)
from isojepa_lab.studies.cells import Cell, Computation
from isojepa_lab.studies.published import read_published
from isojepa_lab.studies.rows import Lines, Rows
from isojepa_lab.studies.specs import ChartSpec, TableSpec
from isojepa_lab.studies.statements import Judgement, Statement, asks, at_most, judge_values
from isojepa_lab.studies.study import Study

SPREADS = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.35, 1.5, 1.75, 2.0, 2.5, 3.0)
PLATEAU = 0.9  # correlation from which the published R^2 is the same
DIGIT = 0.005  # half a unit of the last printed digit
STATES, BINS = 4_000_000, 500
PUBLISHED: dict[float, dict[str, Any]] = {
    float(str(row["rho"])): row for row in read_published("identifiability_reacher_ou")
}


def cells(scale: str) -> list[Cell]:
    """Spreads, the published correlations, and sets of as many states as were evaluated on."""
    quick = scale == "quick"
    states = {"states": 100_000 if quick else STATES}
    cells = [
        Cell(Computation({"spread": spread} | states), {"part": "spread", "spread": spread})
        for spread in (SPREADS[::5] if quick else SPREADS)
    ]
    cells += [Cell(Computation({"rho": rho}), {"part": "rho", "rho": rho}) for rho in PUBLISHED]
    sets = {"states": 10_000, "sets": 20 if quick else 400}
    return [*cells, Cell(Computation(sets), {"part": "sets"})]


def measure(cell: Cell) -> dict[str, float]:
    """The ceiling by formula and by simulation; what the alignment is best at; sets of states."""
    how = cell.settings
    if "rho" in how:
        return {"aligned": aligned_r2(how["rho"]), "ceiling": r2_ceiling()}
    if "sets" in how:
        angles = torch.randn(how["states"], how["sets"], generator=generator(0, "study ceiling", "sets"))
        exact = sample_ceiling(angles.double().numpy())
        return {"mean": float(exact.mean()), "deviation": float(exact.std(ddof=1))}
    spread = how["spread"]
    simulated = simulate(spread, how["states"])
    return {"ceiling": r2_ceiling(spread), "simulated": simulated, "wrapped": wrapped_share(spread)}


def simulate(spread: float, states: int) -> float:
    """The share of the variance of drawn angles that their mean in narrow bins of a turn explains."""
    source = generator(0, "study ceiling", "angles")
    angles = spread * torch.randn(states, generator=source, dtype=torch.float64).numpy()
    bins = np.floor((angles % (2 * math.pi)) / (2 * math.pi) * BINS).astype(np.int64)
    count, total = np.bincount(bins, minlength=BINS), np.bincount(bins, angles, BINS)
    explained = (total**2 / np.maximum(count, 1)).sum() / states
    return float(explained / angles.var())


def _spreads(rows: Rows) -> Lines:
    return rows.where(part="spread").lines(["spread"], "wrapped", "ceiling", "simulated")


def _published(rows: Rows) -> Lines:
    """What was published by correlation, with the ceiling and the best-aligned function beside it."""
    lines = rows.where(part="rho").lines(["rho"], "ceiling", "aligned")
    for line in lines:
        published = PUBLISHED[line["rho"]]
        line |= {"published": published["r2_h_to_z"], "deviation": published["r2_h_to_z_std"]}
        line["above"] = line["published"] - line["ceiling"]
        line["share"] = line["aligned"] / line["ceiling"]
    return lines


def _panels(rows: Rows) -> list[Chart]:
    spreads, rhos = _spreads(rows), _published(rows)

    def curve(name: str, lines: Lines, x: str, y: str, color: int, style: str = "solid") -> Curve:
        return Curve(name, {line[x]: line[y] for line in lines}, color, style)

    scales = {"scale": "linear", "across_scale": "linear"}
    curves = [curve("ceiling", spreads, "spread", "ceiling", 1)]
    curves += [curve("simulated", spreads, "spread", "simulated", 2, "dots")]
    curves += [Curve("published, ρ from 0.9", {1.0: line["published"]}, 3, "dots") for line in rhos[-1:]]
    by_rho = [curve("published", rhos, "rho", "published", 3, "dots")]
    by_rho += [curve("best-aligned function", rhos, "rho", "aligned", 4, "dashed")]
    at_one = [Reference(line["ceiling"], "ceiling at 1") for line in rhos[:1]]
    return [
        curves_chart(
            "R² that frames allow", "standard deviation of the angle", "R²", curves, zero=True, **scales
        ),
        curves_chart("Standard deviation 1", "correlation ρ", "R²", by_rho, references=at_one, **scales),
    ]


def _plateau(rows: Rows) -> Judgement:
    """Whether the published plateau is the ceiling, to the digits that were printed."""
    off = [line["above"] for line in _published(rows) if line["rho"] >= PLATEAU]
    return judge_values(off, lambda above: abs(above) <= DIGIT)


def _numbers(rows: Rows) -> dict[str, float | None]:
    sets, at_one = rows.where(part="sets"), rows.where(part="spread", spread=1.0)
    return {
        "deviation": sets.mean("deviation"),
        "ceiling": at_one.mean("ceiling"),
        "normal": normal_r2(),
        "normal_share": normal_r2() / r2_ceiling(),
        "wrapped": at_one.mean("wrapped"),
    }


STUDY = Study.of_file(
    __file__,
    title="The ceiling of the Reacher's angles",
    source="Klindt, LeCun & Balestriero (2026), table of the Reacher and Appendix D",
    cells=cells,
    measure=measure,
    tables=TableSpec.named(spreads=_spreads, published=_published),
    charts=[ChartSpec("ceiling", _panels)],
    statements=Statement.named(
        below=asks(_published, "above", at_most(DIGIT), "{rho:g} ({published:.2f})"),
        plateau=_plateau,
        simulated=lambda rows: judge_values(
            [line["simulated"] - line["ceiling"] for line in _spreads(rows)], lambda off: abs(off) < DIGIT
        ),
        aligned=asks(
            lambda rows: _published(rows).where(rho=lambda rho: rho >= PLATEAU),
            "share",
            lambda share: share >= 0.99,
            "{rho:g} ({share:.3f})",
        ),
    ),
    numbers=_numbers,
)
