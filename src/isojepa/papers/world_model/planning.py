"""Plans in the latents of trained encoders, carried out by the simulated arm; and straight lines in them.

Encoders of frames are runs of the studies reacher_ou and reacher_trajectory, taken from the folder of records
or trained there. Beside them stand the true angles, a warp of them, and the same network untrained. All are
given the same recorded episodes to learn a transition from, the same starts and the same goals.

    controllers    planner -> success, its interval, median error at the end in rad, milliseconds of a plan
    error, length  of straight lines by decoder, and by the size of the library that decodes them
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from isojepa import runs
from isojepa.align.maps import AlignmentMap
from isojepa.config import config_from
from isojepa.encoders.conv import Conv
from isojepa.papers.world_model import reacher_ou, reacher_trajectory
from isojepa.plan import LineSpec, compare_lines, density_curve, draw_pairs
from isojepa.plan.closed_loop import (
    FAIR,
    PLANNERS,
    PROTOCOLS,
    SETTINGS,
    Angles,
    Controller,
    Encoder,
    Frames,
    Learned,
    ReacherPlant,
    chance,
    drawn_tasks,
    evaluate,
    oracle,
    record,
    rest,
    tasks_from_episodes,
    translated,
    warped,
)
from isojepa.plan.decoders import DECODERS
from isojepa.report.charts import Chart, Curve, HeatMap, Panel, curves_chart
from isojepa.seeds import generator
from isojepa.studies.cells import RECORDS, Cell, Computation
from isojepa.studies.rows import Lines, Rows
from isojepa.studies.specs import ChartSpec, TableSpec
from isojepa.studies.statements import Judgement, Statement, judge_lines, judged
from isojepa.studies.study import Study
from isojepa.worlds.episodes import Episodes
from isojepa.worlds.reacher import Look, Reacher

GAUSSIAN, SQUASHED, TRAJECTORY = "Gaussian pairs", "Gaussian pairs, squashed", "trajectories"
TRUE, WARPED, UNTRAINED = "true angles", "warped angles", "untrained"
ENCODERS = (TRUE, GAUSSIAN, SQUASHED, TRAJECTORY, UNTRAINED, WARPED)
SEARCHES = tuple(name for name in PLANNERS if name != "inverse")
BESIDE = ("oracle", "random actions", "no action")
HEAD = "in the other's head"
WANTED = 0.9  # success of the best planner where the oracle always succeeds
CHEAPER = 100  # times that a policy is to be
LAG = 5  # steps between the frames that tell a velocity; one for what is known exactly
SIZES = (100, 300, 1000, 3000, 9000)


def cells(scale: str) -> list[Cell]:
    """Every encoder under both laws of goals and the published protocol; lines; and one in another's head."""
    quick = scale == "quick"
    size: dict[str, Any] = {"tasks": 4, "seeds": [0], "episodes": 10} if quick else {}
    size = size or {"tasks": 50, "seeds": [0, 1], "episodes": 300}
    if scale == "paper":
        size["seeds"] = list(range(5))
    trained = _configs()
    found = []

    def add(seconds: float, labels: dict[str, str], **settings: Any) -> None:
        found.append(Cell(Computation({**labels, **settings}, seconds=seconds), labels))

    for name in (TRUE, WARPED) if quick else ENCODERS:
        own = {"encoder": name}
        config = {"config": trained.get(name)}
        planners = {"planners": ["mpc", "inverse"] if quick else list(PLANNERS)}
        for goals in ("gaussian", "uniform"):
            add(300, own | {"part": "control", "goals": goals}, protocol="fair", **planners, **config, **size)
        settings = {"protocol": "published", "planners": ["cem"], **config, **size}
        add(120, own | {"part": "published", "goals": "episodes"}, **settings)
        if not quick:
            add(60, own | {"part": "lines"}, states=10_000, **config)
    if not quick:
        own = {"part": "head", "encoder": SQUASHED, "goals": "gaussian"}
        both = {"config": trained[SQUASHED], "head": trained[GAUSSIAN]}
        add(120, own, planners=["mpc", "inverse"], **both, **size)
    return found


def _configs() -> dict[str, dict[str, Any]]:
    """Of the encoders that are trained, their runs in the other studies."""
    wanted: dict[str, tuple[Callable[[str], list[Cell]], dict[str, Any]]] = {
        GAUSSIAN: (reacher_ou.cells, {"condition": reacher_ou.FULL}),
        SQUASHED: (reacher_ou.cells, {"condition": reacher_ou.FULL_SQUASHED}),
        TRAJECTORY: (
            reacher_trajectory.cells,
            {"policy": reacher_trajectory.FULL},
        ),
    }
    return {
        name: next(
            cell.trained.to_dict() for cell in listed("standard") if labels.items() <= cell.labels.items()
        )
        for name, (listed, labels) in wanted.items()
    }


def measure(cell: Cell) -> dict[str, Any]:
    """Control, straight lines, or control in another's head."""
    asked = cell.settings
    part = asked.pop("part")
    if part == "lines":
        return _lines(**asked)
    return _head(**asked) if part == "head" else _control(**asked)


def _encoder(name: str, config: Mapping[str, Any] | None) -> Encoder:
    if config is not None:
        return Frames(runs.train(config_from(dict(config)), RECORDS, progress=False).encoder.eval())
    known: dict[str, Encoder] = {TRUE: Angles(), WARPED: warped(Angles()), UNTRAINED: Frames(Conv(2).eval())}
    return known[name]


def _episodes(plant: ReacherPlant, law: str, count: int) -> tuple[Episodes, Episodes]:
    start = "gaussian" if law == "gaussian" else "uniform"
    return record(plant, count, 100, generator(0, "study planning"), start=start).split(0.3, 0)


def _learned(plant: ReacherPlant, encoder: Encoder, parts: tuple[Episodes, Episodes]) -> Learned:
    return Learned(plant, encoder, *parts, lag=LAG if isinstance(encoder, Frames) else 1)


def _control(
    encoder: str,
    config: Mapping[str, Any] | None,
    goals: str,
    protocol: str,
    planners: list[str],
    tasks: int,
    seeds: list[int],
    episodes: int,
) -> dict[str, Any]:
    plant, rules = ReacherPlant(), PROTOCOLS[protocol]
    parts = _episodes(plant, goals, episodes)
    learned = _learned(plant, _encoder(encoder, config), parts)
    setting = SETTINGS["published" if protocol == "published" else "receding"]
    controllers = {name: learned.controller(name, setting) for name in planners}
    others: list[Controller] = [oracle(plant, setting), chance(), rest()]
    beside = dict(zip(BESIDE, others, strict=True))

    def draw(source: torch.Generator) -> Any:
        if goals == "episodes":
            return tasks_from_episodes(parts[1], tasks, rules, source)
        return drawn_tasks(goals, tasks, rules, source)

    found = evaluate(plant, {**controllers, **beside}, draw, rules, seeds=seeds)
    # a policy of short blocks has no such model, and a run of it alone would fit none
    r2 = learned.transition(setting.block).r2
    return {"controllers": _by_name(found.rows()), "transition_r2": r2}


def _head(
    encoder: str,
    config: Mapping[str, Any],
    head: Mapping[str, Any],
    goals: str,
    planners: list[str],
    tasks: int,
    seeds: list[int],
    episodes: int,
) -> dict[str, Any]:
    """One agent's frames, planned for in the latent of another that saw other frames, through the map."""
    plant = ReacherPlant()
    parts = _episodes(plant, goals, episodes)
    eyes, inner = _encoder(encoder, config), _learned(plant, _encoder(GAUSSIAN, head), parts)
    poses = np.concatenate(parts[0].vectors("qpos"))[::10]
    h1, h2 = (one(plant, poses).double().numpy() for one in (eyes, inner.encoder))
    seen = translated(eyes, AlignmentMap().fit(h1, h2))
    made = {name: inner.controller(name, SETTINGS["receding"], seen) for name in planners}
    found = evaluate(plant, made, lambda source: drawn_tasks(goals, tasks, FAIR, source), FAIR, seeds=seeds)
    return {"controllers": _by_name(found.rows())}


def _by_name(rows: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    kept = {"success": "success", "low": "low", "high": "high", "error": "median_error", "ms": "ms_per_plan"}
    return {row["controller"]: {name: row[key] for name, key in kept.items()} for row in rows}


def _lines(encoder: str, config: Mapping[str, Any] | None, states: int) -> dict[str, Any]:
    """Straight lines of the held-out Gaussian states, by decoder and by the size of the library."""
    look = Look(squash=bool(config and config["world"]["squash"]))  # latents are what it was trained with
    z = Reacher.shared(pairs=states, look=look).views[0].z.astype(float)
    h = _encoder(encoder, config)(ReacherPlant(), look.angles(z)).double().numpy()
    pairs = draw_pairs(len(z))
    found: dict[str, Any] = {"decoders": {}, "sizes": {}}
    for decoder in DECODERS:
        one = compare_lines(h, z, pairs, LineSpec(decoder=decoder))
        found["decoders"][decoder] = _told(one)
    for size, one in density_curve(h, z, pairs, [size for size in SIZES if size < states - 60]).items():
        found["sizes"][str(size)] = _told(one)
    return found


def _told(one: Any) -> dict[str, float]:
    return {
        "length": one.encoder.length.estimate,
        "oracle": one.oracle.length.estimate,
        "longer": one.length.estimate,
        "low": one.length.low,
        "high": one.length.high,
        "deviation": one.encoder.deviation.estimate,
        "error": one.encoder.error.estimate,
        "oracle_error": one.oracle.error.estimate,
    }


def _each(rows: Rows, score: str, key: str) -> Lines:
    """A line for each entry of a score that is a dictionary, with the labels of its row."""
    return Lines(
        {**row.labels, key: name, **entry} for row in rows for name, entry in row.scores[score].items()
    )


def _controllers(rows: Rows) -> Lines:
    own = _each(rows.where(part="control"), "controllers", "planner")
    own += _each(rows.where(part="head"), "controllers", "planner")
    for line in own:
        line["encoder"] = f"{line['encoder']} {HEAD}" if line["part"] == "head" else line["encoder"]
    order = {name: place for place, name in enumerate(ENCODERS)}
    own.sort(key=lambda line: (line["goals"], order.get(line["encoder"], len(order))))
    seen: set[tuple[str, str]] = set()
    found = Lines()
    for line in own:  # who plans in no latent is the same whatever the encoder
        place = (line["goals"], line["planner"])
        if line["planner"] in BESIDE:
            if place in seen:
                continue
            seen.add(place)
            line["encoder"] = ""
        found.append(line)
    return found


def _best(rows: Rows, goals: str = "gaussian") -> Lines:
    """The most successful planner of each encoder."""
    own = _controllers(rows).where(goals=goals, encoder=lambda name: name != "")
    names = list(dict.fromkeys(line["encoder"] for line in own))
    return Lines(max(own.where(encoder=name), key=lambda line: line["success"]) for name in names)


def _published(rows: Rows) -> Lines:
    return _each(rows.where(part="published"), "controllers", "planner")


def _decoders(rows: Rows) -> Lines:
    return _each(rows.where(part="lines"), "decoders", "decoder")


def _panels(rows: Rows) -> list[Panel]:
    own = _controllers(rows).where(encoder=lambda name: name in ENCODERS)
    maps: list[Panel] = []
    for goals in ("gaussian", "uniform"):
        lines = own.where(goals=goals)
        encoders = [name for name in reversed(ENCODERS) if lines.where(encoder=name)]
        at = {(line["encoder"], line["planner"]): line["success"] for line in lines}
        values = [[at.get((name, planner)) for planner in PLANNERS] for name in encoders]
        title = f"Success, goals {'from N(0, I)' if goals == 'gaussian' else 'uniform'}"
        maps.append(HeatMap("", title, "", PLANNERS, encoders, "planner", "", values, digits=2))
    return [*maps, _density(rows)]


def _density(rows: Rows) -> Chart:
    lines = _each(rows.where(part="lines"), "sizes", "size")
    names = [name for name in ENCODERS if lines.where(encoder=name)]
    curves = [
        Curve(name, {float(line["size"]): line["error"] for line in lines.where(encoder=name)}, color)
        for color, name in enumerate(names, 1)
    ]
    return curves_chart("Error of straight lines", "states in the library", "rad", curves)


def _reached(rows: Rows) -> Judgement:
    """Whether the best planner on an encoder of Gaussian pairs succeeds where the oracle always does."""
    sure = _controllers(rows).where(goals="gaussian", planner="oracle", success=1.0)
    asked = _best(rows).where(encoder=(GAUSSIAN, SQUASHED)) if sure else Lines()
    told = "{encoder}, {planner}: {success:.2f} [{low:.2f}, {high:.2f}]"
    return judge_lines(asked, lambda line: line["success"] >= WANTED, told, "success")


def _worse(rows: Rows) -> Judgement:
    """Whether no interval of the trajectory encoder meets that of the better Gaussian one."""
    best = {line["encoder"]: line for line in _best(rows)}
    gaussian = [best[name] for name in (GAUSSIAN, SQUASHED) if name in best]
    if TRAJECTORY not in best or not gaussian:
        return judged([])
    other, top = best[TRAJECTORY], max(gaussian, key=lambda line: line["success"])
    told = "{planner}, {success:.2f} [{low:.2f}, {high:.2f}]"
    return judged([top["low"] > other["high"]], top=told.format_map(top), other=told.format_map(other))


def _policy(rows: Rows) -> Judgement:
    """Whether a policy without search succeeds as often as the best search, for a hundredth of its time."""
    lines = _controllers(rows).where(goals="gaussian", encoder=(GAUSSIAN, SQUASHED))
    asked = Lines()
    for name in dict.fromkeys(line["encoder"] for line in lines):
        own = lines.where(encoder=name)
        policy, searches = own.where(planner="inverse"), own.where(planner=SEARCHES)
        if policy and searches:
            best = max(searches, key=lambda line: line["success"])
            ratio = best["ms"] / policy[0]["ms"]
            asked.append(policy[0] | {"search": best["planner"], "best": best["success"], "ratio": ratio})
    told = "{encoder}: {success:.2f} against {best:.2f} of {search}, {ratio:.0f} times as fast"
    return judge_lines(
        asked, lambda line: line["success"] >= line["best"] and line["ratio"] >= CHEAPER, told, "ratio"
    )


def _straight(rows: Rows) -> Judgement:
    lines = _decoders(rows).where(encoder=(GAUSSIAN, SQUASHED))
    told = "{encoder}, {decoder}: {longer:+.3f} [{low:+.3f}, {high:+.3f}]"
    return judge_lines(lines, lambda line: line["low"] <= 0, told, "longer")


def _bent(rows: Rows) -> Judgement:
    lines = _decoders(rows).where(encoder=TRAJECTORY)
    told = "{decoder}: {longer:+.3f} [{low:+.3f}, {high:+.3f}]"
    return judge_lines(lines, lambda line: line["low"] > 0, told, "longer")


def _borrowed(rows: Rows) -> Judgement:
    """Whether planning in another's head succeeds as often as in one's own, within the intervals."""
    lines = _controllers(rows).where(goals="gaussian")
    asked = Lines()
    for line in lines.where(encoder=f"{SQUASHED} {HEAD}"):
        for own in lines.where(encoder=GAUSSIAN, planner=line["planner"]):
            asked.append(line | {"own": own["success"], "least": own["low"]})
    told = "{planner}: {success:.2f}, the head's own eyes {own:.2f}"
    return judge_lines(asked, lambda line: line["high"] >= line["least"], told, "success")


STUDY = Study.of_file(
    __file__,
    title="Plans in a latent",
    source="Klindt, LeCun & Balestriero (2026), Section 5.4, Figures 4c, 4d and 5, Appendix H",
    cells=cells,
    measure=measure,
    tables=TableSpec.named(best=_best, controllers=_controllers, published=_published, decoders=_decoders),
    charts=[ChartSpec("success", _panels, size=(5.2, 4.0))],
    statements=Statement.named(
        reached=_reached, worse=_worse, policy=_policy, straight=_straight, bent=_bent, borrowed=_borrowed
    ),
)
