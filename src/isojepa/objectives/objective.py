r"""Objectives: what training minimizes, its `Loss`, and embeddings of views.

A loss of embeddings, such as `LeJEPA`, is a function of views (view, batch, dim) and a generator. It always
has

    total = weight * regularizer + (1 - weight) * alignment

An `Objective` is called with the models, the batch and the generator of the step. It may own modules (a
predictor, a decoder, an EMA teacher, a queue, prototypes), which are trained or saved with the models, may
inspect the models before the first step, and may act after each step. `OnViews` makes an objective of a loss
of embeddings.

A `Teacher` is a copy of a model whose weights are an exponential moving average (EMA); it gets no gradient.
It starts from the initial weights of the model and stays in its mode: while training, batch normalization
uses the statistics of the teacher's batch. The EMA decay may follow a cosine schedule over the S steps of a
run, from d_0 to d_1 (Grill et al. 2020):

    d(s) = d_1 - (d_1 - d_0) (cos(pi s / S) + 1) / 2

`Objective.plan` sets S; before it is called, the decay is d_0.
"""

import copy
import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor, nn

from isojepa import ranks
from isojepa.data.batch import Batch
from isojepa.encoders.layers import check_decay, follow
from isojepa.encoders.model import Model, as_model, module_of
from isojepa.validation import check_number, validate_types


@dataclass(frozen=True)
class Loss:
    """The total to minimize and its named terms, all with gradients."""

    total: Tensor
    terms: Mapping[str, Tensor]


class Regularizer(Protocol):
    """Keeps embeddings from collapsing: (..., batch, dim) to a scalar."""

    def __call__(self, embeddings: Tensor, generator: torch.Generator | None = None) -> Tensor: ...


def combine(weight: float, alignment: Tensor, regularizer: Tensor, **more: Tensor) -> Loss:
    """Join the two terms by the one convention of the package."""
    total = weight * regularizer + (1 - weight) * alignment
    return Loss(total, {"alignment": alignment, "regularizer": regularizer, **more})


def check_weight(weight: float) -> float:
    """Check that the weight lies in [0, 1], and return it."""
    return check_number("weight", weight, "lie in [0, 1]", lambda value: 0 <= value <= 1)


def check_views(views: Any, generator: Any = None) -> Tensor:
    """Check the arguments of a loss of embeddings, and return the views.

    Args:
        views: the first argument, embeddings (view, batch, dim).
        generator: the second argument.
    """
    if isinstance(generator, Tensor) or isinstance(views, list | tuple):
        raise ValueError(
            f"views must be one tensor (view, batch, dim), got {_described(views, generator)}: "
            "write loss(torch.stack((h, h_next)))"
        )
    if not isinstance(views, Tensor) or views.ndim != 3 or views.shape[0] < 2:
        raise ValueError(
            "views must be (view, batch, dim) with at least 2 views, got "
            f"{_described(views)}: of two embeddings (batch, dim), torch.stack((h, h_next))"
        )
    check_floats("views", views)
    check_generator(generator)
    check_samples(views)
    return views


def check_floats(name: str, x: Any) -> Tensor:
    """Check that an argument is a dense tensor of floating point numbers, and return it."""
    if not isinstance(x, Tensor) or not x.is_floating_point():
        kind = x.dtype if isinstance(x, Tensor) else type(x).__name__
        raise ValueError(f"{name} must be a tensor of floating point numbers, got {kind}")
    if x.is_meta or x.layout is not torch.strided:
        layout = "one without data" if x.is_meta else str(x.layout)
        raise ValueError(f"{name} must be a dense tensor of plain numbers, got {layout}")
    return x


def check_alone(embeddings: Any, generator: Any) -> None:
    """Check the arguments of a regularizer."""
    if isinstance(generator, Tensor) or isinstance(embeddings, list | tuple):
        raise ValueError(
            f"embeddings must be one tensor (..., batch, dim), got {_described(embeddings, generator)}: of "
            "two views, write regularizer(torch.stack((h, h_next))), which is the mean over both"
        )
    check_generator(generator)


def check_generator(generator: Any) -> None:
    """Check that a generator is a torch.Generator or None."""
    if generator is not None and not isinstance(generator, torch.Generator):
        raise ValueError(f"generator must be a torch.Generator or None, got {type(generator).__name__}")


def _described(*arguments: Any) -> str:
    """Shapes of tensors and types of other arguments, for messages."""
    return " and ".join(
        f"shape {tuple(one.shape)}" if isinstance(one, Tensor) else type(one).__name__
        for one in arguments
        if one is not None
    )


def at_least_float32(x: Tensor) -> Tensor:
    """Cast half precision to float32: sums over a batch need the digits."""
    return x if x.dtype == torch.float64 else x.float()


def check_samples(embeddings: Tensor) -> Tensor:
    """Check that there are at least two samples on all ranks together, and return the embeddings."""
    check_floats("embeddings", embeddings)
    valid = embeddings.ndim >= 2 and embeddings.shape[-1] >= 1
    if not valid or ranks.count(embeddings.shape[-2], embeddings.device) < 2:
        raise ValueError(
            f"embeddings must be (..., batch, dim) with at least 2 samples, got {tuple(embeddings.shape)}"
        )
    return embeddings


Models = Mapping[str, Model]


class Objective(nn.Module):
    """Base of objectives. Subclasses define `forward`, and `start`, `plan`, `after_step` if needed."""

    prevents_collapse: ClassVar[bool] = True
    """Whether it enforces variance in every direction of the embedding; dead directions are a collapse."""

    def start(self, models: Models) -> None:
        """Called by the training loop before the first step, e.g. to copy a model as a teacher.

        A checkpoint is loaded afterwards, so modules made here are restored when a run resumes.
        """

    def plan(self, steps: int) -> None:
        """Called once with the total number of steps, to set up schedules."""

    def window(self, models: Models) -> int:
        """Number of actions in a window of recorded episodes."""
        return 1

    def views_for_model(self, models: Models, batch: Batch) -> Mapping[str, Batch]:
        """The part of a batch for each model: all of it, unless it holds views of several observers."""
        return dict.fromkeys(models, batch)

    def forward(self, models: Models, batch: Batch, generator: torch.Generator) -> Loss:
        """The loss of a batch.

        Args:
            models: by name; the first is the result of training. Sums over the batch go through
                `isojepa.ranks`: the batch is the part of this rank.
            batch: on the device of the models.
            generator: source of randomness; the same on all ranks.
        """
        raise NotImplementedError(f"{type(self).__name__} must define forward(models, batch, generator)")

    def after_step(self, models: Models, step: int) -> None:
        """Called after each optimizer step, e.g. to update a teacher; `step` steps are done."""


class OnViews(Objective):
    """A loss of the embeddings of all views of the first model.

    Args:
        loss: called with views (view, batch, dim) and a generator, and with `global_views=` if not all views
            define the center; a loss without that argument is for batches of global views only.
    """

    @validate_types
    def __init__(self, loss: Callable[..., Loss]) -> None:
        super().__init__()
        self.loss = loss
        self._takes_global_views = _takes(loss, "global_views")

    def forward(self, models: Models, batch: Batch, generator: torch.Generator) -> Loss:
        """Embed every view and return the loss."""
        h = embed_views(next(iter(models.values())), batch.views)
        some = batch.global_views < len(batch.views)
        if some and not self._takes_global_views:
            raise ValueError(
                f"{type(self.loss).__name__} takes all views alike, got a batch of which "
                f"{batch.global_views} of {len(batch.views)} define the center: "
                "use a loss that takes global_views, such as LeJEPA"
            )
        options: dict[str, Any] = {"global_views": batch.global_views} if some else {}
        with torch.autocast(h.device.type, enabled=False):  # sums over a batch need their digits
            return self.loss(h, generator, **options)


def embed_views(model: Model, views: tuple[Tensor, ...]) -> Tensor:
    """Embeddings (view, batch, dim) of views; those of one shape are embedded in one call."""
    return _in_groups(model.embed, views)


def features_of_views(model: Model, views: tuple[Tensor, ...]) -> Tensor:
    """Features (view, batch, dim) of views; those of one shape are computed in one call."""
    return _in_groups(model.features, views)


def _in_groups(function: Callable[[Tensor], Tensor], views: tuple[Tensor, ...]) -> Tensor:
    groups: dict[tuple[int, ...], list[int]] = {}
    for index, view in enumerate(views):
        groups.setdefault(tuple(view.shape[1:]), []).append(index)
    if len(groups) == 1:
        h = function(torch.cat(views))
        return h.reshape(len(views), -1, h.shape[-1])
    parts: dict[int, Tensor] = {}
    for members in groups.values():
        h = function(torch.cat([views[index] for index in members]))
        parts |= zip(members, h.chunk(len(members)), strict=True)
    return torch.stack([parts[index] for index in range(len(views))])


def _takes(loss: Callable[..., Any], option: str) -> bool:
    """Whether a callable accepts a keyword; assumed true if its signature is unknown."""
    try:
        function = loss.forward if isinstance(loss, nn.Module) else loss
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # a callable without a Python signature
        return True
    return any(one.name == option or one.kind is one.VAR_KEYWORD for one in parameters)


def as_objective(objective: Callable[..., Any]) -> Objective:
    """The objective itself, or `OnViews` of a loss of embeddings."""
    return objective if isinstance(objective, Objective) else OnViews(objective)


class Teacher(nn.Module):
    """Exponential moving average of a model.

    Args:
        decay: EMA decay, in [0, 1]; d_0 of the schedule.
        last: d_1, in [0, 1]; by default the decay is constant.

    Example:
        >>> teacher, student = Teacher(decay=0.9), nn.Linear(3, 2)
        >>> teacher.start(as_model(student))
        >>> h = teacher(as_model(student), (torch.zeros(4, 3), torch.ones(4, 3)))
        >>> h.shape, h.requires_grad
        (torch.Size([2, 4, 2]), False)
    """

    @validate_types
    def __init__(self, decay: float, last: float | None = None) -> None:
        super().__init__()
        self.decay = check_decay(decay)
        self.last = self.decay if last is None else check_decay(last)
        self._steps: int | None = None  # not in a checkpoint: `plan` is called when a run resumes
        self.register_module("model", None)

    def start(self, model: Model) -> None:
        """Copy a model.

        Raises:
            ValueError: the model is no torch module.
        """
        module = module_of(model)
        if module is None:
            raise ValueError(f"a teacher must follow a torch module, got {type(model).__name__}")
        self.model = copy.deepcopy(module).requires_grad_(False)

    def plan(self, steps: int) -> None:
        """Set the number of steps of the decay schedule."""
        self._steps = steps

    def decay_at(self, step: int) -> float:
        """EMA decay after `step` steps."""
        if self._steps is None or self.last == self.decay:
            return self.decay
        done = min(1.0, step / self._steps)
        return self.last - (self.last - self.decay) * (math.cos(math.pi * done) + 1) / 2

    def average(self, model: Model) -> Model:
        """The teacher as a model; call it under `torch.no_grad`."""
        if self.model is None:
            self.start(model)
        return as_model(self.model)

    def forward(self, model: Model, views: tuple[Tensor, ...]) -> Tensor:
        """Embeddings of views by the teacher: (view, batch, dim), without gradient."""
        with torch.no_grad():
            return embed_views(self.average(model), views)

    def follow(self, model: Model, step: int = 0) -> None:
        """Update the average, once after each step; `step` steps are done."""
        module = module_of(model)
        if self.model is not None and module is not None:
            follow(self.model, module, self.decay_at(step))

    def extra_repr(self) -> str:
        return f"decay={self.decay}, last={self.last}"
