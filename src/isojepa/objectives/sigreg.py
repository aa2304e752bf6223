"""SIGReg: sketched isotropic Gaussian regularisation (Balestriero & LeCun 2025, "LeJEPA", Definition 2).

A distribution is N(0, I) exactly when all its one-dimensional projections are N(0, 1). SIGReg projects the
embeddings on random unit directions, drawn anew at each call, and averages the Epps-Pulley statistic.
"""

import torch
from torch import Tensor, nn

from isojepa.objectives.epps_pulley import Grid, sliced_epps_pulley
from isojepa.objectives.loss import check_samples
from isojepa.seeds import Stream


class SIGReg(nn.Module):
    """Distance of embeddings from N(0, I), by slices.

    The value is n times the weighted squared distance of characteristic functions, averaged over slices and
    views. For n samples of N(0, I) itself its expectation is about 1.06, or 0 with `unbiased`.

    Args:
        slices: number of random directions per call; by default 8 per dimension, 16 to 1024.
        knots: points of the quadrature on [-t_max, t_max].
        t_max: end of the quadrature.
        pooled: test all views as one sample; otherwise each view on its own, as published.
        unbiased: remove the O(1/n) bias of the statistic.
        seed: draws the directions when a call brings no generator.

    Example:
        >>> loss = SIGReg(slices=64)(torch.randn(256, 8))
        >>> loss.shape
        torch.Size([])
    """

    def __init__(
        self,
        slices: int | None = None,
        knots: int = 17,
        t_max: float = 5.0,
        pooled: bool = False,
        unbiased: bool = False,
        seed: int = 0,
    ) -> None:
        super().__init__()
        if slices is not None and (int(slices) != slices or slices < 1):
            raise ValueError(f"slices must be a positive integer, got {slices}")
        self.slices = slices
        self.knots = knots
        self.t_max = t_max
        self.pooled = pooled
        self.unbiased = unbiased
        self.grid = Grid.trapezoid(knots, t_max)
        self._stream = Stream(seed, "slices")

    def forward(self, embeddings: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Return the scalar statistic.

        Args:
            embeddings: (..., batch, dim); leading axes are views.
            generator: draws the directions; by default the module's own stream, new at each call.
        """
        check_samples(embeddings)
        dim = embeddings.shape[-1]
        directions = draw_directions(dim, self.slices_for(dim), generator or self._stream.next())
        views = embeddings.reshape(-1, dim) if self.pooled else embeddings
        return sliced_epps_pulley(views, directions.to(embeddings.device), self.grid, self.unbiased)

    def slices_for(self, dim: int) -> int:
        """Number of directions for embeddings of a dimension."""
        return self.slices if self.slices is not None else min(1024, max(16, 8 * dim))

    def extra_repr(self) -> str:
        return (
            f"slices={self.slices}, knots={self.knots}, t_max={self.t_max}, "
            f"pooled={self.pooled}, unbiased={self.unbiased}"
        )


def draw_directions(dim: int, slices: int, generator: torch.Generator) -> Tensor:
    """Draw unit vectors from the uniform law on the sphere: (slices, dim)."""
    directions = torch.randn(slices, dim, generator=generator, device=generator.device)
    return directions / directions.norm(dim=1, keepdim=True)
