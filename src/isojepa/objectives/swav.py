r"""SwAV: views predict each other's assignments to prototypes (Caron et al. 2020, NeurIPS, equations 1 to 4).

Embeddings and K prototypes are unit vectors. The scores z_u of a global view, cosines, become assignments
q_u by Sinkhorn's iteration over the batch of all ranks (`sinkhorn.py`), without gradient, and every other
view v predicts them:

    loss = mean over global views u, other views v and the batch of  - q_u . log softmax(z_v / T)

with T = 0.1, three iterations at 0.05. What the released recipe does besides and this does not: prototypes
that stay fixed in the first epoch, and a queue of earlier embeddings that joins Sinkhorn's iteration where
the batch is small. There is no teacher: codes come from the model itself.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch

from isojepa.arguments import check_count, checked
from isojepa.objectives.distillation import Prototypes, across_views
from isojepa.objectives.objective import Loss, Models, Objective, check_views, embed_views
from isojepa.objectives.sinkhorn import sinkhorn
from isojepa.registry import Context, Spec, register
from isojepa.worlds.batch import Batch


class SwAV(Objective):
    """Cross entropy between balanced assignments of global views and the predictions of the others.

    Args:
        dim: of the model's embedding.
        prototypes: K.
        temperature: T of the predictions.
        balance_temperature: of Sinkhorn's iteration.
        iterations: of it.
        seed: draws the prototypes.

    Example:
        >>> from isojepa.encoders.model import as_model
        >>> batch = Batch((torch.randn(16, 8),) * 4, global_views=2)
        >>> models = {"encoder": as_model(torch.nn.Linear(8, 4))}
        >>> sorted(SwAV(dim=4, prototypes=32)(models, batch, torch.Generator()).terms)
        ['alignment']
    """

    spreads = False

    @checked
    def __init__(
        self,
        dim: int,
        prototypes: int = 512,
        temperature: float = 0.1,
        balance_temperature: float = 0.05,
        iterations: int = 3,
        seed: int = 0,
    ) -> None:
        super().__init__()
        for name, value in {"temperature": temperature, "balance_temperature": balance_temperature}.items():
            if not 0 < value < math.inf:
                raise ValueError(f"{name} must be positive and finite, got {value}")
        self.temperature, self.balance_temperature = temperature, balance_temperature
        self.iterations = check_count("iterations", iterations)
        self.head = Prototypes(dim, prototypes, seed)

    def forward(self, models: Models, batch: Batch, generator: torch.Generator) -> Loss:
        """The loss of a batch of at least two views; nothing is drawn."""
        h = check_views(embed_views(next(iter(models.values())), batch.views), generator)
        with torch.autocast(h.device.type, enabled=False):  # sums over a batch need their digits
            scores = self.head(h)
            codes = [
                sinkhorn(view.detach(), self.balance_temperature, self.iterations)
                for view in scores[: batch.global_views]
            ]
            alignment = across_views(torch.log_softmax(scores / self.temperature, -1), torch.stack(codes))
        return Loss(alignment, {"alignment": alignment})

    def extra_repr(self) -> str:
        return (
            f"temperature={self.temperature}, balance_temperature={self.balance_temperature}, "
            f"iterations={self.iterations}"
        )


@register("objective", "swav")
@dataclass(frozen=True)
class SwAVSpec(Spec):
    """SwAV: views predict each other's balanced assignments to prototypes."""

    costless: ClassVar = ("temperature", "balance_temperature")
    prototypes: int = 512
    """Directions that embeddings are assigned to."""
    temperature: float = 0.1
    """Temperature of the predictions."""
    balance_temperature: float = 0.05
    """Temperature of Sinkhorn's iteration."""
    iterations: int = 3
    """How often samples and prototypes are balanced."""

    def build(self, context: Context) -> SwAV:
        if context.embedding is None:
            raise ValueError("swav needs to know the embedding dimension: set the encoder's dim")
        return SwAV(
            context.embedding,
            self.prototypes,
            self.temperature,
            self.balance_temperature,
            self.iterations,
            context.seed,
        )

    def operations(self, batch: float, dim: int) -> float:
        return 2 * batch * self.prototypes * (6 * dim + 50)
