"""Whitening: the second-moment part of Gaussianity.

    |mean|^2 / dim + |Cov - I|_F^2 / dim,   Cov with divisor n - 1

which Theorem 3 of Klindt, LeCun & Balestriero (2026) shows to be enough in a Gaussian world.
"""

import torch
from torch import Tensor, nn

from isojepa import ranks
from isojepa.arguments import checked
from isojepa.objectives.loss import at_least_float32, check_alone, check_samples


class Whitening(nn.Module):
    """Squared distance of mean and covariance from those of N(0, I), per dimension.

    Args:
        pooled: take all views as one sample; otherwise each view on its own.

    Example:
        >>> bool(Whitening()(torch.zeros(16, 4)) == 1)
        True
    """

    @checked
    def __init__(self, pooled: bool = False) -> None:
        super().__init__()
        self.pooled = pooled

    def forward(self, embeddings: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Return the scalar penalty of embeddings (..., batch, dim); nothing is drawn."""
        check_alone(embeddings, generator)
        check_samples(embeddings)
        if self.pooled:
            embeddings = embeddings.reshape(-1, embeddings.shape[-1])
        covariance, mean = covariance_and_mean(embeddings)
        dim = embeddings.shape[-1]
        identity = torch.eye(dim, dtype=covariance.dtype, device=covariance.device)
        distance = (covariance - identity).square().sum((-2, -1)) + mean.square().sum(-1)
        return distance.mean() / dim

    def extra_repr(self) -> str:
        return f"pooled={self.pooled}"


def covariance_and_mean(embeddings: Tensor) -> tuple[Tensor, Tensor]:
    """Covariance (..., dim, dim) with divisor n - 1, and mean (..., dim), of (..., batch, dim)."""
    embeddings = at_least_float32(embeddings)
    n = ranks.count(embeddings.shape[-2], embeddings.device)
    mean = ranks.mean(embeddings, n)
    centred = embeddings - mean.unsqueeze(-2)
    return ranks.total(centred.mT @ centred) / (n - 1), mean
