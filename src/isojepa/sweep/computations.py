"""The price of computations: cells of a study that train nothing."""

import statistics
from collections.abc import Mapping, Sequence

from isojepa.sweep.plan import Task
from isojepa.training.records import Record

_GUESS = 2.0  # seconds of a computation of a study that has computed nothing yet


def price_computations(tasks: Sequence[Task], states: Mapping[str, str]) -> tuple[dict[str, float], int]:
    """Seconds left of each computation, and how many of them are a guess.

    One that is not done is taken to need the median of those of its study that are.
    """
    spent: dict[str, list[float]] = {}
    for task in tasks:
        if states[task.name] == "done":
            spent.setdefault(task.study, []).append(float((Record(task.path).result or {})["seconds"]))
    prices = {study: statistics.median(seconds) for study, seconds in spent.items()}
    left = {
        task.name: 0.0 if states[task.name] == "done" else prices.get(task.study, _GUESS) for task in tasks
    }
    return left, sum(states[task.name] != "done" and task.study not in prices for task in tasks)
