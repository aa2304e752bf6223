r"""What counts as success, and where runs start and end: the published protocol and a fair one.

    published   goals 25 rows ahead in recorded episodes, the start's velocity kept, 50 steps,
                success if |qpos - goal| < 0.05 for every joint at any step, the first included
    fair        held-out episodes or drawn poses, starts that are solved already removed, angles modulo 2 pi,
                100 steps, success if all of the last 10 are within 0.05

The published one is met by chance: a start may be within the tolerance, an arm that flies past the goal
counts, and an angle that is a full turn off does not.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from isojepa.arguments import check_count, check_fields, check_number, checked
from isojepa.planning.closed_loop.recording import draw_poses
from isojepa.worlds.control.arm import LIMIT
from isojepa.worlds.episodes import Episodes

_TURN = 2 * np.pi
Draw = Callable[[int], tuple[np.ndarray, np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Rules:
    """What counts as success.

    Attributes:
        budget: steps of the plant.
        tolerance: rad, of each joint.
        hold: how many of the last steps must be within it; 0 if any step will do.
        wrapped: whether angles are compared modulo 2 pi.
        solved: whether starts within the tolerance are kept.
    """

    budget: int = 100
    tolerance: float = 0.05
    hold: int = 10
    wrapped: bool = True
    solved: bool = False

    def __post_init__(self) -> None:
        check_fields(self)
        check_count("budget", self.budget)
        check_count("hold", self.hold, 0, self.budget)
        check_number("tolerance", self.tolerance, "be positive and finite", lambda value: value > 0)

    def errors(self, qpos: np.ndarray, goals: np.ndarray) -> np.ndarray:
        """(...) largest difference of a joint between poses and goals (..., joints)."""
        difference = qpos - goals
        if self.wrapped:
            difference = difference - _TURN * np.round(difference / _TURN)
        return np.asarray(np.abs(difference).max(-1))

    def succeeded(self, errors: np.ndarray) -> np.ndarray:
        """(copies,) whether runs of errors (copies, budget + 1) count, the start first."""
        within = errors < self.tolerance
        return np.asarray(within.any(1) if not self.hold else within[:, -self.hold :].all(1))


PUBLISHED = Rules(budget=50, hold=0, wrapped=False, solved=True)
FAIR = Rules()
PROTOCOLS = {"published": PUBLISHED, "fair": FAIR}


@dataclass(frozen=True)
class Tasks:
    """Starts and goals.

    Attributes:
        qpos, qvel: (tasks, joints) at the start.
        goals: (tasks, joints).
        removed: that were solved already, or whose goal nothing can hold, and were left out.
    """

    qpos: np.ndarray
    qvel: np.ndarray
    goals: np.ndarray
    removed: int = 0

    def __len__(self) -> int:
        return len(self.qpos)


@checked
def tasks_from_episodes(
    episodes: Episodes, count: int, rules: Rules, generator: torch.Generator, *, offset: int = 25
) -> Tasks:
    """Starts at rows of episodes, goals `offset` rows later in the same ones.

    Args:
        episodes: held out from whatever was trained.
        count: of tasks.
        rules: which starts are solved already, and whether they stay.
        generator: chooses episodes and rows.
        offset: rows between start and goal.

    Raises:
        ValueError: no episode is longer than the offset.
    """
    check_count("count", count)
    check_count("offset", offset)
    poses, speeds = episodes.vectors("qpos"), episodes.vectors("qvel")
    long = np.flatnonzero(episodes.lengths > offset + 1).tolist()
    if not long:
        longest = int(episodes.lengths.max())
        raise ValueError(f"an episode must have more than {offset + 1} rows, got {longest} at most")

    def draw(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        found = []
        for _ in range(n):
            place = long[int(torch.randint(len(long), (), generator=generator))]
            qpos, qvel = poses[place], speeds[place]
            row = int(torch.randint(1, len(qpos) - offset, (), generator=generator))
            found.append((qpos[row], qvel[row], qpos[row + offset]))
        qpos, qvel, goals = (np.stack(part) for part in zip(*found, strict=True))
        return qpos, qvel, goals

    return _kept(draw, count, rules)


@checked
def drawn_tasks(law: str, count: int, rules: Rules, generator: torch.Generator) -> Tasks:
    """Starts at rest and goals, both drawn: "gaussian" from N(0, I), "uniform" over all poses.

    Raises:
        ValueError: the law is unknown.
    """
    check_count("count", count)

    def draw(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        qpos = draw_poses(law, n, generator)
        return qpos, np.zeros_like(qpos), draw_poses(law, n, generator)

    return _kept(draw, count, rules)


def _kept(draw: Draw, count: int, rules: Rules) -> Tasks:
    """As many tasks as asked for, of which none is solved already, unless the rules keep those."""
    parts, have, removed = [], 0, 0
    while have < count:
        qpos, qvel, goals = draw(count - have)
        if rules.wrapped:  # the turn that is nearest to the start is the same goal
            goals = goals - _TURN * np.round((goals - qpos) / _TURN) * (1.0, 0.0)
        keep = np.full(len(qpos), True)
        if not rules.solved:
            keep = rules.errors(qpos, goals) >= rules.tolerance
            keep &= np.abs(goals[:, 1]) <= LIMIT  # beyond, where nothing can hold it, a wrist only bounces
        parts.append((qpos[keep], qvel[keep], goals[keep]))
        have += int(keep.sum())
        removed += int((~keep).sum())
        if removed > 100 * count:
            raise ValueError(f"tasks must not all be solved already, got {removed} of {removed + have}")
    qpos, qvel, goals = (np.concatenate(part) for part in zip(*parts, strict=True))
    return Tasks(qpos, qvel, goals, removed)
