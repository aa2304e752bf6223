"""Teachers: a copy of a model whose weights are a moving average of the model's, and which gets no gradient.

The copy is made from the weights that the model starts from. It stays in the model's mode: norms over a batch
take the statistics of the teacher's own batch while training.

The decay may rise along half a cosine over the S steps of a run, from d_0 to d_1 (Grill et al. 2020):

    d(s) = d_1 - (d_1 - d_0) (cos(pi s / S) + 1) / 2

Who trains tells S (`Objective.plan`); as long as nobody has, the decay stays d_0.
"""

import copy
import math

import torch
from torch import Tensor, nn

from isojepa.arguments import checked
from isojepa.encoders.layers import check_decay, follow
from isojepa.encoders.model import Model, as_model, module_of
from isojepa.objectives.objective import embed_views


class Teacher(nn.Module):
    """A model's moving average.

    Args:
        decay: share of the average that stays at a step, in [0, 1]; d_0 where it rises.
        last: d_1, in [0, 1]; by default the decay stays as it is.

    Example:
        >>> teacher, student = Teacher(decay=0.9), nn.Linear(3, 2)
        >>> teacher.start(as_model(student))
        >>> h = teacher(as_model(student), (torch.zeros(4, 3), torch.ones(4, 3)))
        >>> h.shape, h.requires_grad
        (torch.Size([2, 4, 2]), False)
    """

    @checked
    def __init__(self, decay: float, last: float | None = None) -> None:
        super().__init__()
        self.decay = check_decay(decay)
        self.last = self.decay if last is None else check_decay(last)
        self._steps: int | None = None  # not in a checkpoint: whoever goes on tells it again
        self.register_module("model", None)

    def start(self, model: Model) -> None:
        """Begin as a copy of a model.

        Raises:
            ValueError: the model is a function, without weights to follow.
        """
        module = module_of(model)
        if module is None:
            raise ValueError(f"a teacher must follow a torch module, got {type(model).__name__}")
        self.model = copy.deepcopy(module).requires_grad_(False)

    def plan(self, steps: int) -> None:
        """Hear over how many steps the decay rises."""
        self._steps = steps

    def decay_at(self, step: int) -> float:
        """The decay when `step` steps are done."""
        if self._steps is None or self.last == self.decay:
            return self.decay
        done = min(1.0, step / self._steps)
        return self.last - (self.last - self.decay) * (math.cos(math.pi * done) + 1) / 2

    def average(self, model: Model) -> Model:
        """The average as a model; call it under `torch.no_grad`."""
        if self.model is None:
            self.start(model)
        return as_model(self.model)

    def forward(self, model: Model, views: tuple[Tensor, ...]) -> Tensor:
        """What the average of the model makes of views: (view, batch, dim), without gradient."""
        with torch.no_grad():
            return embed_views(self.average(model), views)

    def follow(self, model: Model, step: int = 0) -> None:
        """Move towards the model: once after each step, of which `step` are done."""
        module = module_of(model)
        if self.model is not None and module is not None:
            follow(self.model, module, self.decay_at(step))

    def extra_repr(self) -> str:
        return f"decay={self.decay}, last={self.last}"
