"""When numbers of embeddings say that a model collapses, and what to do about it.

    broken       outputs are NaN or Inf
    collapse     all inputs get one embedding: next to no variance, alone or beside the length of the mean
    direction    a direction that had variance has next to none, as `isojepa.linear.collapsed` tells and `fit`
    dimensions   the effective rank has fallen below a share of the highest that was seen

The last two compare with what was seen before and must hold at two measurements in a row: networks often
begin anisotropic, and those of others need not be isotropic at all. Each alarm is given once.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from isojepa.linear import collapsed

_NEXT_TO_NONE = 1e-5  # of the mean square of the embeddings, the share that varies
_TWICE = 2


class WatchWarning(UserWarning):
    """Something could not be watched."""


class CollapseWarning(WatchWarning):
    """A watched model collapses."""


@dataclass(frozen=True)
class Alarm:
    """What was seen, when, and what to do.

    Attributes:
        step: of the measurement.
        kind: broken, collapse, direction or dimensions.
        message: a sentence with the numbers and the advice.
    """

    step: int
    kind: str
    message: str


class Alarms:
    """Judges one row of numbers after another.

    Args:
        drop: share of the highest effective rank below which dimensions count as lost.

    Example:
        >>> rule = Alarms()
        >>> row = {"nonfinite": 0, "mean_variance": 1e-9, "mean_length": 1, "effective_rank": 1}
        >>> rule.judge(100, row, dim=8)[0].kind
        'collapse'
    """

    def __init__(self, drop: float = 0.5) -> None:
        self.drop = drop
        self._given: set[str] = set()
        self._seen: dict[str, int] = {}
        self._highest, self._at = 0.0, 0
        self._whole = False

    def judge(self, step: int, row: Mapping[str, float], dim: int) -> list[Alarm]:
        """The alarms that a row gives for the first time.

        Args:
            step: when it was measured.
            row: what `measure` gives.
            dim: of the embeddings.
        """
        found = self._found(row, dim)
        self._remember(step, row)
        new = []
        for kind, message in found.items():
            self._seen[kind] = self._seen.get(kind, 0) + 1
            due = self._seen[kind] >= (1 if kind in ("broken", "collapse") else _TWICE)
            if due and kind not in self._given:
                self._given.add(kind)
                new.append(Alarm(step, kind, f"step {step}: {message}"))
        for kind in self._seen.keys() - found.keys():
            self._seen[kind] = 0
        return new

    def _found(self, row: Mapping[str, float], dim: int) -> dict[str, str]:
        """What is wrong in a row, by kind; the graver hides the others."""
        if row["nonfinite"] > 0:
            return {
                "broken": f"{100 * row['nonfinite']:.3g} % of the embeddings are NaN or Inf: lower the "
                "learning rate, clip gradients, or train in float32 or bfloat16 instead of float16"
            }
        mean = row["mean_variance"]
        square = mean + row["mean_length"] ** 2 / dim
        if mean < 1e-6 or mean < _NEXT_TO_NONE * square:
            return {
                "collapse": f"all inputs get nearly the same embedding, of variance {mean:.2g} around a mean "
                f"of length {row['mean_length']:.2g}: give the term that spreads embeddings (SIGReg, "
                "variance, negatives) more weight, or the model a stop-gradient if its method needs one, and "
                "lower the learning rate"
            }
        found = {}
        smallest = row.get("smallest_variance", math.nan)
        if self._whole and not math.isnan(smallest) and collapsed(smallest, mean):
            found["direction"] = (
                f"a direction has lost its variance ({smallest:.2g} beside a mean of {mean:.2g}): raise the "
                "regularizer's weight, or embed in fewer dimensions"
            )
        rank = row["effective_rank"]
        if rank < self.drop * self._highest:
            found["dimensions"] = (
                f"the effective rank fell to {rank:.3g} from {self._highest:.3g} at step {self._at}: "
                "dimensions collapse; raise the regularizer's weight, lower the learning rate, or look "
                "whether the views still share what should be kept"
            )
        return found

    def _remember(self, step: int, row: Mapping[str, float]) -> None:
        if row["nonfinite"] > 0:
            return
        if row["effective_rank"] > self._highest:
            self._highest, self._at = row["effective_rank"], step
        smallest, mean = row.get("smallest_variance", math.nan), row["mean_variance"]
        self._whole = self._whole or (not math.isnan(smallest) and not collapsed(smallest, mean))
