"""Permutation-contrastive learning: which pairs are pairs, told by functions of one coordinate each.

A logistic regression separates pairs (x, x') of neighbors in time from pairs whose second half was permuted,

    r(x, x') = sum_i B_i(h_i(x), h_i(x')) + c,        loss = E softplus(-r(x, x')) + E softplus(r(x, x*)),

with the encoder h and the functions B_i trained together (Hyvarinen & Morioka 2017, "Nonlinear ICA of
temporally dependent stationary sources"). At the optimum r is the log ratio of the joint density and the
product of its marginals. Of independent sources it is a sum of functions of one source each, and h_i is then
a function of one of them: axes come with their names, unless the log ratio is that of a Gaussian pair. Of
neighbors in a diffusion of constant strength it nearly is: -(z' - z)^2 / 4t but for the drift and the edges.

Each B_i is  a_i h h' - b_i (h^2 + h'^2) / 2  plus a perceptron of its own with one hidden layer of tanh.
Training starts with a_i = b_i = 1 and a perceptron that is small: pairs attract from the first step.
"""

import torch
from torch import Tensor, nn

from isojepa.data.batch import Batch
from isojepa.objectives.objective import Loss, Models, Objective, embed_views
from isojepa.seeds import generator
from isojepa.validation import check_count

_INPUTS = 2  # of each perceptron


class PairFunctions(nn.Module):
    """r(h, h') = sum_i B_i(h_i, h_i') + c.

    Args:
        dim: number of coordinates.
        hidden: width of each perceptron.
        seed: draws the initial weights.
    """

    def __init__(self, dim: int, hidden: int = 16, seed: int = 0) -> None:
        super().__init__()
        check_count("dim", dim)
        check_count("hidden", hidden)
        source = generator(seed, "pair functions")
        self.inner = nn.Parameter(torch.randn(dim, _INPUTS, hidden, generator=source) / _INPUTS**0.5)
        self.shift = nn.Parameter(torch.randn(dim, 1, hidden, generator=source) / 2)
        self.outer = nn.Parameter(torch.randn(dim, hidden, 1, generator=source) / hidden)
        self.product = nn.Parameter(torch.ones(dim))
        self.squares = nn.Parameter(torch.ones(dim))
        self.constant = nn.Parameter(torch.zeros(()))

    def forward(self, h: Tensor, h_next: Tensor) -> Tensor:
        """The log odds (batch,) that rows of (batch, dim) are pairs."""
        hidden = torch.tanh(torch.stack((h, h_next), -1).transpose(0, 1) @ self.inner + self.shift)
        bent = (hidden @ self.outer).sum((0, 2))
        odds: Tensor = (
            (h * h_next) @ self.product - (h**2 + h_next**2) @ self.squares / 2 + bent + self.constant
        )
        return odds


class PermutationContrast(Objective):
    """The logistic loss of telling pairs from permuted ones.

    Args:
        odds: (h, h') to the log odds; trained with the encoder.
        permutations: of the second views, each compared with; their mean is taken.
    """

    def __init__(self, odds: nn.Module, permutations: int = 1) -> None:
        super().__init__()
        self.odds = odds
        self.permutations = check_count("permutations", permutations)

    def forward(self, models: Models, batch: Batch, generator: torch.Generator) -> Loss:
        """Embed both views, and compare pairs with permuted ones."""
        h, h_next = embed_views(next(iter(models.values())), batch.views)
        real = nn.functional.softplus(-self.odds(h, h_next)).mean()
        permuted = torch.zeros_like(real)
        for _ in range(self.permutations):
            order = torch.randperm(len(h), generator=generator, device=generator.device).to(h.device)
            permuted = permuted + nn.functional.softplus(self.odds(h, h_next[order])).mean()
        permuted = permuted / self.permutations
        return Loss(real + permuted, {"real": real.detach(), "permuted": permuted.detach()})
