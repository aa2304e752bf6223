"""Closed-loop evaluation: runs of controllers in a plant, success rates with intervals, films of runs.

All tasks of a seed run side by side. Intervals are bootstrap intervals over tasks. A film is an animated GIF
of a run in which every frame shows the goal as a ghost.
"""

import io
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
import torch

from isojepa.importing import import_pillow
from isojepa.seeds import generator as make_generator
from isojepa.statistics.intervals import Interval, bootstrap
from isojepa.validation import check_count, choose, validate_types
from isojepa_lab.environments.latent_control import Controller, Spent
from isojepa_lab.environments.plants import History, Plant, Rules, Tasks
from isojepa_lab.environments.reacher_frames import ArmLook


@dataclass(frozen=True)
class ControlOutcome:
    """One controller on the tasks of one seed with one stream of noise.

    Attributes:
        seed, stream: of the tasks, and of the noise.
        success: (tasks,) whether each counts.
        qpos: (tasks, budget + 1, joints), the start first.
        errors: (tasks, budget + 1) rad from the goal at each step, the start first.
        spent: what planning took.
        seconds: that the runs took, all side by side.
    """

    seed: int
    stream: int
    success: np.ndarray
    qpos: np.ndarray
    errors: np.ndarray
    spent: Spent
    seconds: float


@dataclass(frozen=True)
class ControlResult:
    """Controllers on the same tasks.

    Attributes:
        rules: what counts as success.
        tasks: starts and goals of each seed.
        outcomes: of each controller, one for each seed and stream.
        confidence: of the intervals.
    """

    rules: Rules
    tasks: Mapping[int, Tasks]
    outcomes: Mapping[str, Sequence[ControlOutcome]]
    confidence: float = 0.95

    @property
    def removed(self) -> int:
        """Tasks that were left out: solved already, or with goals that nothing can hold."""
        return sum(one.removed for one in self.tasks.values())

    def success(self, name: str) -> Interval:
        """Share of runs that succeed, with an interval by bootstrap over tasks.

        Runs of one task with other noise are one draw. Where all tasks agree a bootstrap has nothing to
        redraw: the ends are then those of Clopper and Pearson.
        """
        return share(self._by_task(name), self.confidence)

    def difference(self, first: str, second: str) -> Interval:
        """How much more often the first succeeds than the second on the same tasks, by bootstrap."""
        return bootstrap(self._by_task(first) - self._by_task(second), self.confidence)

    def _by_task(self, name: str) -> np.ndarray:
        """(tasks of all seeds,) share of the streams that succeed."""
        outcomes = choose("controller", name, self.outcomes)
        seeds = dict.fromkeys(one.seed for one in outcomes)
        return np.concatenate(
            [np.mean([one.success for one in outcomes if one.seed == seed], 0) for seed in seeds]
        )

    def rows(self) -> list[dict[str, Any]]:
        """A row of plain values for each controller."""
        rows = []
        for name, outcomes in self.outcomes.items():
            rate = self.success(name)
            plans = sum(one.spent.plans for one in outcomes)
            planned = sum(one.spent.seconds for one in outcomes)
            problems = sum(one.spent.problems for one in outcomes)
            rows.append(
                {
                    "controller": name,
                    "success": rate.estimate,
                    "low": rate.low,
                    "high": rate.high,
                    "runs": int(sum(len(one.success) for one in outcomes)),
                    "tasks": len(self._by_task(name)),
                    "median_error": float(np.median(np.concatenate([one.errors[:, -1] for one in outcomes]))),
                    "plans": plans,
                    "ms_per_plan": 1e3 * planned / problems if problems else 0.0,
                    "ms_per_batch": 1e3 * planned / plans if plans else 0.0,
                    "seconds": sum(one.seconds for one in outcomes),
                }
            )
        return rows

    def __str__(self) -> str:
        """A table in text."""
        rows = self.rows()
        width = max(len("controller"), *(len(row["controller"]) for row in rows))
        lines = [f"{'controller':<{width}}  success  interval        runs  error at the end  ms per plan"]
        for row in rows:
            lines.append(
                f"{row['controller']:<{width}}  {row['success']:7.3f}  "
                f"[{row['low']:.3f}, {row['high']:.3f}]  {row['runs']:4d}  {row['median_error']:12.3f} rad"
                f"  {row['ms_per_plan']:11.3f}"
            )
        return "\n".join(lines)


def share(values: np.ndarray, confidence: float) -> Interval:
    """The mean of values (n,) in [0, 1] and its interval: bootstrap, or exact where all are 0 or 1."""
    if values.min() != values.max() or values[0] not in (0, 1):
        return bootstrap(values, confidence)
    n, miss = len(values), (1 - confidence) / 2
    if values[0] == 1:
        return Interval(1.0, float(scipy.special.betaincinv(n, 1, miss)), 1.0)
    return Interval(0.0, 0.0, float(scipy.special.betaincinv(1, n, 1 - miss)))


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


@validate_types
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


@validate_types
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
) -> ControlResult:
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
    outcomes: dict[str, list[ControlOutcome]] = {name: [] for name in controllers}
    tasks_by_seed = {seed: tasks(make_generator(seed, "tasks")) for seed in seeds}
    total, done = len(controllers) * len(tasks_by_seed) * streams, 0
    for name, controller in controllers.items():
        for seed, one in tasks_by_seed.items():
            for stream in range(streams):
                if progress is not None:
                    progress(done, total, name)
                began = time.perf_counter()
                source = make_generator(seed, "planner", name, stream)
                runs = run(plant, controller, one, rules.budget, source)
                errors = rules.errors(runs.qpos, one.goals[:, None])
                spent, seconds = runs.spent, time.perf_counter() - began
                outcome = ControlOutcome(
                    seed, stream, rules.succeeded(errors), runs.qpos, errors, spent, seconds
                )
                outcomes[name].append(outcome)
                done += 1
    return ControlResult(rules, tasks_by_seed, outcomes, confidence)


_GHOST = 0.3  # how much of the goal is seen in every frame
_COLORS = 64
_LAST = 1000  # milliseconds that the last frame stays


def film(plant: Plant, qpos: np.ndarray, goal: np.ndarray, *, size: int = 160, every: int = 2) -> bytes:
    """A run as an animated GIF, as fast as it was.

    Args:
        plant: that draws it.
        qpos: (steps + 1, joints) poses.
        goal: (joints,) pose, seen in every frame as a ghost.
        size: side in pixels.
        every: steps from one frame to the next.

    Raises:
        NoRendering: nothing here draws.
        ImportError: Pillow is not installed.
    """
    poses = np.concatenate((qpos[:-1:every], qpos[-1:]))
    frames = plant.observe(np.concatenate((poses, goal[None])), ArmLook(size=size)).astype(np.float32)
    mixed = (1 - _GHOST) * frames[:-1] + _GHOST * frames[-1]
    return animated(mixed.round().astype(np.uint8), plant.seconds * every)


def animated(frames: np.ndarray, seconds: float) -> bytes:
    """Frames uint8 (n, height, width, 3) as a GIF that repeats, each for so many seconds."""
    image = import_pillow()
    # one palette for all: what does not move is then the same in each, and stored once
    palette = image.fromarray(np.concatenate(frames[[0, len(frames) // 2, -1]])).quantize(_COLORS)
    images = [image.fromarray(frame).quantize(palette=palette, dither=0) for frame in frames]
    file = io.BytesIO()
    pauses = [round(1000 * seconds)] * (len(images) - 1) + [_LAST]
    images[0].save(
        file, "GIF", save_all=True, append_images=images[1:], duration=pauses, loop=0, optimize=True
    )
    return file.getvalue()
