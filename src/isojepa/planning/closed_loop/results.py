"""How often controllers succeed: rows of plain values, intervals by bootstrap over tasks, a table in text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from isojepa.certificates.intervals import Interval, bootstrap
from isojepa.names import choose
from isojepa.planning.closed_loop.controllers import Spent
from isojepa.planning.closed_loop.rules import Rules, Tasks


@dataclass(frozen=True)
class Outcome:
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
class Evaluation:
    """Controllers on the same tasks.

    Attributes:
        rules: what counts as success.
        tasks: starts and goals of each seed.
        outcomes: of each controller, one for each seed and stream.
        confidence: of the intervals.
    """

    rules: Rules
    tasks: Mapping[int, Tasks]
    outcomes: Mapping[str, Sequence[Outcome]]
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
        found = []
        for name, outcomes in self.outcomes.items():
            rate = self.success(name)
            plans = sum(one.spent.plans for one in outcomes)
            planned = sum(one.spent.seconds for one in outcomes)
            problems = sum(one.spent.problems for one in outcomes)
            found.append(
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
        return found

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
