"""Plans in the latents of trained encoders, carried out by the simulated arm; and straight lines in them.

Encoders of frames are runs of the studies reacher_ou and reacher_trajectory, taken from the folder of records
or trained there. Beside them stand the true angles, a warp of them, and the same network untrained. All are
given the same recorded episodes to learn a transition from, the same starts and the same goals.
"""

import math
from collections.abc import Callable
from typing import Any

from isojepa.planning.planners import SEARCHES
from isojepa.report.charts import Chart, Curve, HeatMap, Panel, curves_chart
from isojepa_lab.environments.latent_control import PLANNERS
from isojepa_lab.papers.world_model import reacher_ou, reacher_trajectory
from isojepa_lab.papers.world_model.planning_measures import BESIDE, TRUE, UNTRAINED, WARPED, measure
from isojepa_lab.studies.cells import Cell, Computation
from isojepa_lab.studies.rows import Lines, Rows
from isojepa_lab.studies.specs import ChartSpec, TableSpec
from isojepa_lab.studies.statements import Judgement, Statement, judge_lines, judged
from isojepa_lab.studies.study import Study

GAUSSIAN, SQUASHED, TRAJECTORY = "Gaussian pairs", "Gaussian pairs, squashed", "trajectories"
ENCODERS = (TRUE, GAUSSIAN, SQUASHED, TRAJECTORY, UNTRAINED, WARPED)
HEAD = "in the other's head"
FEWER = (TRUE, GAUSSIAN, TRAJECTORY)
SIZE = {"tasks": 40, "seeds": [0, 1], "episodes": 200}
WANTED = 0.9  # success of the best planner where the oracle always succeeds
CHEAPER = 100  # times that a policy is to be


def cells(scale: str) -> list[Cell]:
    """Every encoder, and some of them with uniform goals and under the published protocol.

    At paper scale all of them with all planners, on more tasks.
    """
    quick, whole = scale == "quick", scale == "paper"
    size: dict[str, Any] = {"tasks": 4, "seeds": [0], "episodes": 10} if quick else dict(SIZE)
    if whole:
        size["seeds"] = list(range(5))
    trained, some = _configs(), ["mpc", "inverse"]
    cells = []

    def add(seconds: float, labels: dict[str, str], **settings: Any) -> None:
        cells.append(Cell(Computation({**labels, **settings}, seconds=seconds), labels))

    for name in (TRUE, WARPED) if quick else ENCODERS:
        encoder_label, config = {"encoder": name}, {"config": trained.get(name)}
        fair = {"protocol": "fair", "planners": some if quick else list(PLANNERS), **config}
        add(240, encoder_label | {"part": "control", "goals": "gaussian"}, **fair, **size)
        if whole or name in FEWER:
            less = fair if whole else fair | {"planners": some}
            add(90, encoder_label | {"part": "control", "goals": "uniform"}, **less, **size)
            published = {"protocol": "published", "planners": ["cem"], **config}
            add(90, encoder_label | {"part": "published", "goals": "episodes"}, **published, **size)
        if not quick:
            add(60, encoder_label | {"part": "lines"}, states=10_000, **config)
            add(60, encoder_label | {"part": "regret"}, rows=4000, paths=100, steps=40, **config)
    if not quick:
        encoder_label = {"part": "head", "encoder": SQUASHED, "goals": "gaussian"}
        both = {"config": trained[SQUASHED], "head": trained[GAUSSIAN]}
        add(120, encoder_label, planners=some, **both, **size)
    return cells


def _configs() -> dict[str, dict[str, Any]]:
    """Of the encoders that are trained, their runs in the other studies."""
    sources: dict[str, tuple[Callable[[str], list[Cell]], dict[str, Any]]] = {
        GAUSSIAN: (reacher_ou.cells, {"condition": reacher_ou.LONG}),
        SQUASHED: (reacher_ou.cells, {"condition": reacher_ou.LONG_SQUASHED}),
        TRAJECTORY: (
            reacher_trajectory.cells,
            {"policy": reacher_trajectory.LONG},
        ),
    }
    return {
        name: next(
            cell.trained.to_dict() for cell in listed("standard") if labels.items() <= cell.labels.items()
        )
        for name, (listed, labels) in sources.items()
    }


def _each(rows: Rows, score: str, key: str) -> Lines:
    """A line for each entry of a score that is a dictionary, with the labels of its row."""
    return Lines(
        {**row.labels, "transition_r2": row.scores.get("transition_r2"), key: name, **entry}
        for row in rows
        for name, entry in row.scores[score].items()
    )


def _controllers(rows: Rows) -> Lines:
    selection = _each(rows.where(part=("control", "head")), "controllers", "planner")
    for line in selection:
        line["encoder"] = f"{line['encoder']} {HEAD}" if line["part"] == "head" else line["encoder"]
    order = {name: place for place, name in enumerate(ENCODERS)}
    selection.sort(key=lambda line: (line["goals"], order.get(line["encoder"], len(order))))
    return _once(selection)


def _once(own: Lines) -> Lines:
    """Lines in which who plans in no latent, and is the same whatever the encoder, stands once."""
    names: set[tuple[str, str]] = set()
    lines = Lines()
    for line in own:
        place = (line["goals"], line["planner"])
        if line["planner"] in BESIDE:
            if place in names:
                continue
            names.add(place)
            line["encoder"] = ""
        lines.append(line)
    return lines


def _best(rows: Rows, goals: str = "gaussian") -> Lines:
    """The most successful planner of each encoder."""
    controllers = _controllers(rows).where(goals=goals, encoder=lambda name: name != "")
    names = list(dict.fromkeys(line["encoder"] for line in controllers))
    return Lines(max(controllers.where(encoder=name), key=lambda line: line["success"]) for name in names)


def _published(rows: Rows) -> Lines:
    return _once(_each(rows.where(part="published"), "controllers", "planner"))


def _regrets(rows: Rows) -> Lines:
    names = ("error", "slope", "regret", "low", "high", "share", "nothing", "bound", "verdict")
    return Lines(
        {**row.labels, **{name: row.scores[name] for name in names}} for row in rows.where(part="regret")
    )


def _decoders(rows: Rows) -> Lines:
    return _each(rows.where(part="lines"), "decoders", "decoder")


def _panels(rows: Rows) -> list[Panel]:
    controllers = _controllers(rows).where(encoder=lambda name: name in ENCODERS)
    maps: list[Panel] = []
    for goals in ("gaussian", "uniform"):
        lines = controllers.where(goals=goals)
        encoders = [name for name in reversed(ENCODERS) if lines.where(encoder=name)]
        at = {(line["encoder"], line["planner"]): line["success"] for line in lines}
        planners = [planner for planner in PLANNERS if lines.where(planner=planner)]
        values = [[at.get((name, planner)) for planner in planners] for name in encoders]
        title = f"Success, goals {'from N(0, I)' if goals == 'gaussian' else 'uniform'}"
        maps.append(HeatMap("", title, "", planners, encoders, "planner", "", values, digits=2))
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
    lines = _best(rows).where(encoder=(GAUSSIAN, SQUASHED)) if sure else Lines()
    template = "{encoder}, {planner}: {success:.2f} [{low:.2f}, {high:.2f}]"
    return judge_lines(lines, lambda line: line["success"] >= WANTED, template, "success")


def _worse(rows: Rows) -> Judgement:
    """Whether no interval of the trajectory encoder meets that of the better Gaussian one."""
    best = {line["encoder"]: line for line in _best(rows)}
    gaussian = [best[name] for name in (GAUSSIAN, SQUASHED) if name in best]
    if TRAJECTORY not in best or not gaussian:
        return judged([])
    other, top = best[TRAJECTORY], max(gaussian, key=lambda line: line["success"])
    template = "{planner}, {success:.2f} [{low:.2f}, {high:.2f}]"
    return judged(
        [top["low"] > other["high"]], top=template.format_map(top), other=template.format_map(other)
    )


def _policy(rows: Rows) -> Judgement:
    """Whether a policy without search succeeds as often as the best search, for a hundredth of its time."""
    lines = _controllers(rows).where(goals="gaussian", encoder=(GAUSSIAN, SQUASHED))
    compared = Lines()
    for name in dict.fromkeys(line["encoder"] for line in lines):
        lines_of_encoder = lines.where(encoder=name)
        policy, searches = (
            lines_of_encoder.where(planner="inverse"),
            lines_of_encoder.where(planner=tuple(SEARCHES)),
        )
        if policy and searches:
            best = max(searches, key=lambda line: line["success"])
            ratio = best["ms"] / policy[0]["ms"]
            compared.append(policy[0] | {"search": best["planner"], "best": best["success"], "ratio": ratio})
    template = "{encoder}: {success:.2f} against {best:.2f} of {search}, {ratio:.0f} times as fast"
    return judge_lines(
        compared, lambda line: line["success"] >= line["best"] and line["ratio"] >= CHEAPER, template, "ratio"
    )


def _straight(rows: Rows) -> Judgement:
    lines = _decoders(rows).where(encoder=(GAUSSIAN, SQUASHED))
    template = "{encoder}, {decoder}: {longer:+.3f} [{low:+.3f}, {high:+.3f}]"
    return judge_lines(lines, lambda line: line["low"] <= 0, template, "longer")


def _bent(rows: Rows) -> Judgement:
    lines = _decoders(rows).where(encoder=TRAJECTORY)
    template = "{decoder}: {longer:+.3f} [{low:+.3f}, {high:+.3f}]"
    return judge_lines(lines, lambda line: line["low"] > 0, template, "longer")


def _costs(rows: Rows) -> Judgement:
    """Whether encoders with a smaller recovery error are regulated at a smaller regret, pair by pair."""
    lines = sorted(_regrets(rows).known("regret"), key=lambda line: line["error"])
    pairs = [(one, other) for place, one in enumerate(lines) for other in lines[place + 1 :]]
    message = "; ".join(f"{line['encoder']}: {line['error']:.3f}, {line['share']:.2f}" for line in lines)
    # two that both diverge are not compared
    return judged((a["regret"] <= b["regret"] for a, b in pairs if math.isfinite(a["regret"])), all=message)


def _bounded(rows: Rows) -> Judgement:
    lines = Lines()
    for line in _regrets(rows):
        bounded = line["bound"] is not None
        message = f"{line['bound']:.3g} for {line['regret']:.3g}" if bounded else "no bound"
        lines.append(line | {"told": message, "above": bounded and line["bound"] >= line["regret"]})
    return judge_lines(lines, lambda line: line["above"], "{encoder}: {told}", "regret")


def _borrowed(rows: Rows) -> Judgement:
    """Whether planning in another's head succeeds as often as in one's own, within the intervals."""
    lines = _controllers(rows).where(goals="gaussian")
    compared = Lines()
    for line in lines.where(encoder=f"{SQUASHED} {HEAD}"):
        for reference in lines.where(encoder=GAUSSIAN, planner=line["planner"]):
            compared.append(line | {"own": reference["success"], "least": reference["low"]})
    template = "{planner}: {success:.2f}, the head's own eyes {own:.2f}"
    return judge_lines(compared, lambda line: line["high"] >= line["least"], template, "success")


STUDY = Study.of_file(
    __file__,
    title="Plans in a latent",
    source="Klindt, LeCun & Balestriero (2026), Section 5.4, Figures 4c, 4d and 5, Appendix H",
    cells=cells,
    measure=measure,
    tables=TableSpec.named(
        best=_best,
        controllers=_controllers,
        published=_published,
        regrets=_regrets,
        decoders=_decoders,
    ),
    charts=[ChartSpec("success", _panels, size=(5.2, 4.0))],
    statements=Statement.named(
        reached=_reached,
        worse=_worse,
        policy=_policy,
        straight=_straight,
        bent=_bent,
        costs=_costs,
        bounded=_bounded,
        borrowed=_borrowed,
    ),
)
