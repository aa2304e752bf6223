r"""Two ends of a comparison: supervised learning, and no training.

Supervised learning trains a linear head on the features with cross entropy,

    loss = mean over views and batch of - log softmax(W features + b)[label]

for every view, global or local. The embedding is not used.

`random` keeps the initial weights of the encoder:

    loss = 0

No model is called and none gets a gradient, so weights, also under weight decay, and running statistics stay.
A step still samples its batch: one step is as good as many.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from isojepa import ranks
from isojepa.data.batch import Batch
from isojepa.encoders.layers import linear
from isojepa.objectives.objective import Loss, Models, Objective, at_least_float32, features_of_views
from isojepa.registry import Context, Spec, register
from isojepa.seeds import generator as make_generator
from isojepa.validation import check_count, validate_types


class Supervised(Objective):
    """Cross entropy of a linear head on the features of the first model; the head is trained too.

    Args:
        classes: number of classes; labels are 0 to classes - 1.
        dim: of the features.
        seed: initializes the head.

    Example:
        >>> from isojepa.encoders.model import as_model
        >>> batch = Batch((torch.randn(6, 8),) * 2, labels=torch.arange(6) % 3)
        >>> models = {"encoder": as_model(torch.nn.Linear(8, 4))}
        >>> loss = Supervised(classes=3, dim=4)(models, batch, torch.Generator())
        >>> sorted(loss.terms)
        ['accuracy']
    """

    prevents_collapse = False

    @validate_types
    def __init__(self, classes: int, dim: int, seed: int = 0) -> None:
        super().__init__()
        self.classes = check_count("classes", classes)
        self.head = linear(check_count("dim", dim), self.classes, make_generator(seed, "head"))

    def forward(self, models: Models, batch: Batch, generator: torch.Generator) -> Loss:
        """The loss of a batch with labels (batch,); `accuracy` is the fraction of correct views.

        Raises:
            ValueError: labels are missing or out of range.
        """
        labels = self._labels(batch)
        h = features_of_views(next(iter(models.values())), batch.views)
        logits = at_least_float32(self.head(h))
        targets = labels.expand(len(h), -1)
        with torch.autocast(h.device.type, enabled=False):  # sums over a batch need their digits
            n = ranks.count(len(labels), h.device) * len(h)
            total = functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum")
            right = (logits.detach().argmax(-1) == targets).sum().to(total)
            return Loss(ranks.total(total) / n, {"accuracy": ranks.total(right) / n})

    def _labels(self, batch: Batch) -> Tensor:
        labels = batch.labels
        if labels is None:
            raise ValueError("supervised training needs labels, got a source whose batches have none")
        if labels.ndim != 1 or labels.is_floating_point():
            raise ValueError(
                f"labels must be one whole number for each state, got shape {tuple(labels.shape)} of "
                f"{labels.dtype}"
            )
        low, high = (int(labels.min()), int(labels.max())) if len(labels) else (0, 0)
        if low < 0 or high >= self.classes:
            raise ValueError(
                f"labels must be 0 to {self.classes - 1}, got {low if low < 0 else high}: "
                "do the splits have the same classes?"
            )
        return labels.long()


@register("objective", "supervised")
@dataclass(frozen=True)
class SupervisedSpec(Spec):
    """Cross entropy of a linear head on the features; for sources with labels."""

    def build(self, context: Context) -> Supervised:
        if context.classes is None:
            raise ValueError("supervised needs a source with labels of known classes, got one without")
        if context.feature_dim is None:
            raise ValueError("supervised needs to know the dimension of the features: set the encoder's dim")
        return Supervised(context.classes, context.feature_dim, context.seed)

    def operations(self, batch: float, dim: int) -> float:
        return 100.0 * batch * dim


class Untrained(Objective):
    """A loss of zero, which changes no model.

    Example:
        >>> model = nn.Linear(2, 2)
        >>> loss = Untrained()({"encoder": model}, Batch((torch.zeros(3, 2),) * 2), torch.Generator())
        >>> loss.total.backward()
        >>> loss.total.item(), model.weight.grad is None
        (0.0, True)
    """

    prevents_collapse = False

    def __init__(self) -> None:
        super().__init__()
        self.nothing = nn.Parameter(torch.zeros(()))  # a training loop differentiates the loss

    def forward(self, models: Models, batch: Batch, generator: torch.Generator) -> Loss:
        """Zero."""
        return Loss(self.nothing.square(), {})


@register("objective", "random")
@dataclass(frozen=True)
class UntrainedSpec(Spec):
    """No training: the initial weights, as a baseline."""

    def build(self, context: Context) -> Untrained:
        return Untrained()

    def operations(self, batch: float, dim: int) -> float:
        return 0.0
