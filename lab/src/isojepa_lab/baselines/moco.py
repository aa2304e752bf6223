"""MoCo v3: contrast with the keys of a momentum encoder (Chen, Xie & He 2021, ICCV, Algorithm 1).

Queries q are predictions from the embeddings of the model, keys k embeddings of its exponential moving
average, both unit vectors. For a query of view v and the keys of a global view u != v of the n images of all
ranks,

    ctr(v, u) = - (2 T / n) sum_i log ( exp(q_v,i . k_u,i / T) / sum_j exp(q_v,i . k_u,j / T) )

and the loss is the mean over pairs; with two global views, of ctr(1, 2) and ctr(2, 1), whose sum the paper
takes. The EMA decay rises from 0.99 to 1 on a cosine schedule.

Not implemented of the released recipe: batch normalization after the last layers of projector and predictor,
and the frozen patch projection of ViTs. Local views, which MoCo does not have, are queries too.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from isojepa import ranks
from isojepa.data.batch import Batch
from isojepa.encoders.layers import Projector, synchronised
from isojepa.objectives.objective import (
    Loss,
    Models,
    Objective,
    Teacher,
    at_least_float32,
    check_views,
    embed_views,
)
from isojepa.registry import Context, Spec, register
from isojepa.validation import check_count, validate_types


class MoCo(Objective):
    """InfoNCE between predicted embeddings and those of a momentum encoder.

    Args:
        dim: of the embedding.
        temperature: T.
        width: hidden units of the predictor.
        decay, last_decay: EMA decay at the first and the last step.
        seed: initializes the predictor.

    Example:
        >>> from isojepa.encoders.model import as_model
        >>> batch = Batch((torch.randn(16, 8),) * 2)
        >>> models = {"encoder": as_model(torch.nn.Linear(8, 4))}
        >>> sorted(MoCo(dim=4, width=16)(models, batch, torch.Generator()).terms)
        ['accuracy', 'contrast']
    """

    prevents_collapse = False

    @validate_types
    def __init__(
        self,
        dim: int,
        temperature: float = 0.2,
        width: int = 4096,
        decay: float = 0.99,
        last_decay: float = 1.0,
        seed: int = 0,
    ) -> None:
        super().__init__()
        if not 0 < temperature < math.inf:
            raise ValueError(f"temperature must be positive and finite, got {temperature}")
        self.temperature = temperature
        widths = f"{check_count('width', width)}-{check_count('dim', dim)}"
        self.predictor = synchronised(Projector(dim, widths, seed))
        self.teacher = Teacher(decay, last_decay)

    def start(self, models: Models) -> None:
        """Copy the model as the momentum encoder."""
        self.teacher.start(next(iter(models.values())))

    def plan(self, steps: int) -> None:
        """Set the length of the decay schedule."""
        self.teacher.plan(steps)

    def forward(self, models: Models, batch: Batch, generator: torch.Generator) -> Loss:
        """The loss of a batch of at least two views; `accuracy`: fraction of positive nearest keys."""
        model = next(iter(models.values()))
        h = check_views(embed_views(model, batch.views), generator)
        predicted = self.predictor(h.flatten(0, 1)).view_as(h)
        keys = self.teacher(model, batch.views[: batch.global_views])
        with torch.autocast(h.device.type, enabled=False):  # sums over a batch need their digits
            queries = functional.normalize(at_least_float32(predicted), dim=-1)
            keys = ranks.gather(functional.normalize(at_least_float32(keys), dim=-1))
            mine, n = ranks.rows(h.shape[1], h.device)
            positives = torch.arange(mine.start, mine.stop, device=h.device)
            pairs = [(v, u) for u in range(len(keys)) for v in range(len(queries)) if u != v]
            sums = [self._contrast(queries[v], keys[u], positives) for v, u in pairs]
            contrast, correct = (torch.stack(part).sum() for part in zip(*sums, strict=True))
            count = n * len(pairs)
            total = 2 * self.temperature * ranks.total(contrast) / count
            return Loss(total, {"contrast": total, "accuracy": ranks.total(correct) / count})

    def _contrast(self, queries: Tensor, keys: Tensor, positives: Tensor) -> tuple[Tensor, Tensor]:
        """Sums over samples of this rank: cross entropy, and correct nearest keys."""
        logits = queries @ keys.T / self.temperature
        loss = functional.cross_entropy(logits, positives, reduction="sum")
        return loss, (logits.detach().argmax(1) == positives).sum().to(loss)

    def after_step(self, models: Models, step: int) -> None:
        """Update the momentum encoder."""
        self.teacher.follow(next(iter(models.values())), step)

    def extra_repr(self) -> str:
        return f"temperature={self.temperature}"


@register("objective", "moco")
@dataclass(frozen=True)
class MoCoSpec(Spec):
    """MoCo v3: contrast with the keys of a momentum encoder."""

    costless: ClassVar = ("temperature", "decay", "last_decay")
    temperature: float = 0.2
    """Temperature of the similarities."""
    width: int = 4096
    """Hidden units of the predictor."""
    decay: float = 0.99
    """EMA decay of the momentum encoder at the first step."""
    last_decay: float = 1.0
    """EMA decay of the momentum encoder at the last step (cosine schedule)."""

    def build(self, context: Context) -> MoCo:
        if context.embedding is None:
            raise ValueError("moco needs to know the embedding dimension: set the encoder's dim")
        return MoCo(
            context.embedding, self.temperature, self.width, self.decay, self.last_decay, context.seed
        )

    def operations(self, batch: float, dim: int) -> float:
        return 12 * batch * dim * (self.width + batch)
