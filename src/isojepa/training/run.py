"""Run: the result of training."""

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from isojepa.training.run_directory import RunDirectory


class RunWarning(UserWarning):
    """A run diverged or collapsed."""


@dataclass(frozen=True)
class Run:
    """Result of training.

    Attributes:
        models: the trained models by name, in evaluation mode.
        status: "done", "collapsed" or "diverged".
        reason: one sentence if the run diverged or collapsed, else empty.
        metrics: one row per evaluation.
        seconds: training time.
        record: the run directory, if there is one.
        source: metadata of the training data, e.g. the hashes of its episodes.
    """

    models: Mapping[str, nn.Module]
    status: str
    reason: str
    metrics: list[dict[str, Any]] = field(repr=False)
    seconds: float
    record: RunDirectory | None
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
        """The run; issues a RunWarning if it diverged or collapsed."""
        if self.reason:
            warnings.warn(self.reason, RunWarning, stacklevel=4)
        return self
