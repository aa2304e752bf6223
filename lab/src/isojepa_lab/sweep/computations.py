"""The price of computations: cells of a study that train nothing."""

import statistics
from collections.abc import Mapping, Sequence

from isojepa.training.run_directory import RunDirectory
from isojepa_lab.studies.cells import Computation
from isojepa_lab.sweep.plan import Task

_GUESS = 2.0  # seconds of a computation of a study that has computed nothing yet


def price_computations(tasks: Sequence[Task], states: Mapping[str, str]) -> tuple[dict[str, float], int]:
    """Seconds left of each computation, and how many of them are a guess.

    One that is not done is taken to need what its study says, else the median of those of it that are done.
    """
    spent: dict[str, list[float]] = {}
    for task in tasks:
        if states[task.name] == "done":
            spent.setdefault(task.study, []).append(float((RunDirectory(task.path).result or {})["seconds"]))
    prices = {study: statistics.median(seconds) for study, seconds in spent.items()}
    unmeasured, guesses = {}, 0
    for task in tasks:
        config, done = task.config, states[task.name] == "done"
        said = config.seconds if isinstance(config, Computation) else None
        guesses += not done and said is None and task.study not in prices
        unmeasured[task.name] = 0.0 if done else said or prices.get(task.study, _GUESS)
    return unmeasured, guesses
