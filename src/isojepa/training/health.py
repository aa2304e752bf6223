"""Whether embeddings are still alive while they are trained: collapse and numbers that are none."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from isojepa.linear import collapsed

MIN_STEPS = 100  # before that an embedding is untrained rather than collapsed
_MAX_DEAD = (
    0.5  # fraction of an embedding's directions with next to no variance, from which on it has collapsed
)
_RANK = 2.0  # effective dimensions, below which next to all of an embedding lies on one line


class Health:
    """Reads a run's evaluations for signs of collapse.

    Args:
        models: names of the run's models; the first has the plain names of numbers, see `Spread`.
        spreads: whether the objective asks for variance in every direction, see `Objective.spreads`. Then an
            embedding has collapsed if half of its directions are dead. If not, if it has no
            variance at all, or if its RankMe, where it is measured, is below 2: features behind a LayerNorm
            have a direction without variance whatever is learned.

    Nothing is judged before step 100.

    Example:
        >>> health = Health(("encoder",))
        >>> health.alarm({"step": 200, "dead_fraction": 0.5, "mean_variance": 0.5})[:40]
        'the embedding collapsed: 50 % of its dir'
        >>> health.alarm({"step": 400, "dead_fraction": 0.5, "mean_variance": 0.5})
        ''
    """

    def __init__(self, models: Sequence[str], spreads: bool = True) -> None:
        self.models, self.spreads = tuple(models), spreads
        self._alarmed = False

    def broken(self, numbers: Mapping[str, float]) -> bool:
        """Whether an embedding has NaN or Inf."""
        return any(math.isnan(numbers.get(self._named(name, "mean_variance"), 0.0)) for name in self.models)

    def collapse(self, row: Mapping[str, Any]) -> str:
        """Why a row of metrics says that an embedding has collapsed; nothing if it does not."""
        if row.get("step", 0) < MIN_STEPS:
            return ""
        for name in self.models:
            dead = row.get(self._named(name, "dead_fraction"))
            whose = "the embedding" if len(self.models) == 1 else f"the embedding of {name!r}"
            if dead is None:
                continue
            mean = row[self._named(name, "mean_variance")]
            if self.spreads and dead >= _MAX_DEAD:
                return (
                    f"{whose} collapsed: {100 * dead:.0f} % of its directions have no variance at step "
                    f"{row['step']}; raise the regularizer's weight"
                )
            rank = row.get(self._named(name, "rankme"), math.inf)
            if not self.spreads and (collapsed(mean, mean) or rank < _RANK):
                told = f"RankMe is {rank:.2g}" if rank < _RANK else f"mean variance is {mean:.2g}"
                return f"{whose} collapsed: its {told} at step {row['step']}; try a lower learning_rate"
        return ""

    def alarm(self, row: Mapping[str, Any]) -> str:
        """The same, once for each time that it happens: an embedding may come back, and collapse again."""
        reason = self.collapse(row)
        before, self._alarmed = self._alarmed, bool(reason)
        return "" if before else reason

    def _named(self, model: str, number: str) -> str:
        """What evaluations call a number of a model: the first has the plain names."""
        return number if model == self.models[0] else f"{model}.{number}"
