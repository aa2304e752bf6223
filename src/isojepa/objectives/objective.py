"""What training minimises: an objective is called with the models, the batch and the step's generator.

An `Objective` may own modules (a predictor, a decoder, a moving-average teacher, a queue, prototypes),
which are trained or kept with the models, may look at the models before the first step, and may act after
each step. Losses of embeddings alone, such as `LeJEPA`, are plain functions of views (view, batch, dim);
`OnViews` makes an objective of one.
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from isojepa.arguments import checked
from isojepa.encoders.model import Model
from isojepa.objectives.loss import Loss
from isojepa.worlds.batch import Batch

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
