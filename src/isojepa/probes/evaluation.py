"""What training measures while it trains."""

from collections.abc import Mapping
from typing import Protocol

import torch

from isojepa.encoders.model import Model


class Evaluation(Protocol):
    """A measure of models: recovery, a probe, planning success.

    Attributes:
        name: what it is called, in errors and tables.
        primary: the entry of its result that stands for it.
        every: steps between two calls; None for the recipe's own pace. The last step has one in any case.
    """

    @property
    def name(self) -> str: ...

    @property
    def primary(self) -> str: ...

    @property
    def every(self) -> int | None: ...

    def __call__(self, models: Mapping[str, Model], generator: torch.Generator) -> dict[str, float]:
        """Numbers by name; the generator is the same at every call of a run.

        Called on one rank, with the models in evaluation mode and no gradients recorded.
        """
        ...
