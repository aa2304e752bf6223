"""Joint angles from pixels of an arm: which have an axis of their own, and a name, on whose paths."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from isojepa.config import Config
from isojepa.registry import build_spec
from isojepa.report.charts import HeatMap
from isojepa_lab.environments.reacher_frames import JOINTS
from isojepa_lab.papers.own.axis_scores import latent_rows
from isojepa_lab.papers.own.pixel_measures import STATES, measure
from isojepa_lab.papers.world_model import reacher, reacher_ou, reacher_trajectory
from isojepa_lab.studies.cells import Cell, Computation, crossed
from isojepa_lab.studies.rows import Lines, Rows
from isojepa_lab.studies.specs import ChartSpec, TableSpec
from isojepa_lab.studies.statements import Judge, Judgement, Statement, judge_lines
from isojepa_lab.studies.study import Study

STRIDE = reacher_trajectory.STRIDE
POLICY = {stride: f"policy, stride {stride}" for stride in (2, STRIDE, 32)}
PLAIN = POLICY[STRIDE]
WEIGHED, WHITE = f"{PLAIN}, isotropised", f"{PLAIN}, whitening"
EXPLORED, GAUSSIAN = f"exploration, stride {STRIDE}", "Gaussian pairs"
CONDITIONS = (PLAIN, WEIGHED, EXPLORED, GAUSSIAN)  # at standard scale
ALIKE = (EXPLORED, GAUSSIAN)  # whose joints are normal and of one rate: nothing may have a name
STRENGTH, WEAKER = 1.0, 0.5  # of isotropise; of the few pairs of the quick scale, which bear no more
WHITENING = 0.3  # the weight that whitening has in the study of recordings
SHOWN = 0.9  # R^2 from which an angle counts as shown, and rank correlation from which an axis is an angle
NOTABLE = 0.01  # of R^2, that straightening must add
WAYS = ("pairs", "paths")
WAY = "pairs"  # what tables show, where it is not said: all conditions have them
SIZES: dict[str, dict[str, int]] = {  # episodes whose frames are seen step by step, Gaussian states
    "quick": {"paths": 12, "states": 400},
    "standard": {"paths": 200, "states": 10_000},
    "paper": {"paths": 200, "states": 10_000},
}


def cells(scale: str) -> list[Cell]:
    """The conditions, whose encoders are runs of the studies of the Reacher, but for whitening."""
    if scale == "paper":  # other strides and whitening too
        every = (*POLICY.values(), WHITE, WEIGHED, EXPLORED, GAUSSIAN)
        return crossed(partial(_computation, scale), condition=every, seed=range(3))
    names = (PLAIN, WEIGHED, GAUSSIAN) if scale == "quick" else CONDITIONS
    return crossed(partial(_computation, scale), condition=names, seed=0)


def _computation(scale: str, condition: str, seed: int) -> Computation:
    settings = {"config": _config(scale, condition, seed).to_dict(), **SIZES[scale]}
    return Computation(settings, seconds=420.0)


def _config(scale: str, condition: str, seed: int) -> Config:
    if condition == GAUSSIAN:
        rho = reacher_ou.RHO
        return reacher_ou.config(scale, reacher_ou.PLAIN, rho, reacher.balanced(rho), seed)
    policy = reacher_trajectory.EXPLORED if condition == EXPLORED else reacher_trajectory.POLICY
    stride = next((stride for stride, name in POLICY.items() if name == condition), STRIDE)
    strength = 0.0 if condition != WEIGHED else WEAKER if scale == "quick" else STRENGTH
    config = reacher_trajectory.config(scale, policy, stride, reacher_trajectory.WEIGHT, strength, seed)
    if condition == WHITE:
        return Config(
            config.world,
            config.encoder,
            build_spec("objective", "whitening", weight=WHITENING),
            config.training,
            seed=config.seed,
        )
    return config


def _each(rows: Rows, states: str, way: str = WAY) -> Rows:
    """A row for each joint of an encoder whose axes were found in a way, scored on some states."""
    return Rows(
        one
        for row in rows
        for one in latent_rows(row, row.scores.get(way, {}).get(states, {}), JOINTS, way=way, states=states)
    )


def _lines(rows: Rows, states: str) -> Lines:
    """By condition, of both joints: all axes, sine and cosine, one axis, one that is straightened."""
    keys = ("linear", "own", "straight", "rank", "named")
    each = _each(rows, states)
    lines = Lines()
    for (condition,), group in rows.by("condition").items():
        line: dict[str, Any] = {"condition": condition}
        for place, joint in enumerate(JOINTS):
            one = each.where(condition=condition, latent=joint)
            line |= {f"{key}_{joint}": one.mean(key) for key in keys}
            for score in ("as_recorded", "circle"):
                scores = [row.scores[score][states][place] for row in group if score in row.scores]
                line[f"{score}_{joint}"] = sum(scores) / len(scores) if scores else None
        lines.append(line)
    return lines.known(*(f"linear_{joint}" for joint in JOINTS))


def _laws(rows: Rows) -> Lines:
    """By condition: what pairs of angles are like, turns counted and as frames show them."""
    return rows.lines(
        ["condition"],
        *(reacher.by_joint(score, f"{score}_{{joint}}") for score in ("rho", "rho_circle", "wound")),
    )


def _axes(rows: Rows, *ways: str) -> Lines:
    """Every axis: what it is a function of, and why it has a name, or none; found in all ways, or in some."""
    lines = Lines()
    for row in rows:
        for way in ways or WAYS:
            for number, axis in enumerate(row.scores.get(way, {}).get("axes", ())):
                share = {f"share_{joint}": one for joint, one in zip(JOINTS, axis["share"], strict=True)}
                line = {**row.labels, **axis, **share, "way": way, "number": number}
                lines.append(line | {"told": axis["reason"] or "–"})
    return lines


def _ways(rows: Rows) -> Lines:
    """Axes with a name, of two, and the rank correlations, by the way they were found."""
    lines = Lines()
    for (condition,), group in rows.by("condition").items():
        line: dict[str, Any] = {"condition": condition}
        for way in WAYS:
            each = _each(group, "own", way)
            names = each.mean("named")
            line |= {way: None if names is None else len(JOINTS) * names}
            line |= {f"rank_{way}_{joint}": each.where(latent=joint).mean("rank") for joint in JOINTS}
        lines.append(line)
    return lines


def _shown(states: str) -> Judge:
    """The judge of whether a linear map reads both angles off the embedding."""

    def judge(rows: Rows) -> Judgement:
        text = "{condition} ({linear_shoulder:.2f} / {linear_wrist:.2f})"
        return judge_lines(
            _lines(rows, states),
            lambda line: min(line[f"linear_{joint}"] for joint in JOINTS) >= SHOWN,
            text,
            "linear_wrist",
        )

    return judge


def _round(rows: Rows) -> Judgement:
    """Whether the axes on a policy's trajectories are functions of the shoulder more than of the wrist."""
    selection = _axes(rows, WAY).where(condition=(*POLICY.values(), WHITE))
    text = "{condition}, axis {number} ({share_shoulder:.2f} / {share_wrist:.2f})"
    return judge_lines(selection, lambda line: line["share_shoulder"] > line["share_wrist"], text)


def _single(rows: Rows) -> Judgement:
    """Whether an axis is a function of one joint, as names assume."""
    text = "{condition}, axis {number} ({share_shoulder:.2f} / {share_wrist:.2f})"
    return judge_lines(_axes(rows, WAY), lambda line: max(line["share"]) >= SHOWN, text)


def _named(states: str, test: Callable[[Any], bool]) -> Judge:
    """The judge of whether axes with a name pass a test."""

    def judge(rows: Rows) -> Judgement:
        lines = Lines(
            {**row.labels, **row.scores, "gain": row.scores["straight"] - row.scores["own"]}
            for way in WAYS
            for row in _each(rows, states, way)
            if row.scores["named"]
        )
        text = (
            "{condition}, {latent}, from {way} (rank {rank:.2f}, R² {own:.3f}, straightened {straight:.3f})"
        )
        return judge_lines(lines, test, text)

    return judge


def _is_joint(line: Mapping[str, Any]) -> bool:
    return bool(line["rank"] >= SHOWN)


def _helps(line: Mapping[str, Any]) -> bool:
    return bool(line["gain"] >= NOTABLE)


def _unnamed(asked: Lines) -> Judgement:
    text = "{condition}, axis {number}, from {way}, by {cue}, dependence {dependence:.3f}"
    return judge_lines(asked, lambda line: line["cue"] == "none", text)


def _refused(rows: Rows) -> Judgement:
    """Whether nothing has a name where joints are normal and of one rate."""
    return _unnamed(_axes(rows.where(condition=ALIKE)))


def _halves(rows: Rows) -> Judgement:
    """Whether nothing has a name where all axes are functions of the same joint more than of the other."""
    lines = Lines()
    for row in rows:
        for way in WAYS:
            axes = _axes(Rows([row]), way)
            if len({line["share_shoulder"] > line["share_wrist"] for line in axes}) == 1:
                lines += axes
    return _unnamed(lines)


def _gains(key: str, other: str) -> Judge:
    """The judge of whether another way to train raises something of the joints, on both kinds of states."""

    def judge(rows: Rows) -> Judgement:
        weakest = Lines()
        for states in STATES:
            lines = {line["condition"]: line for line in _lines(rows, states)}
            if PLAIN in lines and other in lines:
                for joint in JOINTS:
                    name = f"{key}_{joint}"
                    ends = {"before": lines[PLAIN][name], "after": lines[other][name]}
                    where = "Gaussian" if states == "gaussian" else "its own"
                    weakest.append({"joint": joint, "where": where, **ends})
        text = "{joint} on {where} states ({before:.2f} to {after:.2f})"
        return judge_lines(weakest, lambda line: line["after"] > line["before"], text)

    return judge


def _shaped(rows: Rows) -> Judgement:
    """Whether every axis of whitening is further from a normal law than those of SIGReg."""
    departures = {
        name: [line["departure"] for line in _axes(rows.where(condition=name), WAY)]
        for name in (PLAIN, WHITE)
    }
    lines = Lines(
        {"white": white, "plain": plain}
        for white, plain in zip(sorted(departures[WHITE]), sorted(departures[PLAIN]), strict=False)
    )
    text = "{white:.4f} beside {plain:.4f}"
    return judge_lines(lines, lambda line: line["white"] > line["plain"], text)


def _more_names(rows: Rows) -> Judgement:
    text = "{condition} ({pairs:.0f} to {paths:.0f})"
    return judge_lines(_ways(rows).known(*WAYS), lambda line: line["paths"] >= line["pairs"], text)


def _panels(rows: Rows) -> list[HeatMap]:
    """Each joint by condition, on both kinds of states: all axes, its own, and that straightened."""
    keys = {"linear": "all axes", "own": "own axis", "straight": "straightened", "circle": "sin, cos"}
    panels = []
    for states, kind in zip(STATES, ("Gaussian states", "held-out states of its own law"), strict=True):
        lines = _lines(rows, states)
        lines.reverse()  # rows of a map go up
        for joint in JOINTS:
            values = [[line[f"{key}_{joint}"] for key in keys] for line in lines]
            names = [line["condition"] for line in lines]
            title = f"{joint.capitalize()}: R² on {kind}"
            panels.append(HeatMap("", title, "", list(keys.values()), names, "", "", values, digits=2))
    return panels


STUDY = Study.of_file(
    __file__,
    title="Pixels of an arm: axes with names",
    source="Klindt, LeCun & Balestriero (2026), Section 5.2, table of the Reacher, Appendix H",
    cells=cells,
    measure=measure,
    tables=TableSpec.named(
        gaussian=lambda rows: _lines(rows, "gaussian"),
        own=lambda rows: _lines(rows, "own"),
        axes=_axes,
        ways=_ways,
        laws=_laws,
    ),
    charts=[ChartSpec("recovery", _panels, columns=2, size=(5.2, 4.0))],
    statements=Statement.named(
        both=_shown("gaussian"),
        both_own=_shown("own"),
        round=_round,
        single=_single,
        right=_named("own", _is_joint),
        refused=_refused,
        halves=_halves,
        straightened=_named("own", _helps),
        straightened_gaussian=_named("gaussian", _helps),
        gains=_gains("linear", WEIGHED),
        gains_axes=_gains("own", WEIGHED),
        whitened=_gains("linear", WHITE),
        shaped=_shaped,
        more_names=_more_names,
    ),
)
