"""No training: the encoder keeps the weights that it was drawn with, as a baseline under the same config.

    loss = 0

No model is called and none gets a gradient, so that no weight moves, by weight decay neither, and no running
statistic. A step draws its batch all the same: one step is as good as many.
"""

from dataclasses import dataclass

import torch
from torch import nn

from isojepa.objectives.objective import Loss, Models, Objective
from isojepa.registry import Context, Spec, register
from isojepa.worlds.batch import Batch


class Untrained(Objective):
    """A loss of zero that leaves every model as it is.

    Example:
        >>> model = nn.Linear(2, 2)
        >>> loss = Untrained()({"encoder": model}, Batch((torch.zeros(3, 2),) * 2), torch.Generator())
        >>> loss.total.backward()
        >>> loss.total.item(), model.weight.grad is None
        (0.0, True)
    """

    spreads = False

    def __init__(self) -> None:
        super().__init__()
        self.nothing = nn.Parameter(torch.zeros(()))  # what is differentiated: a loop expects something to be

    def forward(self, models: Models, batch: Batch, generator: torch.Generator) -> Loss:
        """Zero."""
        return Loss(self.nothing.square(), {})


@register("objective", "random")
@dataclass(frozen=True)
class UntrainedSpec(Spec):
    """No training: weights stay as they were drawn, to compare with."""

    def build(self, context: Context) -> Untrained:
        return Untrained()

    def operations(self, batch: float, dim: int) -> float:
        return 0.0
