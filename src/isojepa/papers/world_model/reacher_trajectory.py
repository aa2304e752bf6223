"""Joint angles from pixels, a policy's trajectories: R^2 against the stride, beside Gaussian pairs."""

from functools import partial
from typing import Any

from isojepa.config import Config
from isojepa.papers.world_model import reacher
from isojepa.registry import make
from isojepa.report.charts import Chart, Curve, curves_chart
from isojepa.studies.cells import Cell, crossed
from isojepa.studies.published import read_published
from isojepa.studies.rows import Lines, Rows
from isojepa.studies.settings import shortened
from isojepa.studies.specs import ChartSpec, TableSpec
from isojepa.studies.statements import Judgement, Statement, judge_lines, judge_values
from isojepa.studies.study import Study

PUBLISHED: dict[Any, dict[str, Any]] = {
    row["stride"]: row for row in read_published("identifiability_reacher_trajectory")
}
STRIDES = tuple(PUBLISHED)
STRIDE = 8  # where weights are compared
POLICY, EXPLORED = "sac", "ou"  # the trained policy, and exploration whose joints are Gaussian processes
HALF = 0.5  # R^2 of the embedding from the angles that was never exceeded


def cells(scale: str) -> list[Cell]:
    """All strides at one weight, all weights at one; at paper scale all with three seeds and its epochs."""
    asked = partial(_config, scale)
    if scale == "quick":
        found = crossed(asked, policy=POLICY, stride=(1, STRIDE), weight=reacher.WEIGHT, seed=0)
        return [Cell(shortened(cell.trained, 2), cell.labels) for cell in found]
    if scale == "paper":
        return crossed(asked, policy=POLICY, stride=STRIDES, weight=reacher.WEIGHTS, seed=range(3))
    own: dict[str, Any] = {"seed": 0}
    found = crossed(asked, policy=POLICY, stride=STRIDES, weight=reacher.WEIGHT, **own)
    others = [weight for weight in reacher.WEIGHTS if weight != reacher.WEIGHT]
    found += crossed(asked, policy=POLICY, stride=STRIDE, weight=others, **own)
    return found + crossed(asked, policy=EXPLORED, stride=STRIDE, weight=reacher.WEIGHT, **own)


def _config(scale: str, policy: str, stride: int, weight: float, seed: int) -> Config:
    episodes = 60 if scale == "quick" else 10_000
    each = 10 if scale != "standard" else reacher.PAIRS // episodes
    world = make(
        "world", "reacher-episodes", policy=policy, episodes=episodes, stride=stride, per_episode=each
    )
    steps = reacher.EPOCHS * each * episodes // reacher.BATCH if scale == "paper" else reacher.STEPS
    return reacher.config(world, weight, seed, steps)


def _chosen(rows: Rows) -> Rows:
    return reacher.chosen(rows.where(policy=POLICY), "stride")


def _lines(rows: Rows, *by: str) -> Lines:
    lines = rows.lines(
        [*by, "weight"],
        *("r2", "r2_own", "r2_z_to_h", "r2_sincos", "orthogonality_error", "length", "oracle", "longer"),
        reacher.joints,
        runs=len,
    )
    for line in lines:
        known = PUBLISHED.get(line.get("stride", STRIDE), {})
        names = ("r2_z_to_h", "r2_h_to_shoulder", "r2_h_to_wrist", "rho_shoulder", "rho_wrist")
        line |= {f"published_{name}": known.get(name) for name in names}
    return lines


def _strides(rows: Rows) -> Lines:
    return _lines(_chosen(rows), "stride")


def _weights(rows: Rows) -> Lines:
    return _lines(rows.where(policy=POLICY, stride=STRIDE))


def _policies(rows: Rows) -> Lines:
    return _lines(rows.where(stride=STRIDE, weight=reacher.WEIGHT), "policy")


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
    return [
        curves_chart("R² by joint, Gaussian states", "stride δ", "R²", joints, scale="linear"),
        curves_chart("R² of both", "stride δ", "R²", whole, scale="linear"),
        curves_chart("Length over chord", "stride δ", "", paths, scale="linear"),
    ]


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


STUDY = Study.of_file(
    __file__,
    title="Pixels of an arm: a policy's trajectories",
    source="Klindt, LeCun & Balestriero (2026), Section 5.2, table of the Reacher (right), Appendix H",
    cells=cells,
    score=reacher.score,
    tables=TableSpec.named(strides=_strides, weights=_weights, policies=_policies),
    charts=[ChartSpec("recovery", _panels)],
    statements=Statement.named(low=_low, shifted=_shifted, bent=_bent),
)
