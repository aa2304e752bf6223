"""SwAV: views predict each other's assignments to prototypes (Caron et al. 2020, NeurIPS, equations 1 to 4).

Embeddings and K prototypes are unit vectors. The scores z_u of a global view, cosines, become assignments q_u
by Sinkhorn's iteration over the batch of all ranks, without gradient, and every other view v predicts them:

    loss = mean over global views u, other views v and the batch of  - q_u . log softmax(z_v / T)

with T = 0.1 and three iterations at 0.05. Not implemented of the released recipe: prototypes frozen in the
first epoch, and a queue of earlier embeddings for Sinkhorn's iteration on small batches. There is no teacher:
the assignments are the model's own.

Sinkhorn's iteration (Cuturi 2013, NeurIPS), as in SwAV: for scores S of n samples and K prototypes and a
temperature T, Q = exp(S / T) is scaled alternately so that every prototype gets 1/K of the mass and every
sample 1/n, three times. The rows of n Q, which sum to 1, are the assignments. Sums over samples run over all
ranks.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from isojepa import ranks
from isojepa.data.batch import Batch
from isojepa.objectives.objective import Loss, Models, Objective, at_least_float32, check_views, embed_views
from isojepa.registry import Context, Spec, register
from isojepa.seeds import generator as make_generator
from isojepa.validation import check_count, validate_types


class Prototypes(nn.Module):
    """Cosines of embeddings with learned prototypes.

    Args:
        dim: of the embeddings.
        count: number of prototypes.
        seed: initializes them.
    """

    @validate_types
    def __init__(self, dim: int, count: int, seed: int = 0) -> None:
        super().__init__()
        shape = check_count("count", count), check_count("dim", dim)
        self.weight = nn.Parameter(torch.randn(shape, generator=make_generator(seed, "prototypes")))

    def forward(self, h: Tensor) -> Tensor:
        """(..., dim) to (..., count)."""
        h = at_least_float32(h)
        return functional.normalize(h, dim=-1) @ functional.normalize(self.weight.to(h), dim=-1).T


def across_views(student: Tensor, target: Tensor) -> Tensor:
    """Cross entropy of the teacher's views with the other views of the student, mean over pairs and batch.

    Args:
        student: (view, batch, K) logarithms of probabilities.
        target: (global view, batch, K) probabilities of the first of these views.
    """
    # every view of the student is compared with all views of the teacher but itself
    others = target.sum(0).expand(len(student), -1, -1).clone()
    others[: len(target)] -= target
    pairs = len(student) * len(target) - len(target)
    n = ranks.count(student.shape[1], student.device)
    return -ranks.total((others * student).sum()) / (n * pairs)


@torch.no_grad()
def sinkhorn(scores: Tensor, temperature: float, iterations: int = 3) -> Tensor:
    """Assignments (samples, prototypes), rows of which sum to 1.

    Args:
        scores: (samples, prototypes) of this rank, possibly no samples.
        temperature: T, positive.
        iterations: number of iterations.

    Raises:
        ValueError: the temperature is not positive, or there is no iteration.

    Example:
        >>> q = sinkhorn(torch.tensor([[0.9, 0.1], [0.8, 0.2]]), 0.1)
        >>> [round(float(value), 2) for value in q[1]]  # the nearer prototype is shared
        [0.27, 0.73]
    """
    if not 0 < temperature < math.inf:
        raise ValueError(f"temperature must be positive and finite, got {temperature}")
    check_count("iterations", iterations)
    scores = at_least_float32(scores)
    lowest = scores.new_full((1, 1), -math.inf)
    largest = ranks.gather(torch.cat([lowest, scores.reshape(-1, 1)]).amax(0, keepdim=True)).amax()
    q = torch.exp((scores - largest) / temperature)  # a common factor cancels in the first sum
    tiny = torch.finfo(q.dtype).tiny
    for _ in range(iterations):
        q = q / (ranks.total(q.sum(0)).clamp(min=tiny) * q.shape[1])
        q = q / q.sum(1, keepdim=True).clamp(min=tiny)
    return q


class SwAV(Objective):
    """Cross entropy between balanced assignments of global views and predictions from the other views.

    Args:
        dim: of the embedding.
        prototypes: number of prototypes K.
        temperature: T of the predictions.
        balance_temperature: of Sinkhorn's iteration.
        iterations: of Sinkhorn.
        seed: initializes the prototypes.

    Example:
        >>> from isojepa.encoders.model import as_model
        >>> batch = Batch((torch.randn(16, 8),) * 4, global_views=2)
        >>> models = {"encoder": as_model(torch.nn.Linear(8, 4))}
        >>> sorted(SwAV(dim=4, prototypes=32)(models, batch, torch.Generator()).terms)
        ['alignment']
    """

    prevents_collapse = False

    @validate_types
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
        """The loss of a batch of at least two views; no randomness."""
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
    """Number of prototypes."""
    temperature: float = 0.1
    """Temperature of the predictions."""
    balance_temperature: float = 0.05
    """Temperature of Sinkhorn's iteration."""
    iterations: int = 3
    """Number of Sinkhorn iterations."""

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
