"""What the study of plans measures of an encoder: control in the simulator, straight lines, regret.

controllers      planner -> success, its interval, median error at the end in rad, milliseconds of a plan
decoders, sizes  length and error of straight lines by decoder, and by the size of the decoding library
regret           of linear-quadratic control by what the encoder sees, where the angles are a
                 linear-Gaussian world; the planning bound, from measured constants, is a diagnostic there
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from isojepa.alignment.maps import AlignmentMap
from isojepa.config import config_from
from isojepa.data.episodes import Episodes
from isojepa.encoders.convnets import Conv
from isojepa.planning import (
    LinearSystem,
    LineSpec,
    Lqr,
    compare_lines,
    density_curve,
    draw_pairs,
    fit_system,
    measure_error,
    planning_bound,
    push_cost,
    simulate_regret,
)
from isojepa.planning.lines import DECODERS
from isojepa.seeds import generator, numpy_generator
from isojepa_lab.environments.closed_loop import evaluate
from isojepa_lab.environments.latent_control import (
    SETTINGS,
    Angles,
    Controller,
    Encoder,
    FittedEncoder,
    Frames,
    chance,
    oracle,
    rest,
    translated,
    warped,
)
from isojepa_lab.environments.plants import (
    FAIR,
    PROTOCOLS,
    ReacherPlant,
    drawn_tasks,
    record,
    tasks_from_episodes,
)
from isojepa_lab.environments.reacher import Reacher
from isojepa_lab.environments.reacher_frames import ArmLook
from isojepa_lab.papers.world_model.reacher import POOL, trained
from isojepa_lab.studies.cells import Cell

TRUE, WARPED, UNTRAINED = "true angles", "warped angles", "untrained"  # encoders that nothing trained
BESIDE = ("oracle", "random actions", "no action")
LAG = 5  # steps between the frames that show a velocity; one for what is known exactly
SEEN = ArmLook(pool=POOL)  # what the encoders of frames were trained on
KEPT, PUSHED, EFFORT = 0.95, 0.3, 0.1  # of angles at a step, by an action, and what that costs
SIZES = (100, 300, 1000, 3000, 9000)  # of libraries


def measure(cell: Cell) -> dict[str, Any]:
    """Control under either protocol, straight lines, regret, or control in another's head."""
    settings = cell.settings
    parts: dict[str, Callable[..., dict[str, Any]]] = {
        "control": _control,
        "published": _control,
        "lines": _lines,
        "regret": _regret,
        "head": _head,
    }
    return parts[settings.pop("part")](**settings)


def _encoder(name: str, config: Mapping[str, Any] | None) -> Encoder:
    if config is not None:
        return Frames(trained(config_from(dict(config))).eval(), SEEN)
    if name == UNTRAINED:
        return Frames(Conv(2, size=SEEN.observed[1]).eval(), SEEN)
    return warped(Angles()) if name == WARPED else Angles()


def _episodes(plant: ReacherPlant, law: str, count: int) -> tuple[Episodes, Episodes]:
    start = "gaussian" if law == "gaussian" else "uniform"
    return record(plant, count, 100, generator(0, "study planning"), start=start).split(0.7, 0)


def _learned(plant: ReacherPlant, encoder: Encoder, parts: tuple[Episodes, Episodes]) -> FittedEncoder:
    return FittedEncoder(plant, encoder, *parts, lag=LAG if isinstance(encoder, Frames) else 1)


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

    evaluation = evaluate(plant, {**controllers, **beside}, draw, rules, seeds=seeds)
    # a policy of short blocks has no such model, and a run of it alone would fit none
    r2 = learned.transition(setting.block).r2
    return {"controllers": _by_name(evaluation.rows()), "transition_r2": r2}


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
    eyes, inner = _encoder(encoder, config), _learned(plant, _encoder("", head), parts)
    poses = np.concatenate(parts[0].vectors("qpos"))[::10]
    h1, h2 = (one(plant, poses).double().numpy() for one in (eyes, inner.encoder))
    translated_encoder = translated(eyes, AlignmentMap().fit(h1, h2))
    made = {name: inner.controller(name, SETTINGS["receding"], translated_encoder) for name in planners}
    evaluation = evaluate(
        plant, made, lambda source: drawn_tasks(goals, tasks, FAIR, source), FAIR, seeds=seeds
    )
    return {"controllers": _by_name(evaluation.rows())}


def _by_name(rows: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    keys = {"success": "success", "low": "low", "high": "high", "error": "median_error", "ms": "ms_per_plan"}
    return {row["controller"]: {name: row[key] for name, key in keys.items()} for row in rows}


def _lines(encoder: str, config: Mapping[str, Any] | None, states: int) -> dict[str, Any]:
    """Straight lines of the held-out Gaussian states, by decoder and by the size of the library."""
    z, embed = Reacher.shared_latents(states).astype(float), _eyes(encoder, config)
    h = embed(z)
    pairs = draw_pairs(len(z))
    result: dict[str, Any] = {"decoders": {}, "sizes": {}}
    for decoder in DECODERS:
        one = compare_lines(h, z, pairs, LineSpec(decoder=decoder))
        result["decoders"][decoder] = _told(one)
    for size, one in density_curve(h, z, pairs, [size for size in SIZES if size < states - 60]).items():
        result["sizes"][str(size)] = _told(one)
    return result


def _look(config: Mapping[str, Any] | None) -> ArmLook:
    """How the latents of an encoder become angles: as in its training."""
    return ArmLook(squash=bool(config and config["world"]["squash"]))


def _eyes(encoder: str, config: Mapping[str, Any] | None) -> Callable[[np.ndarray], np.ndarray]:
    """What is seen of latents (n, 2), as an encoder embeds it."""
    encoder_function, look, plant = _encoder(encoder, config), _look(config), ReacherPlant()
    return lambda z: encoder_function(plant, look.angles(z)).double().numpy()


def _regret(
    encoder: str, config: Mapping[str, Any] | None, rows: int, paths: int, steps: int
) -> dict[str, Any]:
    """Regulate angles that are a linear-Gaussian world, by what an encoder sees of them.

    The transition is fitted on recorded actions, and the cost of angles carried over at the same points.
    """
    system = LinearSystem(KEPT * np.eye(2), PUSHED * np.eye(2), (1 - KEPT**2) * np.eye(2))
    weight, effort = np.eye(2), EFFORT * np.eye(2)
    truth, embed = Lqr(system, weight, effort), _eyes(encoder, config)
    z, source = Reacher.shared_latents(rows).astype(float), numpy_generator(0, "study planning", "regret")
    actions = source.normal(size=z.shape)
    noise = source.normal(size=z.shape) @ np.sqrt(system.noise)
    h, h_next = embed(z), embed(z @ system.a.T + actions @ system.b.T + noise)
    fitted, error = fit_system(h, actions, h_next), measure_error(h, z)
    controller = Lqr(fitted.system, push_cost(weight, h, z), effort)
    regret = simulate_regret(truth, lambda z: fitted.act(controller, embed(z)), steps, paths, settle=20)
    off = controller.w - error.q @ weight @ error.q.T
    bound = planning_bound(
        fitted.system,
        controller.w,
        effort,
        recovery_error=error.power.high,
        lipschitz=error.usual_slope,
        radii=replace(fitted.radii(system, error.q), w=float(np.linalg.norm(off, 2))),
        diagnostic=True,
    )
    nothing = truth.cost_of(np.zeros((2, 2))) - truth.average_cost
    return {
        "error": error.power.estimate,
        "slope": error.usual_slope,
        "regret": regret.estimate,
        "low": regret.low,
        "high": regret.high,
        "share": regret.estimate / nothing,
        "nothing": nothing,
        "bound": bound.value if math.isfinite(bound.value) else None,
        "verdict": bound.verdict,
    }


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
