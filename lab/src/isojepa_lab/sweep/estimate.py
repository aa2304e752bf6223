"""How long a sweep will take, before it begins.

Runs that differ only in what costs nothing, such as their seeds, form a group. A group's price comes from
its finished records; else from a few steps that are tried; else, when the time for trying is over, from a
count of operations, scaled by what was measured of other groups. The dearest groups are tried first.
"""

import heapq
import json
import math
import statistics
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from isojepa.config import Config
from isojepa.io import read_json
from isojepa.training.run_directory import RunDirectory
from isojepa_lab.sweep.computations import price_computations
from isojepa_lab.sweep.local import Pool
from isojepa_lab.sweep.measure import Cost, cost_key, scoring_seconds
from isojepa_lab.sweep.plan import Plan, Task
from isojepa_lab.sweep.record_state import pace, state_of
from isojepa_lab.sweep.work import notes_path

BUDGET = 30.0  # seconds to try steps in, at most
_EACH = 1.5  # seconds for one group, about
_SPEED = 1.5e10  # operations per second of one core, when nothing was measured
_OVERHEAD = 1.5e-3  # seconds of a step that does nothing


@dataclass(frozen=True)
class Estimate:
    """What is left to do.

    Attributes:
        seconds: CPU seconds still needed, by the record's name; zero for what is done.
        states: how far each record is, by its name.
        counted: how many unfinished runs have a price that was neither measured nor recorded.
    """

    seconds: Mapping[str, float]
    states: Mapping[str, str]
    counted: int

    def cpu(self, names: Iterable[str]) -> float:
        """CPU seconds of some runs."""
        return sum(self.seconds[name] for name in names)

    def wall(self, names: Iterable[str], workers: int) -> float:
        """Seconds until the last of some runs ends, the longest begun first."""
        return makespan([self.seconds[name] for name in names], workers)

    def longest_first(self, tasks: Sequence[Task]) -> list[Task]:
        """The unfinished runs in the order in which they should begin."""
        unfinished = [task for task in tasks if self.states[task.name] != "done"]
        return sorted(unfinished, key=lambda task: -self.seconds[task.name])

    def table(self, plans: Sequence[Plan], workers: int) -> list[dict[str, str | int | float]]:
        """One row per study, and the whole if there are several: shared runs count once there."""
        named = [(plan.study, plan.names()) for plan in plans]
        if len(named) > 1:
            named.append(("together", set().union(*(names for _, names in named))))
        return [
            {
                "study": study,
                "runs": len(names),
                "done": sum(self.states[name] == "done" for name in names),
                "cpu_seconds": self.cpu(names),
                "wall_seconds": self.wall(names, workers),
            }
            for study, names in named
        ]


def estimate(tasks: Sequence[Task], folder: Path, pool: Pool | None, budget: float = BUDGET) -> Estimate:
    """Price every run of a sweep.

    Args:
        tasks: the runs.
        folder: of the records.
        pool: workers that try steps; None to try none.
        budget: seconds for trying.
    """
    states = {task.name: state_of(task.path) for task in tasks}
    computed = [task for task in tasks if task.computed]
    groups: dict[str, list[Task]] = {}
    for task in [task for task in tasks if not task.computed]:
        groups.setdefault(json.dumps(cost_key(task.config), sort_keys=True), []).append(task)
    counted = {key: count_cost(group[0].config) for key, group in groups.items()}
    costs: dict[str, Cost] = {}
    for key, group in groups.items():
        recorded = [_recorded(task, folder) for task in group if states[task.name] in ("done", "trained")]
        measured = [cost for cost in recorded if cost is not None]
        if measured:
            costs[key] = Cost(
                statistics.median(cost.step for cost in measured),
                0.0,
                statistics.median(cost.scoring for cost in measured),
            )
    open_groups = [
        key
        for key, group in groups.items()
        if key not in costs and any(states[task.name] in ("new", "started") for task in group)
    ]
    open_groups.sort(key=lambda key: -sum(counted[key].of(task.config) for task in groups[key]))
    if pool is not None:
        costs |= _tried({key: groups[key][0].config for key in open_groups}, pool, budget)
    seconds, unpriced = price_computations(computed, states)
    for key, group in groups.items():
        cost = costs.get(key) or _scaled(key, counted, costs)
        for task in group:
            seconds[task.name] = _left(task, states[task.name], cost)
            unpriced += key not in costs and states[task.name] in ("new", "started")
    return Estimate(seconds, states, unpriced)


def makespan(seconds: Iterable[float], workers: int) -> float:
    """Time of jobs on some workers, the longest begun first.

    Example:
        >>> makespan([1, 1, 1, 3], 2)
        3
    """
    loads: list[float] = [0] * max(1, workers)
    for job in sorted(seconds, reverse=True):
        heapq.heapreplace(loads, loads[0] + job)
    return max(loads)


def count_cost(config: Config) -> Cost:
    """A price from a count of operations: good to a small factor, and free."""
    try:
        context = config.context
        encoder = config.encoder.build(context)  # not its source, which may be hours of rendering
    except ValueError:  # told when the run itself is tried
        return Cost(_OVERHEAD, 0.0, 0.0)
    dim, latents = context.embedding or 1, context.dim or 1
    weights = sum(parameter.numel() for parameter in encoder.parameters())
    recipe = config.training
    batch = sum(recipe.batch_at(round(i * (recipe.steps - 1) / 16)) for i in range(17)) / 17
    operations = 12.0 * batch * weights + config.objective.operations(batch, dim)
    evaluation = recipe.eval_samples * (2 * weights + 4 * dim**2) / _SPEED
    return Cost(_OVERHEAD + operations / _SPEED, evaluation, scoring_seconds(latents))


def _scaled(key: str, counted: Mapping[str, Cost], costs: Mapping[str, Cost]) -> Cost:
    """A counted price, scaled as the nearest price that is known of the same encoder and objective."""
    rough, kind = counted[key], _kind(key)
    kin = [other for other in costs if _kind(other) == kind]
    if not kin:
        return rough
    nearest = min(kin, key=lambda other: abs(math.log(counted[other].step / rough.step)))
    scale = costs[nearest].step / counted[nearest].step
    return Cost(rough.step * scale, rough.evaluation * scale, rough.scoring)


def _kind(key: str) -> tuple[str, str]:
    group = json.loads(key)
    return group["encoder"]["name"], group["objective"]["name"]


def _tried(configs: Mapping[str, Config], pool: Pool, budget: float) -> dict[str, Cost]:
    """Try the groups in their order until the time is over."""
    costs: dict[str, Cost] = {}
    waiting = list(configs)
    end = time.monotonic() + budget
    while waiting and not pool.ready and time.monotonic() < end:  # their start does not count
        pool.warm(len(waiting))
        pool.wait(0.5)
    end = time.monotonic() + budget
    while pool.busy or (waiting and time.monotonic() < end):
        while waiting and pool.free and time.monotonic() < end:
            key = waiting.pop(0)
            pool.submit(key, {"measure": configs[key].to_dict(), "seconds": _EACH})
        for key, answer in pool.wait(0.5):
            if isinstance(answer, dict) and answer["cost"] is not None:
                costs[key] = Cost(**answer["cost"])
    return costs


def _recorded(task: Task, folder: Path) -> Cost | None:
    """The price that a finished record shows; None if it was too short."""
    try:
        result = RunDirectory(task.path).result
        if result is None or int(result["steps"]) < 20:
            return None
        step = float(result.get("cpu_seconds", result["seconds"])) / int(result["steps"])
    except (ValueError, KeyError, TypeError):
        return None
    try:
        scoring = float(read_json(notes_path(folder, task.name, "json"))["scoring"])
    except (ValueError, KeyError, TypeError):
        scoring = scoring_seconds(task.config.context.dim or 1)
    return Cost(step, 0.0, scoring)


def _left(task: Task, state: str, cost: Cost) -> float:
    if state == "done":
        return 0.0
    if state == "trained":
        return cost.scoring
    whole = cost.of(task.config)
    steps = task.config.training.steps
    done = min(pace(task.path).step, steps) if state == "started" else 0
    return float(cost.scoring + (whole - cost.scoring) * (1 - done / steps))
