"""Powers of unit complex numbers by tensor operations: on any device, in any precision, with a graph."""

from collections.abc import Iterator

import torch
from torch import Tensor

from isojepa.objectives.gaussianity.quadrature import Grid


class TensorPowers:
    """e^{i t p} at the knots of a grid: powers of e^{i step p} where the knots are equally spaced.

    Args:
        p: (..., batch, slices) projections.
        grid: the knots t.

    Example:
        >>> powers = TensorPowers(torch.zeros(5, 2), Grid.trapezoid(17, 5.0))
        >>> powers.sums().shape  # cosines and sines, slices, positive knots
        torch.Size([2, 2, 8])
        >>> powers.series(torch.ones(2, 8), torch.zeros(2, 8))[0]
        tensor([8., 8.])
    """

    def __init__(self, p: Tensor, grid: Grid) -> None:
        self.p, self.grid = p, grid
        self.first = torch.cos(grid.first * p), torch.sin(grid.first * p)
        self.step = self.first
        if grid.halved and grid.step is not None:
            self.step = torch.cos(grid.step * p), torch.sin(grid.step * p)

    def sums(self) -> Tensor:
        """(2, ..., slices, half) sums of cosines and of sines over the batch."""
        return torch.stack([torch.stack((c.sum(-2), s.sum(-2))) for c, s in self._up()], -1)

    def series(self, re: Tensor, im: Tensor) -> Tensor:
        """Re( sum_j (re_j + i im_j) e^{i t_j p} ); by Horner's rule where the knots are equally spaced.

        Args:
            re, im: (..., slices, half) coefficients, the same for every sample.

        Returns:
            As p.
        """
        re, im = re.unsqueeze(-3), im.unsqueeze(-3)
        if self.grid.step is None:
            terms = (c * re[..., j] - s * im[..., j] for j, (c, s) in enumerate(self._up()))
            return sum(terms, torch.zeros_like(self.p))
        wc, ws = self.step
        c, s = re[..., -1].expand_as(self.p), im[..., -1].expand_as(self.p)
        for j in range(len(self.grid.t) - 2, -1, -1):
            c, s = (
                torch.addcmul(torch.addcmul(re[..., j], c, wc), s, ws, value=-1),
                torch.addcmul(torch.addcmul(im[..., j], c, ws), s, wc),
            )
        return c * self.first[0] - s * self.first[1]

    def _up(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Real and imaginary part, knot by knot."""
        if self.grid.step is None:
            for t in self.grid.t:
                yield torch.cos(float(t) * self.p), torch.sin(float(t) * self.p)
            return
        c, s = self.first
        yield c, s
        wc, ws = self.step
        for _ in self.grid.t[1:]:
            c, s = torch.addcmul(c * wc, s, ws, value=-1), torch.addcmul(c * ws, s, wc)
            yield c, s
