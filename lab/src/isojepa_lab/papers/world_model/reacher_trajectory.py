"""Joint angles from pixels, a policy's trajectories: R^2 against the stride, beside Gaussian pairs."""

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

from isojepa.config import Config
from isojepa.registry import build_spec
from isojepa.report.charts import Chart, Curve, Reference, curves_chart
from isojepa_lab.papers.world_model import reacher, reacher_ou
from isojepa_lab.studies.cells import Cell, Row, crossed
from isojepa_lab.studies.published import read_published
from isojepa_lab.studies.rank_correlations import rank_correlation
from isojepa_lab.studies.rows import Lines, Rows
from isojepa_lab.studies.specs import ChartSpec, TableSpec
from isojepa_lab.studies.statements import Judgement, Statement, judge_lines, judge_values, judged
from isojepa_lab.studies.study import Study

PUBLISHED: dict[Any, dict[str, Any]] = {
    row["stride"]: row for row in read_published("identifiability_reacher_trajectory")
}
STRIDES = tuple(PUBLISHED)
STRIDE = 8  # where weights are compared, and pairs weighed
POLICY, EXPLORED = "sac", "ou"  # the trained policy, and exploration whose joints are Gaussian processes
LONG = "sac, three times the steps"
GAUSSIAN = "Gaussian pairs"  # of the study reacher_ou, whose runs these are
WEIGHT = reacher.LEAST
STRENGTHS, METHOD = (0.5, 1.0), "reweight"  # of isotropise
MATCHED = 2.0  # ratio of rates up to which Gaussian pairs stand beside a stride
HALF = 0.5  # R^2 of the embedding from the angles that was never exceeded


def cells(scale: str) -> list[Cell]:
    """All strides at one weight, and at one stride all weights, strengths and policies.

    At paper scale all strides and weights with three seeds and the published epochs. The Gaussian pairs that
    stand beside are the runs of the study reacher_ou.
    """
    build = partial(config, scale)
    labels: dict[str, Any] = {"weight": WEIGHT, "strength": 0.0, "seed": 0}
    if scale == "quick":
        cells = crossed(build, policy=POLICY, stride=(1, STRIDE), **labels)
        return cells + crossed(build, policy=POLICY, stride=STRIDE, **labels | {"strength": 0.5})
    beside = [
        Cell(cell.config, {**cell.labels, "policy": GAUSSIAN})
        for cell in reacher_ou.cells(scale)
        if cell.labels["condition"] == reacher_ou.PLAIN
    ]
    if scale == "paper":
        every = labels | {"weight": reacher.WEIGHTS, "seed": range(3)}
        return crossed(build, policy=POLICY, stride=STRIDES, **every) + beside
    cells = crossed(build, policy=POLICY, stride=STRIDES, **labels)
    cells += crossed(build, policy=POLICY, stride=STRIDE, **labels | {"strength": STRENGTHS})
    cells += crossed(build, policy=(EXPLORED, LONG), stride=STRIDE, **labels)
    others = [weight for weight in reacher.WEIGHTS if weight != WEIGHT]
    return cells + crossed(build, policy=POLICY, stride=STRIDE, **labels | {"weight": others}) + beside


def config(scale: str, policy: str, stride: int, weight: float, strength: float, seed: int) -> Config:
    """The run of a policy's episodes at a stride, its pairs weighed where there is a strength."""
    episodes = 60 if scale == "quick" else 10_000
    each = 10 if scale != "standard" else reacher.PAIRS // episodes
    settings = {
        "policy": POLICY if policy == LONG else policy,
        "episodes": episodes,
        "stride": stride,
        "per_episode": each,
        "pool": 1 if scale == "paper" else reacher.POOL,
    }
    world = (
        build_spec("world", "reacher-isotropised", strength=strength, method=METHOD, **settings)
        if strength
        else build_spec("world", "reacher-episodes", **settings)
    )
    return reacher.config(world, weight, seed, scale, longer=policy == LONG)


def _chosen(rows: Rows) -> Rows:
    return reacher.chosen(rows.where(policy=POLICY, strength=0.0), "stride")


def _lines(rows: Rows, *by: str) -> Lines:
    lines = rows.lines(
        [*by, "weight"],
        *("r2", "r2_own", "r2_z_to_h", "r2_sincos", "orthogonality_error", "length", "oracle", "longer"),
        *("rho", "sigreg_joint", "floor", "floor_joint"),
        reacher.joints,
        reacher.by_joint("rho_each", "rho_{joint}"),
        reacher.by_joint("sigreg_each", "sigreg_{joint}"),
        runs=len,
    )
    for line in lines:
        published = PUBLISHED.get(line.get("stride", STRIDE), {})
        names = ("r2_z_to_h", "r2_h_to_shoulder", "r2_h_to_wrist", "rho_shoulder", "rho_wrist")
        line |= {f"published_{name}": published.get(name) for name in names}
    return lines


def _strides(rows: Rows) -> Lines:
    return _lines(_chosen(rows), "stride")


def _weights(rows: Rows) -> Lines:
    return _lines(rows.where(policy=POLICY, stride=STRIDE, strength=0.0))


def _policies(rows: Rows) -> Lines:
    return _lines(rows.where(stride=STRIDE, weight=WEIGHT, strength=0.0), "policy")


def _strengths(rows: Rows) -> Lines:
    """How much survives as pairs are weighed towards a Gaussian process of one rate."""
    return _lines(rows.where(policy=POLICY, stride=STRIDE, weight=WEIGHT), "strength")


def _matched(rows: Rows) -> Lines:
    """Each stride beside the Gaussian pairs whose correlation is nearest, by its rate -log rho."""
    gaussian = reacher.chosen(rows.where(policy=GAUSSIAN), "rho").lines(["rho"], "r2")
    lines = Lines()
    for line in _strides(rows).known("rho", "r2").where(rho=lambda rho: 0 < rho < 1) if gaussian else ():
        at = min(gaussian, key=lambda one: abs(math.log(math.log(one["rho"]) / math.log(line["rho"]))))
        lines.append(line | {"rho_gaussian": at["rho"], "r2_gaussian": at["r2"]})
    return lines.known("r2_gaussian")


def _panels(rows: Rows) -> list[Chart]:
    lines = _strides(rows)

    def curve(name: str, key: str, color: int, style: str = "solid") -> Curve:
        return Curve(name, {line["stride"]: line[key] for line in lines}, color, style)

    joints = [curve("shoulder", "shoulder", 1), curve("wrist", "wrist", 2)]
    joints += [curve("shoulder, published", "published_r2_h_to_shoulder", 1, "dots")]
    joints += [curve("wrist, published", "published_r2_h_to_wrist", 2, "dots")]
    whole = [curve("on Gaussian states", "r2", 1), curve("on held-out episodes", "r2_own", 2)]
    paths = [
        curve("straight lines, decoded", "length", 1),
        curve("of the true angles", "oracle", 2, "dashed"),
    ]
    gaussian = reacher.chosen(rows.where(policy=GAUSSIAN), "rho").lines(["rho"], "r2")
    # by what is forgotten across a pair, 1 - rho, on an axis that does not press small ones together
    matched = [Curve("Gaussian pairs", {_lost(line): line["r2"] for line in gaussian}, 3)]
    matched += [Curve("trajectories", {_lost(line): line["r2"] for line in lines.known("rho")}, 1)]
    normal = [curve("both joints", "sigreg_joint", 1), curve("shoulder", "sigreg_shoulder", 2)]
    normal += [curve("wrist", "sigreg_wrist", 3)]
    floor = [Reference(line["floor_joint"], "normal") for line in lines.known("floor_joint")[:1]]
    doses = _strengths(rows)
    weighed = [
        Curve(name, {line["strength"]: line[key] for line in doses}, color)
        for color, (name, key) in enumerate(
            [("on Gaussian states", "r2"), ("on held-out episodes", "r2_own")], 1
        )
    ]
    lengths = [
        Curve(
            name,
            {row.scores["r2"]: row.scores["length"] for row in rows.where(policy=test) if _drawn(row)},
            color,
            "dots",
        )
        for color, (name, test) in enumerate(
            [("trajectories", lambda name: name != GAUSSIAN), ("Gaussian pairs", GAUSSIAN)], 1
        )
    ]
    return [
        curves_chart("R² by joint, Gaussian states", "stride δ", "R²", joints, scale="linear"),
        curves_chart("R² of both", "stride δ", "R²", whole, scale="linear"),
        curves_chart("Length over chord", "stride δ", "", paths, scale="linear"),
        curves_chart("Length against R²", "R²", "length over chord", lengths, across_scale="linear"),
        curves_chart("At matched correlation", "1 − ρ", "R²", matched, scale="linear"),
        curves_chart("SIGReg of the differences", "stride δ", "", normal, references=floor),
        curves_chart(
            "Pairs weighed, stride 8", "strength", "R²", weighed, scale="linear", across_scale="linear"
        ),
    ]


def _lost(line: Mapping[str, Any]) -> float:
    """What is forgotten across a pair, to the digits that an axis has room for."""
    return float(f"{1 - line['rho']:.2g}")


def _drawn(row: Row) -> bool:
    """Whether a run has a length and an R^2."""
    return None not in (row.scores.get("r2"), row.scores.get("length"))


def _ordered(rows: Rows) -> Judgement:
    """Whether lines are the longer, the less is recovered: Spearman's rank correlation over all encoders."""
    drawn_rows = [row for row in rows if _drawn(row)]
    r2, length = ([row.scores[name] for row in drawn_rows] for name in ("r2", "length"))
    rank = rank_correlation(r2, length, [row.record for row in drawn_rows])
    if rank is None or math.isnan(rank.high):
        return judged([])
    return judged([rank.high < 0], rank=rank.estimate, low=rank.low, high=rank.high, encoders=len(drawn_rows))


def _low(rows: Rows) -> Judgement:
    values = [line["r2_z_to_h"] for line in _strides(rows).known("r2_z_to_h")]
    return judge_values(values, lambda r2: r2 <= HALF)


def _shifted(rows: Rows) -> Judgement:
    """Whether part of the failure is that encoders are asked about states that their law hardly has."""
    lines = _strides(rows).known("r2", "r2_own")
    return judge_lines(lines, lambda line: line["r2_own"] > line["r2"], "{stride:d}: {r2_own:.2f}", "r2_own")


def _bent(rows: Rows) -> Judgement:
    """Whether lines are longer than the oracle's, with an interval that shows it."""
    lines = reacher.detours(_chosen(rows), "stride")
    return judge_lines(lines, lambda line: line["low"] > 0, "{stride:d}: {longer:+.3f}", "longer")


def _below(rows: Rows) -> Judgement:
    """Whether trajectories are recovered less than Gaussian pairs of about their rate -log rho."""
    beside, alone = Lines(), []
    for line in _matched(rows):
        ratio = math.log(line["rho_gaussian"]) / math.log(line["rho"])
        if 1 / MATCHED <= ratio <= MATCHED:
            beside.append(line)
        else:
            alone.append(f"{line['stride']}")
    template = "{stride:d}: {r2:.2f} at ρ {rho:.3f} against {r2_gaussian:.2f} at ρ {rho_gaussian:g}"
    facts: dict[str, Any] = {"alone": ", ".join(alone) or "none"}
    return judge_lines(beside, lambda line: line["r2"] < line["r2_gaussian"], template, "r2", **facts)


def _normal(rows: Rows) -> Judgement:
    """Whether the best stride is among those whose differences are nearest to normal."""
    lines = _strides(rows).known("r2", "sigreg_joint")
    best = max(lines, key=lambda line: line["r2"], default=None)
    near = sorted(lines, key=lambda line: line["sigreg_joint"])[:2]
    facts: dict[str, Any] = {} if best is None else {"best": best["stride"]}
    return judged(
        [best in near] if best else [], near=", ".join(f"{line['stride']}" for line in near), **facts
    )


def _survives(rows: Rows) -> Judgement:
    """Whether weighing pairs towards the theorems' law raises what is recovered."""
    lines = _strengths(rows).known("r2")
    plain = {line["strength"]: line["r2"] for line in lines}.get(0.0)
    strong = [line for line in lines if line["strength"]] if plain is not None else []
    template = "{strength:g}: {r2:.2f}"
    return judge_lines(strong, lambda line: line["r2"] > (plain or 0.0), template, "r2", plain=plain)


STUDY = Study.of_file(
    __file__,
    title="Pixels of an arm: a policy's trajectories",
    source="Klindt, LeCun & Balestriero (2026), Section 5.2, table of the Reacher (right), Appendix H",
    cells=cells,
    score=reacher.score,
    tables=TableSpec.named(
        strides=_strides,
        laws=_strides,
        matched=_matched,
        strengths=_strengths,
        weights=_weights,
        policies=_policies,
    ),
    charts=[ChartSpec("recovery", _panels, legend="own")],
    numbers=lambda rows: {"several": reacher.several(rows.where(policy=POLICY, strength=0.0), "stride")},
    statements=Statement.named(
        low=_low,
        shifted=_shifted,
        below=_below,
        normal=_normal,
        survives=_survives,
        bent=_bent,
        ordered=_ordered,
    ),
)
