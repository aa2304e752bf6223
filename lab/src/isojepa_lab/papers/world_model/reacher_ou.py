"""Joint angles from pixels, Gaussian pairs: R^2 against their correlation and the weight of SIGReg."""

from functools import partial
from typing import Any

from isojepa.config import Config
from isojepa.registry import build_spec
from isojepa.report.charts import Chart, Curve, Reference, curves_chart
from isojepa_lab.environments.wrapped_angles import aligned_r2, normal_r2, r2_ceiling
from isojepa_lab.papers.world_model import reacher
from isojepa_lab.studies.cells import Cell, crossed
from isojepa_lab.studies.published import read_published
from isojepa_lab.studies.rows import Lines, Rows
from isojepa_lab.studies.specs import ChartSpec, TableSpec
from isojepa_lab.studies.statements import Judgement, Statement, judge_lines, judge_values
from isojepa_lab.studies.study import Study

PUBLISHED: dict[Any, dict[str, Any]] = {
    row["rho"]: row for row in read_published("identifiability_reacher_ou")
}
RHOS = tuple(PUBLISHED)
RHO = 0.95  # where weights are compared, and angles squashed
FAR, LIGHTER = (0.3, 0.5), (0.01, 0.05)  # where less than the balanced weight is tried, and what
HIGH = 0.9  # correlation from which the ceiling is to be reached
SHARE, CLEAR = 0.99, 0.98  # of the ceiling; of R^2 where angles are squashed
PLAIN, SQUASHED, BARE = "as published", "squashed", "without BatchNorm"
FULL, FULL_SQUASHED = "all 64 × 64 pixels", "squashed, all 64 × 64 pixels"
LONG, LONG_SQUASHED = "three times the steps", "squashed, three times the steps"


def cells(scale: str) -> list[Cell]:
    """All correlations at a weight for each, others at one; at paper scale all of both, with its epochs."""
    build = partial(config, scale)
    if scale == "paper":
        return crossed(build, condition=PLAIN, rho=RHOS, weight=reacher.WEIGHTS, seed=range(3))
    weight = reacher.balanced(RHO)
    cells = crossed(build, condition=SQUASHED, rho=RHO, weight=weight, seed=0)
    for rho in (0.5, RHO) if scale == "quick" else sorted(RHOS, reverse=True):
        cells += crossed(build, condition=PLAIN, rho=rho, weight=reacher.balanced(rho), seed=0)
    if scale == "quick":
        return cells
    cells += crossed(build, condition=PLAIN, rho=FAR, weight=LIGHTER, seed=0)
    others = [one for one in reacher.WEIGHTS if one != weight]
    cells += crossed(build, condition=PLAIN, rho=RHO, weight=others, seed=0)
    conditions = (LONG, LONG_SQUASHED, FULL, FULL_SQUASHED, BARE)
    return cells + crossed(build, condition=conditions, rho=RHO, weight=weight, seed=0)


def config(scale: str, condition: str, rho: float, weight: float, seed: int) -> Config:
    """The run of a condition at a correlation and a weight."""
    pairs = {"quick": 600, "standard": reacher.PAIRS, "paper": reacher.PUBLISHED_PAIRS}[scale]
    held = 400 if scale == "quick" else 10_000
    world = build_spec(
        "world",
        "reacher",
        rho=rho,
        pairs=pairs,
        held_out=held,
        squash=condition in (SQUASHED, FULL_SQUASHED, LONG_SQUASHED),
        pool=1 if scale == "paper" or condition in (FULL, FULL_SQUASHED) else reacher.POOL,
    )
    longer = condition in (LONG, LONG_SQUASHED)
    return reacher.config(world, weight, seed, scale, condition != BARE, longer)


def _chosen(rows: Rows) -> Rows:
    return reacher.chosen(rows.where(condition=PLAIN), "rho")


def _lines(rows: Rows, *by: str) -> Lines:
    lines = rows.lines(
        [*by, "weight"],
        *("r2", "r2_z_to_h", "r2_sincos", "orthogonality_error", "error", "bound"),
        *("ceiling", "length", "oracle", "longer"),
        reacher.joints,
        runs=len,
        holds=lambda own: all(row.scores.get("holds") is not False for row in own),
    )
    for line in lines:
        published = PUBLISHED.get(line.get("rho", RHO), {})
        line |= {"published": published.get("r2_h_to_z"), "published_z_to_h": published.get("r2_z_to_h")}
        if line["ceiling"] != 1:
            line["best_share"] = aligned_r2(line.get("rho", RHO)) / r2_ceiling()
        line["share"] = None if line["r2"] is None or not line["ceiling"] else line["r2"] / line["ceiling"]
    return lines


def _rhos(rows: Rows) -> Lines:
    return _lines(_chosen(rows), "rho")


def _weights(rows: Rows) -> Lines:
    return _lines(rows.where(condition=PLAIN, rho=RHO))


def _conditions(rows: Rows) -> Lines:
    return _lines(rows.where(rho=RHO, weight=reacher.balanced(RHO)), "condition")


def _panels(rows: Rows) -> list[Chart]:
    lines = _rhos(rows)

    def curve(name: str, key: str, color: int, style: str = "solid") -> Curve:
        return Curve(name, {line["rho"]: line[key] for line in lines}, color, style)

    linear = {"scale": "linear", "across_scale": "linear"}
    ceiling = [Reference(line["ceiling"], "ceiling") for line in lines[:1]]
    recovered = [curve("ours", "r2", 1), curve("published", "published", 3, "dots")]
    joints = [curve("shoulder", "shoulder", 1), curve("wrist", "wrist", 2)]
    errors = [curve("orthogonality error", "orthogonality_error", 1), curve("Procrustes error", "error", 2)]
    errors += [curve("bound", "bound", 4, "dashed")]
    return [
        curves_chart("R² of the angles", "correlation ρ", "R²", recovered, references=ceiling, **linear),
        curves_chart("By joint", "correlation ρ", "R²", joints, references=ceiling, **linear),
        curves_chart("Errors and the bound", "correlation ρ", "", errors, across_scale="linear"),
    ]


def _reached(rows: Rows) -> Judgement:
    lines = _rhos(rows).known("share").where(rho=lambda rho: rho >= HIGH)
    for line in lines:
        line["at"] = f"{line['rho']:g}"
    others = _conditions(rows).known("share").where(condition=(FULL, LONG))
    lines += [line | {"at": f"{RHO:g}, {line['condition']}"} for line in others]
    message = "{at}: {r2:.3f} of {ceiling:.3f}"
    return judge_lines(lines, lambda line: line["share"] >= SHARE, message, "share")


def _held(rows: Rows) -> Judgement:
    """Whether no interval of the bound lies below the error: it is an estimate, of 5,000 pairs."""
    lines = _lines(rows.where(condition=lambda name: name != BARE), "condition", "rho").known("bound")
    return judge_lines(lines, lambda line: line["holds"], "{condition}, {rho:g}", "error")


def _robust(rows: Rows) -> Judgement:
    values = [line["r2"] for line in _weights(rows).known("r2")]
    return judge_values(values, lambda r2: r2 >= max(values) - 0.02)


def _clear(rows: Rows) -> Judgement:
    lines = _conditions(rows).where(condition=(SQUASHED, FULL_SQUASHED, LONG_SQUASHED)).known("r2")
    return judge_lines(lines, lambda line: line["r2"] >= CLEAR, "{condition}: {r2:.4f}", "r2")


def _straight(rows: Rows) -> Judgement:
    """Whether lines are no longer than the oracle's: the interval of the difference holds 0."""
    lines = [line for line in reacher.detours(_chosen(rows), "rho") if line["rho"] >= HIGH]
    return judge_lines(lines, lambda line: line["low"] <= 0, "{rho:g}: {longer:+.3f}", "longer")


STUDY = Study.of_file(
    __file__,
    title="Pixels of an arm: Gaussian pairs",
    source="Klindt, LeCun & Balestriero (2026), Section 5.2, table of the Reacher (left), Appendix H",
    cells=cells,
    score=reacher.score,
    tables=TableSpec.named(rhos=_rhos, weights=_weights, conditions=_conditions),
    charts=[ChartSpec("recovery", _panels, legend="own")],
    statements=Statement.named(
        reached=_reached, clear=_clear, held=_held, robust=_robust, straight=_straight
    ),
    numbers=lambda rows: {
        "aligned_share": aligned_r2(RHO) / r2_ceiling(),
        "normal_share": normal_r2() / r2_ceiling(),
        "several": reacher.several(rows.where(condition=PLAIN), "rho"),
    },
)
