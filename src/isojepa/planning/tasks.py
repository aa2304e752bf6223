"""Planning tasks from recorded episodes: a start and a goal are two rows of one episode, `offset` apart.

The environment is put at a start by `set_state` from the column `state`, or by `reset(seed)` and a replay of
the recorded actions. Either is checked: the observation that follows the next recorded action must equal the
recorded one, and after a replay also the observation of the start. Without that check, tasks from episodes of
another version, or of an environment with unseeded noise, would start somewhere else than recorded.
"""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from isojepa.data.environments import GymEnvironment, Step
from isojepa.data.episodes import Episodes
from isojepa.data.trajectories import Trajectories
from isojepa.seeds import generator
from isojepa.validation import check_count

OFFSET = 25  # rows between start and goal, by default
RELATIVE, ABSOLUTE = 1e-5, 1e-6  # tolerances of a reproduced observation; the second in units of its column
_MAX_DRAWS = 100  # starts that are drawn for each task, while all are solved


@dataclass(frozen=True)
class GoalTasks:
    """Starts and goals.

    Attributes:
        episode, row: (tasks,) of the starts.
        starts, goals: (tasks, *observation).
        offset: rows between start and goal.
        drawn: number of starts that were drawn.
        solved: those among them that were already solved, and were left out.
    """

    episode: np.ndarray
    row: np.ndarray
    starts: np.ndarray
    goals: np.ndarray
    offset: int
    drawn: int
    solved: int

    def __len__(self) -> int:
        return len(self.row)


class RecordedStarts:
    """Rows of recorded episodes as starts in an environment.

    Args:
        episodes: with columns observation and action, and state or seed, as `isojepa.collect` records them.
        environment: in which they were recorded.

    Attributes:
        by_state: whether starts are restored by `set_state`; otherwise by reset and replay.
        gain: (size,) 1 / standard deviation per number of an observation; 0 where it is constant.

    Raises:
        ValueError: a column is missing or has another shape than the environment's.
    """

    def __init__(self, episodes: Episodes, environment: GymEnvironment) -> None:
        shapes = {name: episodes.shape(name) for name in episodes.names}
        expected = {"observation": environment.observation_shape, "action": (environment.actions.width,)}
        for column, shape in expected.items():
            if shapes.get(column) != shape:
                raise ValueError(
                    f"tasks must have a column {column} of shape {shape} for {environment.name}, got {shapes}"
                )
        self.by_state = environment.restorable and "state" in episodes
        if not self.by_state and "seed" not in episodes:
            raise ValueError(
                f"tasks must have a column state or seed to restore starts in {environment.name}, got "
                f"{', '.join(episodes.names)}: collect them with isojepa collect"
            )
        self.episodes, frames = episodes, episodes.values("observation")
        mean, deviation = (moment.reshape(-1) for moment in Trajectories("observation", frames).moments())
        self._scale = np.hypot(mean, deviation)
        varying = deviation > ABSOLUTE * self._scale
        self.gain = np.where(varying, 1 / np.where(varying, deviation, 1.0), 0.0)

    def restore(self, environment: GymEnvironment, episode: int, row: int) -> np.ndarray:
        """Put an environment at a row of an episode; the observation there."""
        seeded = "seed" in self.episodes
        first = environment.reset(int(self.episodes.rows("seed", episode)[0]) if seeded else 0)
        if self.by_state:
            environment.set_state(self.episodes.rows("state", episode)[row])
            return np.asarray(self.episodes.rows("observation", episode)[row])
        observation = first
        for action in self.episodes.rows("action", episode)[:row]:
            observation = environment.step(action).observation
        return observation

    def follow(self, environment: GymEnvironment, episode: int, row: int) -> Step:
        """Restore a row and take its recorded action.

        Raises:
            ValueError: the environment does not reproduce the recorded observations.
        """
        recorded = self.episodes.rows("observation", episode)
        self._compare(environment, self.restore(environment, episode, row), recorded[row], episode, row)
        step = environment.step(self.episodes.rows("action", episode)[row])
        self._compare(environment, step.observation, recorded[row + 1], episode, row + 1)
        return step

    def distance(self, observation: np.ndarray, goal: np.ndarray) -> float:
        """Euclidean distance of standardized observations; constant columns are left out."""
        difference = np.subtract(observation, goal, dtype=np.float64).reshape(-1)
        return float(np.linalg.norm(difference * self.gain))

    def _compare(
        self,
        environment: GymEnvironment,
        observation: np.ndarray,
        recorded: np.ndarray,
        episode: int,
        row: int,
    ) -> None:
        difference = np.abs(np.subtract(observation, recorded, dtype=np.float64)).reshape(-1)
        allowed = RELATIVE * np.abs(recorded.reshape(-1).astype(np.float64)) + ABSOLUTE * self._scale
        if not (difference <= allowed).all():
            noise = "draw its noise from self.np_random, "
            remedy = "" if self.by_state else f"{noise}record the column state (get_state, set_state) or "
            raise ValueError(
                f"{environment.name} must reproduce the recorded observations, got a difference of "
                f"{difference.max():.3g} at step {row} of episode {episode} after "
                f"{'set_state' if self.by_state else 'a replay'}: {remedy}collect again with "
                f"this version ({environment.version})"
            )


def draw_tasks(
    starts: RecordedStarts,
    environment: GymEnvironment,
    count: int,
    offset: int | None = None,
    solved: Callable[[int, int, int], bool] = lambda episode, row, goal: False,
    *,
    first_row: int = 0,
    seed: int = 0,
) -> GoalTasks:
    """Draw tasks: at most one start of each episode until all episodes are used, then more.

    Args:
        starts: rows of episodes.
        environment: in which each start is checked.
        count: number of tasks; fewer if the episodes have no more starts.
        offset: rows between start and goal; by default 25, or half of the longest episode if that is shorter.
        solved: whether the start at (episode, row) with the goal at a later row is already solved.
        first_row: smallest row of a start.
        seed: draws the starts.

    Raises:
        ValueError: no episode is long enough, or the environment does not reproduce the episodes.
    """
    episodes, longest = starts.episodes, int(starts.episodes.lengths.max())
    if offset is None:
        offset = OFFSET if longest > OFFSET + first_row else max(longest // 2, 1)
    if longest <= check_count("offset", offset) + first_row:
        raise ValueError(
            f"offset must be less than the {longest - first_row} rows of the longest episode, got {offset}"
        )
    places: list[tuple[int, int]] = []  # (episode, row)
    draws = 0
    for episode, row in itertools.islice(
        _starts(episodes.lengths, offset, first_row, seed), _MAX_DRAWS * count
    ):
        draws += 1
        if not solved(episode, row, row + offset):
            starts.follow(environment, episode, row)
            places.append((episode, row))
        if len(places) == count:
            break
    shape, dtype = (-1, *environment.observation_shape), environment.observation_dtype
    pairs = np.array(places, np.int64).reshape(-1, 2)
    ends = [(episodes.rows("observation", episode), row) for episode, row in places]
    return GoalTasks(
        episode=pairs[:, 0],
        row=pairs[:, 1],
        starts=np.array([observations[row] for observations, row in ends], dtype).reshape(shape),
        goals=np.array([observations[row + offset] for observations, row in ends], dtype).reshape(shape),
        offset=offset,
        drawn=draws,
        solved=draws - len(places),
    )


class Simulator:
    """The environment itself as `Dynamics`: latents are standardized observations, followed by the state.

    Where the environment terminates the latent stays as it is.

    Args:
        environment: one that can restore its state.
        gain: (size,) by which the numbers of an observation are multiplied.
    """

    context: int = 1

    def __init__(self, environment: GymEnvironment, gain: np.ndarray) -> None:
        self.environment, self.gain = environment, gain
        state = environment.get_state()
        self.width = 0 if state is None else len(state)

    def encode(self, observations: Any) -> Tensor:
        """Latents (..., time, dim) of observations (..., time, *obs), with 0 for the state: for goals."""
        values = np.asarray(observations, dtype=np.float64)
        axes = values.ndim - len(self.environment.observation_shape)
        scaled = values.reshape(*values.shape[:axes], -1) * self.gain
        return torch.from_numpy(np.concatenate((scaled, np.zeros((*scaled.shape[:-1], self.width))), -1))

    def locate(self, observations: np.ndarray, states: np.ndarray) -> Tensor:
        """Latents (n, dim) of observations (n, *obs) in states (n, k)."""
        latents = self.encode(observations)
        latents[:, len(self.gain) :] = torch.from_numpy(states)
        return latents

    def rollout(self, latents: Tensor, actions: Tensor) -> Tensor:
        """Latents (..., horizon, dim) after actions (..., horizon, m), from latents (..., 1, dim)."""
        size, environment = len(self.gain), self.environment
        starts = latents[..., -1, :].reshape(-1, latents.shape[-1]).numpy()
        plans = actions.reshape(-1, *actions.shape[-2:]).numpy()
        visited = np.empty((*plans.shape[:2], starts.shape[1]))
        for start, plan, path in zip(starts, plans, visited, strict=True):
            environment.set_state(start[size:])
            for number, action in enumerate(plan):
                step = environment.step(action)
                path[number, :size] = step.observation.reshape(-1) * self.gain
                path[number, size:] = environment.get_state()
                if step.terminated:
                    path[number + 1 :] = path[number]
                    break
        return torch.from_numpy(visited).reshape(*actions.shape[:-1], -1)


def _starts(lengths: np.ndarray, offset: int, first: int, seed: int) -> Iterator[tuple[int, int]]:
    """All starts (episode, row) in random order, one of each episode in a round."""
    source = generator(seed, "evaluate", "episodes")
    rows: dict[int, Tensor] = {}
    for turn in range(int(lengths.max()) - offset - first):
        for episode in torch.randperm(len(lengths), generator=source).tolist():
            if episode not in rows:
                order = generator(seed, "evaluate", "rows", episode)
                count = max(int(lengths[episode]) - offset - first, 0)
                rows[episode] = torch.randperm(count, generator=order) + first
            if turn < len(rows[episode]):
                yield episode, int(rows[episode][turn])
