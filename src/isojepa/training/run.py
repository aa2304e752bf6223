"""What training leaves."""

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from isojepa.training.records import Record


class RunWarning(UserWarning):
    """A run ended, but not well."""


@dataclass(frozen=True)
class Run:
    """What training leaves.

    Attributes:
        models: the trained models by name, in evaluation mode.
        status: "done", "collapsed" or "diverged".
        reason: one sentence when the run did not end well, else empty.
        metrics: one row per evaluation.
        seconds: training time.
        record: the run's folder, if it has one.
        source: what is known of the training data, e.g. the hashes of its episodes.
    """

    models: Mapping[str, nn.Module]
    status: str
    reason: str
    metrics: list[dict[str, Any]] = field(repr=False)
    seconds: float
    record: Record | None
    source: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def encoder(self) -> nn.Module:
        """The first model."""
        return next(iter(self.models.values()))

    @property
    def r2(self) -> float:
        """Held-out R^2 of the latents regressed on the embeddings, when last measured; else NaN."""
        return float(next((row["r2"] for row in reversed(self.metrics) if "r2" in row), math.nan))

    def warned(self) -> "Run":
        """The run; a RunWarning is given if it did not end well."""
        if self.reason:
            warnings.warn(self.reason, RunWarning, stacklevel=4)
        return self
