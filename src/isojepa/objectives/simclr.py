r"""SimCLR: the normalised temperature-scaled cross entropy, NT-Xent (Chen et al. 2020, ICML, equation 1).

For unit vectors u_i, u'_i of two views of n things and a temperature T, every embedding x is compared with
the 2n - 1 others,

    alignment    mean_i (1 - u_i . u'_i) / T
    regularizer  mean over both views of log (1/(2n - 1)) sum_{y != x} exp(-(1 - x . y) / T)

alignment + regularizer is NT-Xent less log(2n - 1); the objective is weight * regularizer + (1 - weight) *
alignment, so weight 0.5 is half of it. 1 - x . y is half the squared distance: this is `InfoNCE` on the
sphere, of width sqrt(T), with the embeddings of the same view among the negatives.

More than two views are compared in pairs, and the terms are averaged over pairs; where only some views are
global, over the pairs with a global view.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from isojepa import ranks
from isojepa.arguments import checked
from isojepa.objectives.alignment import pairs
from isojepa.objectives.loss import Loss, at_least_float32, check_views, check_weight, combine
from isojepa.registry import Context, Spec, register


class SimCLR(nn.Module):
    """weight * regularizer + (1 - weight) * alignment, of embeddings on the unit sphere.

    Args:
        temperature: T, positive.
        weight: lambda, in [0, 1]; 0.5 is NT-Xent, halved.

    Example:
        >>> loss = SimCLR()(torch.randn(4, 32, 8), global_views=2)
        >>> sorted(loss.terms)
        ['alignment', 'regularizer']
    """

    @checked
    def __init__(self, temperature: float = 0.1, weight: float = 0.5) -> None:
        super().__init__()
        if not 0 < temperature < math.inf:
            raise ValueError(f"temperature must be positive and finite, got {temperature}")
        self.temperature, self.weight = temperature, check_weight(weight)

    def forward(
        self, views: Tensor, generator: torch.Generator | None = None, *, global_views: int | None = None
    ) -> Loss:
        """Return the loss of views (view, batch, dim); nothing is drawn."""
        whole = ranks.gather(at_least_float32(check_views(views, generator)))
        u = functional.normalize(whole, dim=-1)
        n = u.shape[1]
        within: dict[int, Tensor] = {}  # by view: log of the sum over the others of the same view
        alignments, regularizers = [], []
        for v, w in pairs(len(u), global_views):
            energy = self._energy(u[v], u[w])
            alignments.append(-energy.diagonal().mean())
            for view, axis in ((v, 1), (w, 0)):
                if view not in within:
                    own = self._energy(u[view], u[view]).fill_diagonal_(-math.inf)
                    within[view] = torch.logsumexp(own, 1)
                regularizers.append(torch.logaddexp(torch.logsumexp(energy, axis), within[view]).mean())
        regularizer = torch.stack(regularizers).mean() - math.log(2 * n - 1)
        return combine(self.weight, torch.stack(alignments).mean(), regularizer)

    def _energy(self, u: Tensor, other: Tensor) -> Tensor:
        """(n, n) the cosine less 1, over the temperature."""
        return (u @ other.T - 1) / self.temperature

    def extra_repr(self) -> str:
        return f"temperature={self.temperature}, weight={self.weight}"


@register("objective", "simclr")
@dataclass(frozen=True)
class SimCLRSpec(Spec):
    """SimCLR: contrast on the unit sphere, NT-Xent."""

    costless: ClassVar = ("weight", "temperature")
    weight: float = 0.5
    """Lambda, the share of the regularizer, in [0, 1]; 0.5 is NT-Xent, halved."""
    temperature: float = 0.1
    """Temperature of the similarities."""

    def build(self, context: Context) -> SimCLR:
        return SimCLR(self.temperature, self.weight)

    def operations(self, batch: float, dim: int) -> float:
        return 3 * batch**2 * (6 * dim + 50)
