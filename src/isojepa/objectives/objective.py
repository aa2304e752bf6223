"""What an objective is: its call, its `Loss`, and features read from inside a model.

What training minimises: an objective is called with the models, the batch and the step's generator.

An `Objective` may own modules (a predictor, a decoder, a moving-average teacher, a queue, prototypes),
which are trained or kept with the models, may look at the models before the first step, and may act after
each step. Losses of embeddings alone, such as `LeJEPA`, are plain functions of views (view, batch, dim);
`OnViews` makes an objective of one.

What an objective returns: a total to minimise, with named terms.

Losses of views (view, batch, dim) always have

total = weight * regularizer + (1 - weight) * alignment

Features that an objective has computed already: a model that remembers its answers for one step.

An objective around another needs the features of views that the inner one has embedded a moment ago. A second
pass would double the price of a step, so the inner one is handed a model that answers as the first and keeps
what it said; views are found again by their content. Where the inner one never asked for the features of a
whole view, as masked prediction, they are computed.
"""

import copy
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor, nn

from isojepa import ranks
from isojepa.arguments import check_number, checked
from isojepa.encoders.model import Model, Plain
from isojepa.worlds.batch import Batch


@dataclass(frozen=True)
class Loss:
    """The total to minimise, with its named terms (detached from nothing: they carry gradients)."""

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
    """Return the weight, or say that it must lie in [0, 1]."""
    return check_number("weight", weight, "lie in [0, 1]", lambda value: 0 <= value <= 1)


def check_views(views: Any, generator: Any = None) -> Tensor:
    """Return the views, or say what is wrong with their shape, or with how the loss was called.

    Args:
        views: what was given as the embeddings (view, batch, dim).
        generator: what was given after them.
    """
    if isinstance(generator, Tensor) or isinstance(views, list | tuple):
        raise ValueError(
            f"views must be one tensor (view, batch, dim), got {_told(views, generator)}: "
            "write loss(torch.stack((h, h_next)))"
        )
    if not isinstance(views, Tensor) or views.ndim != 3 or views.shape[0] < 2:
        raise ValueError(
            "views must be (view, batch, dim) with at least 2 views, got "
            f"{_told(views)}: of two embeddings (batch, dim), torch.stack((h, h_next))"
        )
    check_floats("views", views)
    check_generator(generator)
    check_samples(views)
    return views


def check_floats(name: str, x: Any) -> Tensor:
    """Return a tensor of floating point numbers that has data, or say what it is."""
    if not isinstance(x, Tensor) or not x.is_floating_point():
        kind = x.dtype if isinstance(x, Tensor) else type(x).__name__
        raise ValueError(f"{name} must be a tensor of floating point numbers, got {kind}")
    if x.is_meta or x.layout is not torch.strided:
        told = "one without data" if x.is_meta else x.layout
        raise ValueError(f"{name} must be a dense tensor of plain numbers, got {told}")
    return x


def check_alone(embeddings: Any, generator: Any) -> None:
    """Say how to call a regularizer that was given two embeddings."""
    if isinstance(generator, Tensor) or isinstance(embeddings, list | tuple):
        raise ValueError(
            f"embeddings must be one tensor (..., batch, dim), got {_told(embeddings, generator)}: of two "
            "views, write regularizer(torch.stack((h, h_next))), which is the mean over both"
        )
    check_generator(generator)


def check_generator(generator: Any) -> None:
    """Say that what is drawn comes from a generator of torch."""
    if generator is not None and not isinstance(generator, torch.Generator):
        raise ValueError(f"generator must be a torch.Generator or None, got {type(generator).__name__}")


def _told(*given: Any) -> str:
    """Shapes of tensors, kinds of other things, for messages."""
    parts = [part for part in given if part is not None]
    told = [
        f"shape {tuple(part.shape)}" if isinstance(part, Tensor) else type(part).__name__ for part in parts
    ]
    return " and ".join(told)


def at_least_float32(x: Tensor) -> Tensor:
    """Sums over a batch need more digits than half precision has."""
    return x if x.dtype == torch.float64 else x.float()


def check_samples(embeddings: Tensor) -> Tensor:
    """Return the embeddings, or say that a statistic needs at least two samples, on all ranks together."""
    check_floats("embeddings", embeddings)
    known = embeddings.ndim >= 2 and embeddings.shape[-1] >= 1
    if not known or ranks.count(embeddings.shape[-2], embeddings.device) < 2:
        raise ValueError(
            f"embeddings must be (..., batch, dim) with at least 2 samples, got {tuple(embeddings.shape)}"
        )
    return embeddings


Models = Mapping[str, Model]


class Objective(nn.Module):
    """What is minimised. Subclasses define `forward`, and `start`, `plan`, `after_step` if they act then."""

    spreads: ClassVar[bool] = True
    """Whether it asks for variance in every direction of the embedding, so that one without is a collapse."""

    def start(self, models: Models) -> None:
        """Look at the models before the first step, e.g. copy one as a teacher; called by whoever trains.

        A checkpoint is read after it, so what is made here is also what a run goes on with.
        """

    def plan(self, steps: int) -> None:
        """Called once with the total number of steps, to set up schedules; called by whoever trains."""

    def window(self, models: Models) -> int:
        """Actions in a window of recorded episodes that the objective needs."""
        return 1

    def seen(self, models: Models, batch: Batch) -> Mapping[str, Batch]:
        """What each model is shown of a batch: all of it, unless it holds the views of several observers."""
        return dict.fromkeys(models, batch)

    def forward(self, models: Models, batch: Batch, generator: torch.Generator) -> Loss:
        """The loss of a batch.

        Args:
            models: by name; the first is the one that is used afterwards. Losses over several ranks go
                through `isojepa.ranks`: the batch is this rank's share.
            batch: on the models' device.
            generator: for whatever is drawn; the same on all ranks.
        """
        raise NotImplementedError(f"{type(self).__name__} must define forward(models, batch, generator)")

    def after_step(self, models: Models, step: int) -> None:
        """Act when the optimiser has moved the weights, e.g. move a teacher; `step` steps are done."""


class OnViews(Objective):
    """A loss of the embeddings of all views of the first model.

    Args:
        loss: called with views (view, batch, dim) and a generator, and with `global_views=` when fewer than
            all views make the centre; a loss that does not take it is for batches whose views are all alike.
    """

    @checked
    def __init__(self, loss: Callable[..., Loss]) -> None:
        super().__init__()
        self.loss = loss
        self._centres = _takes(loss, "global_views")

    def forward(self, models: Models, batch: Batch, generator: torch.Generator) -> Loss:
        """Embed every view and return the loss."""
        h = embed_views(next(iter(models.values())), batch.views)
        some = batch.global_views < len(batch.views)
        if some and not self._centres:
            raise ValueError(
                f"{type(self.loss).__name__} takes all views alike, got a batch of which "
                f"{batch.global_views} of {len(batch.views)} make the centre: "
                "use a loss that takes global_views, such as LeJEPA"
            )
        options: dict[str, Any] = {"global_views": batch.global_views} if some else {}
        with torch.autocast(h.device.type, enabled=False):  # sums over a batch need their digits
            return self.loss(h, generator, **options)


def embed_views(model: Model, views: tuple[Tensor, ...]) -> Tensor:
    """Embeddings (view, batch, dim) of views whose shapes may differ; those of one shape go together."""
    return _in_groups(model.embed, views)


def features_of_views(model: Model, views: tuple[Tensor, ...]) -> Tensor:
    """Features (view, batch, dim) of views whose shapes may differ; those of one shape go together."""
    return _in_groups(model.features, views)


def _in_groups(answer: Callable[[Tensor], Tensor], views: tuple[Tensor, ...]) -> Tensor:
    groups: dict[tuple[int, ...], list[int]] = {}
    for index, view in enumerate(views):
        groups.setdefault(tuple(view.shape[1:]), []).append(index)
    if len(groups) == 1:
        h = answer(torch.cat(views))
        return h.reshape(len(views), -1, h.shape[-1])
    found: dict[int, Tensor] = {}
    for members in groups.values():
        h = answer(torch.cat([views[index] for index in members]))
        found |= zip(members, h.chunk(len(members)), strict=True)
    return torch.stack([found[index] for index in range(len(views))])


def _takes(loss: Callable[..., Any], option: str) -> bool:
    """Whether a callable accepts a keyword; assumed true if its signature is unknown."""
    try:
        called = loss.forward if isinstance(loss, nn.Module) else loss
        taken = inspect.signature(called).parameters.values()
    except (TypeError, ValueError):  # written in another language than Python
        return True
    return any(one.name == option or one.kind is one.VAR_KEYWORD for one in taken)


def as_objective(objective: Callable[..., Any]) -> Objective:
    """The objective itself, or one that hands a loss of views the embeddings of the first model."""
    return objective if isinstance(objective, Objective) else OnViews(objective)


class Listened:
    """A model for one step, and what it answered.

    Args:
        model: what answers.

    Attributes:
        model: the same model to hand on, of the same class and weights.

    Example:
        >>> calls = []
        >>> def double(x):
        ...     calls.append(len(x))
        ...     return 2 * x
        >>> listened, x = Listened(Plain(double)), torch.arange(6.0).reshape(6, 1)
        >>> _ = listened.model.embed(x)
        >>> listened.features(x[3:]).flatten().tolist(), calls
        ([6.0, 8.0, 10.0], [6])
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._heard: list[tuple[Tensor, Tensor]] = []
        # a shallow copy shares all weights; its own `features` is what its `embed` calls
        twin: Any = copy.copy(model)
        answer = model.features

        def features(x: Tensor) -> Tensor:
            found = answer(x)
            self._heard.append((x, found))
            return found

        twin.features = features
        if isinstance(model, Plain):
            twin.embed = features
        self.model: Model = twin

    def features(self, view: Tensor) -> Tensor:
        """Features (batch, dim) of a view, from memory if it was among what was asked."""
        for asked, found in self._heard:
            if asked.shape[1:] != view.shape[1:] or len(asked) % len(view):
                continue
            for start in range(0, len(asked), len(view)):
                if torch.equal(asked[start : start + len(view)], view):
                    return found[start : start + len(view)]
        found = self._model.features(view)
        self._heard.append((view, found))
        return found
