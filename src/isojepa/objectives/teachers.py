"""Teachers: a copy of a model whose weights are a moving average of the model's, and which gets no gradient.

The copy is made from the weights that the model starts from. It stays in the model's mode: norms over a batch
take the statistics of the teacher's own batch while training.
"""

import copy

import torch
from torch import Tensor, nn

from isojepa.arguments import checked
from isojepa.encoders.averages import check_decay, follow
from isojepa.encoders.model import Model, as_model, module_of
from isojepa.objectives.objective import embed_views


class Teacher(nn.Module):
    """A model's moving average.

    Args:
        decay: share of the average that stays at a step, in [0, 1].

    Example:
        >>> teacher, student = Teacher(decay=0.9), nn.Linear(3, 2)
        >>> teacher.start(as_model(student))
        >>> h = teacher(as_model(student), (torch.zeros(4, 3), torch.ones(4, 3)))
        >>> h.shape, h.requires_grad
        (torch.Size([2, 4, 2]), False)
    """

    @checked
    def __init__(self, decay: float) -> None:
        super().__init__()
        self.decay = check_decay(decay)
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

    def forward(self, model: Model, views: tuple[Tensor, ...]) -> Tensor:
        """What the average of the model makes of views: (view, batch, dim), without gradient."""
        if self.model is None:
            self.start(model)
        with torch.no_grad():
            return embed_views(as_model(self.model), views)

    def follow(self, model: Model) -> None:
        """Move towards the model: once after each step."""
        module = module_of(model)
        if self.model is not None and module is not None:
            follow(self.model, module, self.decay)

    def extra_repr(self) -> str:
        return f"decay={self.decay}"
