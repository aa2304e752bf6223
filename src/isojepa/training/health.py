"""Whether embeddings are still alive while they are trained: collapse and numbers that are none."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from isojepa.linear import collapsed

_RANK = 2.0  # effective dimensions, below which next to all of an embedding lies on one line


class Health:
    """Reads a run's evaluations for signs of collapse.

    Args:
        models: names of the run's models; the first has the plain names of numbers, see `Spread`.
        spreads: whether the objective asks for variance in every direction, see `Objective.spreads`. If not,
            an embedding that has none at all has collapsed, or one whose RankMe, where it is measured, is
            below 2: features behind a LayerNorm have a direction without variance whatever is learned.

    Example:
        >>> health = Health(("encoder",))
        >>> health.alarm({"step": 200, "smallest_variance": 1e-9, "mean_variance": 0.5})
        "the embedding collapsed: its smallest variance is 1e-09 at step 200; raise the regularizer's weight"
        >>> health.alarm({"step": 400, "smallest_variance": 1e-9, "mean_variance": 0.5})
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
        for name in self.models:
            smallest = row.get(self._named(name, "smallest_variance"))
            whose = "the embedding" if len(self.models) == 1 else f"the embedding of {name!r}"
            if smallest is None:
                continue
            mean = row[self._named(name, "mean_variance")]
            if self.spreads and collapsed(smallest, mean):
                return (
                    f"{whose} collapsed: its smallest variance is {smallest:.2g} at step {row['step']}; "
                    "raise the regularizer's weight"
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
