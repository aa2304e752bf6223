"""Runs of controllers in a plant, all tasks side by side, and how often they succeed."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from isojepa.arguments import check_count, checked
from isojepa.planning.closed_loop.controllers import Controller, Spent
from isojepa.planning.closed_loop.plants import History, Plant
from isojepa.planning.closed_loop.results import Evaluation, Outcome
from isojepa.planning.closed_loop.rules import Rules, Tasks
from isojepa.seeds import generator as make_generator


@dataclass(frozen=True)
class Runs:
    """What happened.

    Attributes:
        qpos: (tasks, budget + 1, joints), the start first.
        actions: (tasks, budget, m).
        spent: what planning took.
    """

    qpos: np.ndarray
    actions: np.ndarray
    spent: Spent


@checked
def run(plant: Plant, controller: Controller, tasks: Tasks, budget: int, generator: torch.Generator) -> Runs:
    """Let a controller move the plant from every start, until the budget is spent.

    Args:
        plant: as many copies as tasks.
        controller: of all of them.
        tasks: starts and goals.
        budget: steps of the plant.
        generator: for whatever the controller draws.
    """
    check_count("budget", budget)
    history = History([plant.reset(tasks.qpos, tasks.qvel)], plant.seconds)
    pilot = controller.begin(plant, tasks.goals)
    done: list[np.ndarray] = []
    while len(done) < budget:
        actions = pilot.act(history, generator)
        for step in range(min(actions.shape[1], budget - len(done))):
            history.states.append(plant.step(actions[:, step]))
            done.append(actions[:, step])
    poses = [state.qpos for state in history.states]
    return Runs(np.stack(poses, 1), np.stack(done, 1), pilot.spent)


@checked
def evaluate(
    plant: Plant,
    controllers: Mapping[str, Controller],
    tasks: Callable[[torch.Generator], Tasks],
    rules: Rules,
    *,
    seeds: Sequence[int] = (0,),
    streams: int = 1,
    confidence: float = 0.95,
    progress: Callable[[int, int, str], None] | None = None,
) -> Evaluation:
    """Run controllers on the same tasks, for several seeds of tasks and streams of the planners' noise.

    Args:
        plant: what they move.
        controllers: by name.
        tasks: draws the tasks of a seed.
        rules: what counts as success.
        seeds: each draws tasks of its own.
        streams: how often each task is run, with other noise.
        confidence: of the intervals.
        progress: called with runs done, runs to do, and the next controller's name.
    """
    check_count("streams", streams)
    outcomes: dict[str, list[Outcome]] = {name: [] for name in controllers}
    drawn = {seed: tasks(make_generator(seed, "tasks")) for seed in seeds}
    total, done = len(controllers) * len(drawn) * streams, 0
    for name, controller in controllers.items():
        for seed, one in drawn.items():
            for stream in range(streams):
                if progress is not None:
                    progress(done, total, name)
                began = time.perf_counter()
                source = make_generator(seed, "planner", name, stream)
                runs = run(plant, controller, one, rules.budget, source)
                errors = rules.errors(runs.qpos, one.goals[:, None])
                spent, seconds = runs.spent, time.perf_counter() - began
                outcome = Outcome(seed, stream, rules.succeeded(errors), runs.qpos, errors, spent, seconds)
                outcomes[name].append(outcome)
                done += 1
    return Evaluation(rules, drawn, outcomes, confidence)
