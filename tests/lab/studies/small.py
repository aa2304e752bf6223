"""A study whose runs are never trained: records with made-up scores, a table, two pictures."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from isojepa.config import Config
from isojepa.encoders.coupling import CouplingSpec
from isojepa.objectives.lejepa import LeJEPASpec
from isojepa.registry import build_spec
from isojepa.runs import record_path
from isojepa.training import RunDirectory
from isojepa.training.recipe import Recipe
from isojepa_lab.studies.findings import COMPARISON, Column, Findings, Picture, Table, compare
from isojepa_lab.studies.results import COLORS, plain_axes
from isojepa_lab.studies.study import Cell, ReportStudy, Row

DIMS = (2, 4, 8)
PUBLISHED = {2: (0.999998, 3.4e-07), 4: (0.999996, 1.2e-06), 8: (0.96, 0.01)}


def cells(scale: str) -> list[Cell]:
    seeds = {"quick": 1, "standard": 2, "paper": 3}[scale]
    return [cell(dim, seed) for dim in DIMS for seed in range(seeds)]


def cell(dim: int, seed: int) -> Cell:
    config = Config(
        world=build_spec("world", dim=dim, mixing="additive-coupling"),
        encoder=CouplingSpec(),
        objective=LeJEPASpec(weight=1e-3 / 3),
        training=Recipe(steps=10, batch_start=None),
        seed=seed,
    )
    return Cell(config, {"dim": dim, "objective": "SIGReg", "seed": seed})


def report(rows: Sequence[Row]) -> Findings:
    found = {dim: [row.scores["r2"] for row in rows if row.labels["dim"] == dim] for dim in DIMS}
    lines = [{"dim": dim, **compare(r2, *PUBLISHED[dim])} for dim, r2 in found.items() if r2]
    lines.append({"dim": 16, "ours": None, "mark": ""})
    worst = min(row.scores["r2"] for row in rows)
    return Findings(
        summary=[f"The **worst** R² is {worst:.4f} in {len(rows)} runs.", "- one thing\n- another, `a < b`"],
        tables=[
            Table(
                "against",
                "Against | the published",
                (Column("dim", "latents"), *COMPARISON),
                lines,
                "A *note*.",
            ),
            Table(
                "words",
                "Words",
                (Column("claim", "claim"), Column("holds", "holds"), Column("at", "first seen | at", "d")),
                [
                    {
                        "claim": "it is <b>above</b> 0.9 | everywhere, at every seed there is",
                        "holds": True,
                        "at": 8,
                    },
                    {"claim": "it is below", "holds": False, "at": None},
                    {"claim": "a third", "holds": None, "at": 1024.0},
                ],
            ),
        ],
        pictures=[_picture("curve", rows), _picture("again", rows)],
        notes=["Nothing was trained.", "Twice: see [the rows](small.json)."],
    )


def _picture(name: str, rows: Sequence[Row]) -> Picture:
    figure = Figure(figsize=(9, 3.2), dpi=90, layout="constrained")
    axes = figure.subplots()
    dims = [row.labels["dim"] for row in rows]
    axes.plot(dims, [row.scores["r2"] for row in rows], "o", color=COLORS[0], label="ours")
    plain_axes(axes, "R² over the number of latents", "latents", "R²")
    return Picture(name, "R² of every run; look at the *last*.", figure)


STUDY = ReportStudy(
    name="small",
    title="A small study of <nothing>",
    claim="Made-up numbers reach the page as they are.",
    source="Nobody (2026), Table 0",
    cells=cells,
    report=report,
)


def scores_of(one: Cell) -> dict[str, Any]:
    dim, seed = one.config.world.dim, one.config.seed
    r2 = 1 - 1e-6 * dim / 3 - 1e-7 * seed
    return {
        "r2": r2,
        "r2_interval": [r2 - 1e-7, r2 + 1e-7],
        "bound": float("inf"),
        "sharper": float("nan"),
        "holds": True,
        "refuted": None,
        "samples": 40_000,
    }


def leave_records(some: Iterable[Cell], folder: Path, status: str = "done") -> None:
    """What a sweep leaves of cells: records that are finished and scored."""
    for one in some:
        record = RunDirectory.start(record_path(one.config, folder), one.config.to_dict())
        metrics = {"loss": 0.1 / 3, "step": 10}
        record.finish({"status": status, "reason": "", "seconds": 100 / 3, "steps": 10, "metrics": metrics})
        record.save_scores(scores_of(one))
