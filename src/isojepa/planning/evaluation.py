"""Closed-loop planning in a Gymnasium environment, under a protocol that is printed and hashed.

Tasks are starts and goals of held-out episodes (`isojepa.planning.tasks`); starts that are already solved are
left out and counted. All controllers run the same tasks:

    PLANNER    plans in the latent of a world model, from the observations alone
    random     actions uniform in the action space
    idle       the zero action, clipped to the bounds; action 0 if actions are discrete
    oracle     iCEM in the simulator itself, on standardized observations: a reference, no upper bound. Its
               cost is the distance of the nearest step; with `hold`, of all steps

Success rates have Wilson intervals over tasks; differences are paired by task, with bootstrap intervals. The
hash identifies the protocol, not the model: equal hashes make two success rates comparable. Functions of the
user are identified by their names, planners of the user by class and dataclass fields.
"""

import contextlib
import dataclasses
import functools
import hashlib
import itertools
import json
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from isojepa.data.environments import GymEnvironment, guarded, open_environment, qualified_name
from isojepa.data.episodes import Episodes
from isojepa.encoders.model import evaluating
from isojepa.io import to_jsonable, write_json
from isojepa.planning.planners import ICEM, LinearMPC
from isojepa.planning.policy import RecedingHorizon, action_space, encode_frames, make_planner, unwrap_model
from isojepa.planning.problems import Cost, GoalCost, NearestCost, Planner
from isojepa.planning.tasks import OFFSET, GoalTasks, RecordedStarts, Simulator, draw_tasks
from isojepa.seeds import generator
from isojepa.statistics.intervals import bootstrap, wilson
from isojepa.terminal import aligned
from isojepa.training.run import Run
from isojepa.validation import check_count, check_number, short_repr, validate_types
from isojepa.version import __version__

_CONFIDENCE = 0.95  # of all intervals
_MAX_VALUES = 16  # of a tensor among the settings; a longer one is hashed
_REPORTED = "reported by the environment"
_CONTROLLERS = {"random", "idle", "oracle"}  # besides the planners
_ORACLE = ICEM(horizon=25, candidates=32, iterations=4, elites=6)  # the horizon is the offset, if shorter
_ORACLE_EXECUTE = 5  # a plan in the simulator takes about 100 rollouts

Act = Callable[[np.ndarray, np.ndarray], np.ndarray]  # observations (tasks, ...), active tasks -> actions
Distance = Callable[[np.ndarray, np.ndarray], float]  # of observation and goal
Score = Callable[[np.ndarray, np.ndarray, bool | None], tuple[float, bool]]  # distance and success


@dataclass(frozen=True)
class PlanningOutcome:
    """One controller on all tasks.

    Attributes:
        within: (tasks, budget + 1) whether the goal is reached at each step, the start first.
        distances: (tasks, budget + 1) to the goal; NaN after termination.
        returns: (tasks,) sums of rewards.
    """

    within: np.ndarray
    distances: np.ndarray
    returns: np.ndarray

    def success(self, hold: int) -> np.ndarray:
        """(tasks,) whether the goal is reached at any step, or at all of the last `hold` steps."""
        return np.asarray(self.within[:, -hold:].all(1) if hold else self.within[:, 1:].any(1))

    def steps(self, hold: int) -> np.ndarray:
        """(tasks,) first step at which the goal is reached; with `hold`, from which it is held to the end."""
        entry = self.within.shape[1] - np.argmin(self.within[:, ::-1], 1)
        return np.asarray(entry if hold else self.within.argmax(1))

    @property
    def final(self) -> np.ndarray:
        """(tasks,) last distances."""
        last = np.isfinite(self.distances).sum(1) - 1
        return np.asarray(self.distances[np.arange(len(last)), last])


@dataclass(frozen=True)
class PlanningEvaluation:
    """Controllers on the same tasks; printed as a table.

    Attributes:
        rows: for each controller success, low, high, steps (median, of successes; these four only if success
            is defined), distance (median, at the end), return (mean) and ms_per_plan (of one task).
        differences: between pairs of controllers on the same tasks: quantity, estimate, low, high.
        protocol: everything that determines the tasks, their scores and the planners, as plain values.
        drawn, excluded: starts that were drawn, and that were already solved and left out.
        notes: sentences on defaults that were changed and rates that show no skill.
        tasks: starts and goals.
        outcomes: of each controller.
    """

    rows: list[dict[str, Any]]
    differences: list[dict[str, Any]]
    protocol: dict[str, Any]
    drawn: int
    excluded: int
    notes: list[str]
    tasks: GoalTasks = field(repr=False)
    outcomes: Mapping[str, PlanningOutcome] = field(repr=False)

    @property
    def protocol_hash(self) -> str:
        """Twelve hexadecimal digits of the protocol."""
        text = json.dumps(self.protocol, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """All numbers as plain values."""
        names = ("rows", "differences", "drawn", "excluded", "notes", "protocol", "protocol_hash")
        values: dict[str, Any] = to_jsonable({name: getattr(self, name) for name in names})
        return values

    def save(self, folder: Path | str) -> Path:
        """Write `evaluation-HASH.json`, atomically; another evaluation of this protocol there is replaced."""
        path = Path(folder) / f"evaluation-{self.protocol_hash}.json"
        write_json(path, self.to_dict())
        return path

    def __str__(self) -> str:
        lines = [
            *_table(self.rows),
            f"{self.excluded} of {self.drawn} starts were already solved and left out.",
            *self.notes,
            *(
                f"{row['first']} - {row['second']}: {row['quantity']} {row['estimate']:+.3g} "
                f"[{row['low']:+.3g}, {row['high']:+.3g}], paired by task"
                for row in self.differences
            ),
            textwrap.fill(f"Protocol {self.protocol_hash}: {json.dumps(self.protocol)}", 110),
        ]
        return "\n".join(lines)


@validate_types
def evaluate(
    model: Any,
    environment: Any,
    tasks: Episodes,
    planner: Any = "cem",
    *,
    tolerance: float | None = None,
    success: Callable[..., Any] | None = None,
    distance: Callable[..., Any] | None = None,
    hold: int = 0,
    budget: int | None = None,
    offset: int | None = None,
    count: int = 50,
    horizon: int = 15,
    execute: int = 5,
    cost: Callable[..., Any] | None = None,
    oracle: bool = True,
    allow_train: bool = False,
    seed: int = 0,
    progress: Callable[[int, int, str], None] | None = None,
) -> PlanningEvaluation:
    """Evaluate planning with world models in a Gymnasium environment.

    Args:
        model: a run or `Dynamics`, or several by name.
        environment: a Gymnasium id, "file.py:function", an Env class or a factory; each task opens its own,
            without time limit.
        tasks: held-out episodes, as `isojepa.collect` records them; starts and goals are rows of one episode.
        planner: "cem", "icem", "mppi", "gradient" or "mpc", several of them, or planner objects by name.
        tolerance: success is a distance to the goal of at most this.
        success: function (observation, goal) -> bool, in place of a tolerance. Without both, the success that
            the environment reports; without that, only distance and return are scored.
        distance: function (observation, goal) -> float; by default Euclidean between observations that are
            standardized by the task episodes.
        hold: number of last steps at which success must hold; 0 if any step will do.
        budget: steps of a task; by default twice the offset.
        offset: rows between start and goal; by default 25, shortened for short episodes.
        count: number of tasks.
        horizon: steps of the model in a plan, for planners by name.
        execute: actions that are carried out before the next plan.
        cost: of latents, goal and actions. By default it matches success: the distance of the nearest step,
            `NearestCost()`, or of all steps, `GoalCost(running=1.0)`, if success must hold or the planner is
            mpc, which needs a sum of squares.
        oracle: also plan in the simulator, if it can restore its state.
        allow_train: accept tasks of episodes that a run was trained on, and say so.
        seed: of tasks and controllers.
        progress: called with steps done, steps to do and the controller.

    Raises:
        ValueError: an argument is invalid, every start is already solved, or the environment does not
            reproduce the episodes.
        RuntimeError: the environment raised an error.

    Example:
        >>> import isojepa as ij
        >>> episodes = ij.collect("Pendulum-v1", episodes=4, steps=20)
        >>> class Still(ij.encoders.Stepwise):
        ...     def step(self, h, a):
        ...         return h
        >>> result = evaluate(Still(), "Pendulum-v1", episodes, "mpc", tolerance=0.2, count=4, oracle=False)
        >>> [row["controller"] for row in result.rows], len(result.protocol_hash)
        (['mpc', 'random', 'idle'], 12)
    """
    check_count("count", count)
    if not (isinstance(environment, str) or callable(environment)):
        raise ValueError(
            "environment must be an id, a class or a factory, of which each task opens its own, got "
            f"{short_repr(environment)}"
        )
    models = model if isinstance(model, Mapping) else {"": model}
    runs = [one for one in models.values() if isinstance(one, Run)]
    trained = {digest for run in runs for digest in run.source.get("episodes") or ()}
    overlap = tasks.check_held_out(trained, allow_train) if trained else 0
    planners = _planners(planner, horizon)
    costs: dict[str, Cost] = {
        name: cost or (GoalCost(running=1.0) if hold or isinstance(search, LinearMPC) else NearestCost())
        for name, search in planners.items()
    }
    loops: dict[str, RecedingHorizon] = {}
    with contextlib.ExitStack() as stack:

        def open_one() -> GymEnvironment:
            return stack.enter_context(contextlib.closing(open_environment(environment, limit=False)))

        first = open_one()
        starts = RecordedStarts(tasks, first)
        reported = tolerance is None and success is None and _reports_success(starts, first)
        score = _scoring(distance or starts.distance, tolerance, success, reported)
        goals = _draw(score, reported, starts, first, count, offset, seed)
        budget = check_count("budget", 2 * goals.offset if budget is None else budget)
        check_count("hold", hold, 0, budget)
        environments = [first, *(open_one() for _ in range(len(goals) - 1))]

        controllers: dict[str, Act] = {}
        for (model_name, one), (name, search) in itertools.product(models.items(), planners.items()):
            dynamics, label = unwrap_model(one), ", ".join(filter(None, (model_name, name)))
            space, latents = action_space(dynamics, first.actions), encode_frames(dynamics, goals.goals)
            check_count("execute", execute, 1, search.horizon)
            source = generator(seed, "evaluate", label)
            loops[label] = RecedingHorizon(dynamics, search, costs[name], space, latents, execute, source)
            stack.enter_context(evaluating(dynamics))
            controllers[label] = _planning(loops[label], functools.partial(encode_frames, dynamics))
        horizons = {label: loop.planner.horizon for label, loop in loops.items()}
        if _CONTROLLERS & controllers.keys():
            raise ValueError(
                f"planner must not be one of {', '.join(sorted(_CONTROLLERS))}, got {[*horizons]}"
            )
        controllers |= {"random": _random(environments, seed), "idle": _idle(first)}
        if oracle and first.restorable:
            simulator = Simulator(open_one(), starts.gain)
            loops["oracle"] = _oracle(simulator, goals, hold, seed)
            controllers["oracle"] = _planning(
                loops["oracle"],
                lambda x: simulator.locate(x, np.array([one.get_state() for one in environments])),
            )
        report, outcomes = progress or (lambda done, total, name: None), {}
        for number, (name, act) in enumerate(controllers.items()):
            place = number * budget, len(controllers) * budget, name
            tick = functools.partial(lambda done, total, name, step: report(done + step, total, name), *place)
            outcomes[name] = _run(act, starts, goals, environments, score, budget, tick)

    criterion = "distance" if tolerance is not None else _REPORTED if reported else None
    criterion = criterion if success is None else qualified_name(success)
    scored = criterion is not None
    rows = [_row(name, outcome, scored, hold, loops.get(name)) for name, outcome in outcomes.items()]
    differences = _differences(outcomes, [*horizons], scored, hold)
    remarks = {  # sentence -> whether it applies
        "Success is not defined: pass a tolerance, or a success function.": not scored,
        f"{overlap} of the {len(tasks)} episodes of the tasks were trained on.": overlap > 0,
        "Success is the environment's own, which may not concern the goals of the tasks.": reported,
        f"{len(goals)} tasks in place of {count}: the episodes have no more unsolved starts.": len(goals)
        < count,
        f"The offset is {goals.offset} in place of {OFFSET}: the episodes are short.": offset is None
        and goals.offset != OFFSET,
        "idle takes action 0.": first.actions.discrete,
        "There is no oracle: the environment cannot restore its state (get_state, set_state).": oracle
        and not first.restorable,
    }
    notes = [*_comparisons(differences, horizons, goals.offset)]
    notes += [sentence for sentence, applies in remarks.items() if applies]
    protocol = {
        "isojepa": __version__,
        "environment": first.name,
        "version": first.version,
        "data": _digest(tasks),
        "trained_on": overlap,
        "goals": "rows of the starts' episodes",
        "restored": "state" if starts.by_state else "replay",
        "offset": goals.offset,
        "count": count,
        "seed": seed,
        "success": criterion,
        "tolerance": tolerance,
        "distance": "standardized Euclidean" if distance is None else qualified_name(distance),
        "hold": hold,
        "budget": budget,
        "planners": {name: _settings(loop) for name, loop in zip(planners, loops.values(), strict=False)},
        "random": "uniform",
        "idle": "action 0" if first.actions.discrete else "zeros",
        "oracle": _settings(loops["oracle"]) | {"cost": type(loops["oracle"].cost).__name__}
        if "oracle" in loops
        else None,
    }
    return PlanningEvaluation(
        rows, differences, to_jsonable(protocol), goals.drawn, goals.solved, notes, goals, outcomes
    )


def _scoring(
    distance: Distance, tolerance: float | None, success: Callable[..., Any] | None, reported: bool
) -> Score:
    """Distance and success of an observation for a goal, given the environment's own report of success."""
    limit = tolerance
    if tolerance is not None:
        limit = check_number("tolerance", tolerance, "be positive and finite", lambda value: value > 0)
        if success is not None:
            raise ValueError("tolerance and success must not both be set: each defines success")

    def score(observation: np.ndarray, goal: np.ndarray, report: bool | None) -> tuple[float, bool]:
        value = guarded("distance", distance, observation, goal)
        measure = check_number("distance(observation, goal)", value, "be a finite number")
        if limit is not None:
            return measure, measure <= limit
        if success is not None:
            return measure, bool(guarded("success", success, observation, goal))
        return measure, reported and bool(report)

    return score


def _reports_success(starts: RecordedStarts, environment: GymEnvironment) -> bool:
    longest = int(starts.episodes.lengths.argmax())
    check_count("rows of the longest of tasks", starts.episodes.lengths[longest], 2)
    return environment.success(starts.follow(environment, longest, 0).info) is not None


def _planners(planner: Any, horizon: int) -> dict[str, Planner]:
    if isinstance(planner, Sequence) and not isinstance(planner, str):
        planner = {name: name for name in planner}
    elif not isinstance(planner, Mapping):
        planner = {planner if isinstance(planner, str) else type(planner).__name__: planner}
    if not planner:
        raise ValueError("planner must name at least one planner, got none")
    return {name: make_planner(one, horizon) for name, one in planner.items()}


def _draw(
    score: Score,
    reported: bool,
    starts: RecordedStarts,
    first: GymEnvironment,
    count: int,
    offset: Any,
    seed: int,
) -> GoalTasks:
    """Tasks whose starts are unsolved; where the environment reports success, by the step into the start."""
    distances = []

    def solved(episode: int, row: int, goal_row: int) -> bool:
        rows = starts.episodes.rows("observation", episode)
        report = reported and first.success(starts.follow(first, episode, row - 1).info)
        distance, success = score(rows[row], rows[goal_row], report)
        distances.append(distance)
        return success

    tasks = draw_tasks(starts, first, count, offset, solved, first_row=int(reported), seed=seed)
    if not len(tasks):
        low, middle, high = np.quantile(distances, (0.05, 0.5, 0.95))
        raise ValueError(
            f"tolerance or success must leave starts unsolved, got {tasks.drawn} solved starts of "
            f"{tasks.drawn}: it is too wide for distances of {low:.3g} (5 %), {middle:.3g} (median), "
            f"{high:.3g} (95 %)"
        )
    return tasks


def _planning(loop: RecedingHorizon, encode: Callable[[np.ndarray], Tensor]) -> Act:
    return lambda observations, active: loop.act(encode(observations), active)


def _random(environments: list[GymEnvironment], seed: int) -> Act:
    codes = [environment.actions for environment in environments]
    for number, code in enumerate(codes):
        code.space.seed(generator(seed, "evaluate", "random", number).initial_seed() % 2**31)
    return lambda observations, active: np.stack([codes[i].encode(codes[i].space.sample()) for i in active])


def _idle(environment: GymEnvironment) -> Act:
    actions = environment.actions
    row = np.eye(actions.width)[0] if actions.discrete else np.clip(0.0, actions.low, actions.high)
    return lambda observations, active: np.tile(row, (len(active), 1))


def _oracle(simulator: Simulator, tasks: GoalTasks, hold: int, seed: int) -> RecedingHorizon:
    planner = dataclasses.replace(_ORACLE, horizon=min(tasks.offset, _ORACLE.horizon))
    weights = torch.cat((torch.ones(len(simulator.gain)), torch.zeros(simulator.width)))
    cost: Cost = GoalCost(weights, running=1.0) if hold else NearestCost(weights)
    space, goals = action_space(simulator, simulator.environment.actions), simulator.encode(tasks.goals)
    execute, source = min(_ORACLE_EXECUTE, planner.horizon), generator(seed, "evaluate", "oracle")
    return RecedingHorizon(simulator, planner, cost, space, goals, execute, source)


def _run(
    act: Act,
    starts: RecordedStarts,
    tasks: GoalTasks,
    environments: Sequence[GymEnvironment],
    score: Score,
    budget: int,
    tick: Callable[[int], None],
) -> PlanningOutcome:
    """Run all tasks side by side; a terminated one stays where it is, truncation ends nothing."""
    observations, returns, active = tasks.starts.copy(), np.zeros(len(tasks)), np.arange(len(tasks))
    within = np.zeros((len(tasks), budget + 1), bool)
    distances = np.full((len(tasks), budget + 1), np.nan)
    for i, environment in enumerate(environments):
        starts.restore(environment, int(tasks.episode[i]), int(tasks.row[i]))
        distances[i, 0], _ = score(observations[i], tasks.goals[i], None)
    for number in range(1, budget + 1):
        tick(number)
        terminated: list[bool] = []
        actions = act(observations, active) if len(active) else ()
        for i, action in zip(active.tolist(), actions, strict=True):
            environment = environments[i]
            step = environment.step(np.clip(action, environment.actions.low, environment.actions.high))
            observations[i] = step.observation
            returns[i] += step.reward
            report = environment.success(step.info)
            distances[i, number], within[i, number] = score(step.observation, tasks.goals[i], report)
            terminated.append(step.terminated)
        active = active[~np.array(terminated, bool)]
    return PlanningOutcome(within, distances, returns)


def _row(
    name: str, outcome: PlanningOutcome, scored: bool, hold: int, loop: RecedingHorizon | None
) -> dict[str, Any]:
    row: dict[str, Any] = {"controller": name}
    if scored:
        success = outcome.success(hold)
        rate = wilson(int(success.sum()), len(success), _CONFIDENCE)
        steps = float(np.median(outcome.steps(hold)[success])) if success.any() else None
        row |= {"success": rate.estimate, "low": rate.low, "high": rate.high, "steps": steps}
    final, returns = float(np.median(outcome.final)), float(outcome.returns.mean())
    spent = None if loop is None else 1e3 * loop.seconds / loop.problems
    return row | {"distance": final, "return": returns, "ms_per_plan": spent}


def _differences(
    outcomes: Mapping[str, PlanningOutcome], planners: list[str], scored: bool, hold: int
) -> list[dict[str, Any]]:
    """Between each planner and random, and between planners: of success, or of the last distance."""
    quantity = "success" if scored else "distance"
    values = {
        name: one.success(hold).astype(float) if scored else one.final for name, one in outcomes.items()
    }
    rows = []
    for first, second in [*((name, "random") for name in planners), *itertools.combinations(planners, 2)]:
        interval = bootstrap(values[first] - values[second], _CONFIDENCE)
        rows.append({"first": first, "second": second, "quantity": quantity, **dataclasses.asdict(interval)})
    return rows


def _comparisons(
    differences: list[dict[str, Any]], horizons: Mapping[str, int], offset: int
) -> Iterator[str]:
    """A sentence for each planner that does not beat random actions, by the paired difference."""
    for (name, horizon), row in zip(horizons.items(), differences, strict=False):  # in the same order
        if row["low"] > 0 if row["quantity"] == "success" else row["high"] < 0:
            continue
        hint = f" Its horizon {horizon} is shorter than the offset {offset}." if horizon < offset else ""
        yield f"{name} does not beat random actions in {row['quantity']}.{hint}"


def _table(rows: list[dict[str, Any]]) -> list[str]:
    """Aligned lines; a column without any value is left out."""
    cells = [["controller", "success, 95 % interval", "steps", "distance", "return", "ms per plan"]]
    for row in rows:
        numbers = (row.get(name) for name in ("steps", "distance", "return", "ms_per_plan"))
        texts = ["" if value is None else f"{value:.3g}" for value in numbers]
        cells.append([row["controller"], _rate(row) if "success" in row else "", *texts])
    columns = [column for column in zip(*cells, strict=True) if any(column[1:])]
    return aligned([*zip(*columns, strict=True)], left=1)


def _rate(row: Mapping[str, Any]) -> str:
    return f"{row['success']:.3f} [{row['low']:.3f}, {row['high']:.3f}]"


def _settings(loop: RecedingHorizon) -> dict[str, Any]:
    """Settings of a planner and its cost as plain values."""
    planner, cost = map(_fields, (loop.planner, loop.cost))
    return planner | {"execute": loop.execute, "cost": cost}


def _fields(component: Any) -> dict[str, Any]:
    function = hasattr(component, "__qualname__")
    values: dict[str, Any] = {"type": qualified_name(component) if function else type(component).__name__}
    for item in dataclasses.fields(component) if dataclasses.is_dataclass(component) else ():
        value = getattr(component, item.name)
        if isinstance(value, Tensor):
            rows = value.cpu().numpy()
            value = (
                rows.tolist()
                if rows.size <= _MAX_VALUES
                else hashlib.blake2b(rows.tobytes()).hexdigest()[:12]
            )
        elif not isinstance(value, bool | int | float | str | None):
            value = qualified_name(value)
        values[item.name] = value
    return values


def _digest(episodes: Episodes) -> str:
    """Twelve hexadecimal digits of the names, types and values of all columns."""
    digest = hashlib.blake2b(digest_size=6)
    for name in sorted(episodes.names):
        digest.update(f"{name} {episodes.dtype(name)} {episodes.shape(name)}".encode())
        for number in range(len(episodes)):
            rows = episodes.rows(name, number)
            digest.update(len(rows).to_bytes(8, "little") + rows.tobytes())
    return digest.hexdigest()
